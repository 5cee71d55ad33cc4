# SPDX-License-Identifier: Apache-2.0
"""Names of asyncio tasks of a real CPython 3.14, in what is exported and in pprof."""
import collections
import gzip
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
TEST = os.path.dirname(HERE)
sys.path[:0] = [HERE, *(os.path.join(TEST, "integration", folder) for folder in ("support", "pages"))]
import harness  # noqa: E402
import test_frames  # noqa: E402
import test_python_frames  # noqa: E402

PROGRAM = os.path.join(TEST, "support", "runtimes", "python", "tasks.py")
ATTRIBUTE = "python.asyncio.task.name"
WANTED = 1000


def number_of(text, before):
    return int(text.rpartition(before)[2])


@harness.needs_sampling
class PythonTasks(test_frames.FramesOf):
    executables = ("python3.14",)
    frequency = 499

    def run_tasks(self):
        try:
            python = test_python_frames.from_maven(test_python_frames.MAVEN[-1])
        except test_python_frames.Missing as missing:
            self.skipTest(str(missing))
        process = subprocess.Popen([python, PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)

        def end():
            process.kill()
            process.communicate()
        self.addCleanup(end)
        return process.pid

    def spinning(self, pid):
        """(number of the function, name of the task) and their samples."""
        found = collections.Counter()
        for sample in self.backend.samples(pid):
            for function in sample.functions():
                if function and function.startswith("spin_"):
                    found[number_of(function, "_"), sample.attributes.get(ATTRIBUTE)] += sample.count()
                    break
        return found

    def test_names(self):
        pid = self.run_tasks()

        def in_tasks():
            return sum(n for (number, _), n in self.spinning(pid).items() if number > 1) >= WANTED
        harness.wait_until(in_tasks, 180 * harness.SLOWNESS, "%d samples in tasks" % WANTED)
        found = self.spinning(pid)
        in_none = sum(n for (number, name), n in found.items() if number <= 1)
        self.assertEqual([key for key in found if key[0] <= 1 and key[1] is not None], [])
        named = {key: n for key, n in found.items() if key[0] > 1 and key[1] is not None}
        nameless = sum(n for (number, name), n in found.items() if number > 1 and name is None)
        self.assertEqual([key for key in named if number_of(key[1].rstrip("y"), "-") != key[0]], [])
        print("%d samples with a task's name, %d without, %d in none" % (sum(named.values()), nameless, in_none))
        self.assertLessEqual(nameless * 100, sum(named.values()))
        self.assertGreater(in_none, 10)
        for name in ("ascii-1000", "größe-1001", "задача-1002",
                     "🐍-1003", "mine-2002"):
            self.assertIn(name, {key[1] for key in named})
        self.in_pprof("größe-1001")

    def in_pprof(self, name):
        def kept():
            status, _, body = self.ask("/debug/pprof/profile", from_="-1h")
            self.assertEqual(status, 200, body)
            return name.encode() in gzip.decompress(body)
        harness.wait_until(kept, 60 * harness.SLOWNESS, "the name is in the profile")


if __name__ == "__main__":
    harness.main()

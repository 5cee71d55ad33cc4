# SPDX-License-Identifier: Apache-2.0
"""Frames of the JVM that is installed here, against its own jstack; of programs that run, whether they reach main."""
import collections
import os
import shutil
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))
import harness  # noqa: E402
import hotspot_stacks  # noqa: E402

SAMPLES = 250
LEAST = 0.98  # of so few samples; test/peers has more
NATIVE_S, HZ, GAPS, TRIES = 4, 997, 100, 10  # a busy machine takes several tries to so many
UNNAMED = 0.01  # of the frames at the most: code that was replaced meanwhile


@unittest.skipUnless(os.geteuid() == 0, "needs root")
@unittest.skipUnless(shutil.which("javac") and shutil.which("jstack"), "needs a JDK")
class HotSpot(unittest.TestCase):
    def setUp(self):
        directory = tempfile.mkdtemp(prefix="spanprof-hotspot-")
        self.addCleanup(shutil.rmtree, directory, ignore_errors=True)
        self.java = shutil.which("java")
        self.programs = hotspot_stacks.Programs(directory)
        self.addCleanup(self.programs.end)
        self.programs.compile()

    def compare(self, *flags, calls=8000):
        process = self.programs.start(self.java, flags, "Stacks", "wait", str(calls))
        theirs, stacks = hotspot_stacks.threads(self.java, process.pid)
        equal, different = hotspot_stacks.differences(theirs, stacks)
        self.assertEqual(different, [])
        self.assertGreater(equal, 150)
        return {line.kind for stack in stacks for line in stack.lines()}

    def test_threads(self):
        self.assertEqual(self.compare(), {"compiled", "interpreted"})

    def test_interpreted(self):
        self.assertEqual(self.compare("-Xint", calls=200), {"interpreted"})

    def test_running(self):
        for flags in ([], ["-Xint"]):
            process = self.programs.start(self.java, flags, "Stacks", "spin")
            stacks = hotspot_stacks.inspect("samples", process.pid, SAMPLES, 0)
            good = [stack for stack in stacks if stack.complete() and
                    (stack.functions() or ["Stacks.main"])[-1] in ("Stacks.main", "java.lang.Thread.run")]
            print("%s: %d of %d stacks reach their outermost frame" % (" ".join(flags) or "default", len(good),
                                                                       len(stacks)))
            self.assertEqual(len(stacks), SAMPLES)
            self.assertGreaterEqual(len(good) / len(stacks), LEAST)
            frames = [frame.outcome for stack in stacks for frame in stack.frames if frame.kind != "native"]
            self.assertLessEqual(len([outcome for outcome in frames if outcome != "named"]), UNNAMED * len(frames))
            self.programs.end()

    def test_native(self):
        """Code in C without unwind tables, whose frame pointer is a number: behind it the stack goes on with Java."""
        library = self.programs.library()
        if not library:
            self.skipTest("no compiler, or a JDK without headers")
        for flags in ([], ["-Xint"]):
            process = self.programs.start(self.java, flags, "Natives", library)
            counts = collections.Counter()
            for _ in range(TRIES):
                more = hotspot_stacks.ticks(process.pid, NATIVE_S, HZ, "Natives.main", "java.lang.Thread.run")
                if more is None:
                    self.skipTest("needs the rights to sample")
                counts.update(more)
                if counts["gaps"] > GAPS:
                    break
            print("%s: %s" % (" ".join(flags) or "default", counts))
            self.assertGreater(counts["gaps"], GAPS)
            self.assertGreaterEqual(counts["complete"], LEAST * (counts["stacks"] + counts["without"]))
            self.programs.end()


if __name__ == "__main__":
    harness.main()

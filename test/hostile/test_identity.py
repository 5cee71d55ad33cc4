# SPDX-License-Identifier: Apache-2.0
"""A file lends its names and unwind rows to itself alone, whatever build id is in it and whatever path it lies at."""
import concurrent.futures
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
import neighbour  # noqa: E402
from neighbour import harness  # noqa: E402
import twins  # noqa: E402

IN_MOUNT_NAMESPACE = ("--mount", "--propagation", "private")


def build_id(path):
    notes = subprocess.run(["readelf", "-n", path], stdout=subprocess.PIPE, check=True, text=True).stdout
    return notes.split("Build ID: ")[1]


@harness.needs_sampling
class Identity(twins.TwinsTest):
    def setUp(self):
        super().setUp()
        self.sp = self.spanprof(over={"processors": {"join": {"wait": "1s"}}})
        self.sp.wait_sampling()

    def forged_twin_in_a_mount_namespace(self):
        """A user shows its file at the path of another one's, before that is first seen, and while it runs."""
        honest, forged = self.place("honest", "site"), self.place("forged", "evil")
        self.assertEqual(build_id(honest), build_id(forged))
        attack = self.start_forged(forged, honest)
        for victim in [self.start_twin(honest, uid=0, cpus=1) for _ in range(2)]:
            self.assert_true_stacks(victim, "honest_function")
        self.assertIsNone(attack.poll())

    def file_of_a_removed_one(self):
        """The inode number may be used again. Its names are not."""
        path = self.place("forged", "removed")
        forged = self.start_twin(path, cpus=1)
        self.await_leaf(forged.pid, "forged_function")
        forged.kill()
        forged.wait()
        os.unlink(path)
        self.assertEqual(self.place("honest", "removed"), path)
        self.assert_true_stacks(self.start_twin(path, cpus=1), "honest_function")

    def test_files(self):
        with concurrent.futures.ThreadPoolExecutor() as pool:
            cases = {case: pool.submit(case)
                     for case in (self.forged_twin_in_a_mount_namespace, self.file_of_a_removed_one)}
        for case, future in cases.items():
            with self.subTest(case.__name__):
                future.result()

    def start_on_overlay(self, directory, options, unshare, **user):
        """The process; None if overlayfs cannot be mounted here."""
        self.place("honest", directory + "/lower")
        for name in ("upper", "work", "merged"):
            os.mkdir(self.path(directory, name))
            os.chmod(self.path(directory, name), 0o777)
        mount = 'cd "$1" && mount -t overlay overlay -o lowerdir=lower,upperdir=upper,workdir=work%s merged' % options
        process = self.neighbour(cpus=0.7, **user).start(
            "sh", "-c", mount + " && echo mounted && exec merged/app %d" % twins.HOLD_S, "sh", self.path(directory),
            stdout=subprocess.PIPE, unshare=unshare)
        return process if process.stdout.readline() else None

    def ticks_unwind(self, pids):
        """Whether most of their next stacks were not copied to be unwound later, which the ticks count for all processes."""
        def counts():
            return self.sp.metric("spanprof_stacks_copied_total"), [len(self.stacks(pid)) for pid in pids]
        copied, before = counts()
        for pid, n in zip(pids, before):
            self.await_stacks(pid, n + twins.STACKS)
        copied_then, after = counts()
        return copied_then - copied < (sum(after) - sum(before)) / 4

    def test_overlays(self):
        """Of root and of a user. They have the honest names, and ticks unwind them with the rows of their file."""
        started = {"root": self.start_on_overlay("root", "", IN_MOUNT_NAMESPACE, uid=0),
                   "user": self.start_on_overlay("user", ",userxattr", twins.IN_USER_NAMESPACE)}
        pids = [process.pid for process in started.values() if process]
        for pid in pids:
            self.await_stacks(pid)
        harness.wait_until(lambda: self.ticks_unwind(pids), 30, "ticks unwind their stacks")
        for who, process in started.items():
            with self.subTest(who):
                if not process:
                    self.skipTest("overlayfs cannot be mounted here")
                self.assert_true_stacks(process, "honest_function")


if __name__ == "__main__":
    harness.main()

# SPDX-License-Identifier: Apache-2.0
"""A file lends its names and unwind rows to itself alone, whatever build id is in it and whatever path it lies at."""
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
import neighbour  # noqa: E402
from neighbour import harness  # noqa: E402

SECONDS = 60
IN_USER_NAMESPACE = ("--user", "--map-root-user", "--mount")
IN_MOUNT_NAMESPACE = ("--mount", "--propagation", "private")


@harness.needs_sampling
class Identity(neighbour.HostileTest):
    def setUp(self):
        super().setUp()
        self.sp = self.spanprof(over={"processors": {"join": {"wait": "1s"}}})
        self.sp.wait_sampling()
        os.chmod(self.directory, 0o755)

    def path(self, *names):
        return os.path.join(self.directory, *names)

    def place(self, twin, directory, name="app"):
        """A copy of a twin; its path."""
        os.makedirs(self.path(directory), exist_ok=True)
        os.chmod(self.path(directory), 0o777)
        shutil.copy(os.path.join(harness.BUILD, "test", "twin_" + twin), self.path(directory, name))
        return self.path(directory, name)

    def stacks(self, pid):
        """The functions of each tick in a process, leaf first."""
        return [[frame.function for frame in sample.frames] for sample in self.backend.samples()
                if sample.resource.get("process.pid") == pid and sample.frames for _ in range(sample.count())]

    def await_stacks(self, pid, n=30):
        harness.wait_until(lambda: len(self.stacks(pid)) >= n, 20 * harness.SLOWNESS, "stacks of %d" % pid)
        return self.stacks(pid)

    def assert_true_stacks(self, stacks, function):
        """With the names of its own file, up to main. A tick may hit the program in its loop instead, or libc."""
        inside = [stack for stack in stacks if stack[0] not in ("called_by_main", "main")]
        self.assertGreater(len(inside), len(stacks) / 2)
        for stack in inside:
            self.assertNotIn("forged_function" if function == "honest_function" else "honest_function", stack)
        whole = [stack for stack in inside if stack[:3] == [function, "called_by_main", "main"]]
        self.assertGreaterEqual(len(whole), 0.8 * len(inside), inside[:5])

    def test_forged_twin_in_a_mount_namespace(self):
        """A user shows its file at the path of another one's, before that is first seen, and while it runs."""
        honest, forged = self.place("honest", "site"), self.place("forged", "evil")
        with open(honest, "rb") as a, open(forged, "rb") as b:
            notes = [subprocess.run(["readelf", "-n", file.name], stdout=subprocess.PIPE, check=True).stdout
                     .decode().split("Build ID: ")[1] for file in (a, b)]
        self.assertEqual(*notes)
        attacker = self.neighbour()
        attack = attacker.start("sh", "-c", 'mount --bind "$1" "$2" && exec "$2" %d' % SECONDS, "sh", forged, honest,
                                unshare=IN_USER_NAMESPACE)
        self.assertIn("forged_function", [stack[0] for stack in self.await_stacks(attack.pid)])
        for _ in range(2):
            victim = self.neighbour(uid=0, cpus=1).start(honest, 5, stdout=subprocess.DEVNULL)
            victim.wait()
            self.assert_true_stacks(self.await_stacks(victim.pid), "honest_function")
        self.assertIsNone(attack.poll())

    def test_file_of_a_removed_one(self):
        """The inode number may be used again. Its names are not."""
        path = self.place("forged", "site")
        first = self.neighbour().start(path, 3, stdout=subprocess.DEVNULL)
        first.wait()
        self.assertIn("forged_function", [stack[0] for stack in self.await_stacks(first.pid)])
        os.unlink(path)
        self.assertEqual(self.place("honest", "site"), path)
        second = self.neighbour(cpus=1).start(path, 5, stdout=subprocess.DEVNULL)
        second.wait()
        self.assert_true_stacks(self.await_stacks(second.pid), "honest_function")

    def run_on_overlay(self, options, **start):
        self.place("honest", "lower")
        for name in ("upper", "work", "merged"):
            os.mkdir(self.path(name))
            os.chmod(self.path(name), 0o777)
        mount = 'cd "$1" && mount -t overlay overlay -o lowerdir=lower,upperdir=upper,workdir=work%s merged' % options
        process = self.neighbour(cpus=1, **start.pop("neighbour", {})).start(
            "sh", "-c", mount + " && exec merged/app 5", "sh", self.directory, stdout=subprocess.DEVNULL, **start)
        if process.wait():
            self.skipTest("overlayfs cannot be mounted here")
        stacks = self.await_stacks(process.pid)
        self.assert_true_stacks(stacks, "honest_function")
        self.assertLess(self.sp.metric("spanprof_stacks_copied_total"), len(stacks) / 2)  # else ticks unwind

    def test_overlay_of_root(self):
        self.run_on_overlay("", neighbour={"uid": 0}, unshare=IN_MOUNT_NAMESPACE)

    def test_overlay_of_a_user(self):
        self.run_on_overlay(",userxattr", unshare=IN_USER_NAMESPACE)


if __name__ == "__main__":
    harness.main()

# SPDX-License-Identifier: Apache-2.0
"""Two programs with one build id (programs/twin.c), placed and run; whose names their stacks have. A test sets self.sp: a
spanprof that samples."""
import os
import shutil
import subprocess

import neighbour
from neighbour import harness

HOLD_S = 600  # a twin runs so long, unless it is ended
IN_USER_NAMESPACE = ("--user", "--map-root-user", "--mount")
TWINS = {"honest_function", "forged_function"}
STACKS = 30
RUN_S = 0.5  # of CPU, in user mode: more ticks than that


def cpu_s(pid):
    """That a process has used in user mode."""
    with open("/proc/%d/stat" % pid) as file:
        return int(file.read().rsplit(")", 1)[1].split()[11]) / os.sysconf("SC_CLK_TCK")


class TwinsTest(neighbour.HostileTest):
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

    def await_stacks(self, pid, n=STACKS):
        harness.wait_until(lambda: len(self.stacks(pid)) >= n, 20 * harness.SLOWNESS, "stacks of %d" % pid)
        return self.stacks(pid)

    def await_leaf(self, pid, function):
        harness.wait_until(lambda: any(stack[0] == function for stack in self.stacks(pid)), 30, function)

    def start_twin(self, path, **options):
        """It has used CPU time."""
        process = self.neighbour(**options).start(path, HOLD_S, stdout=subprocess.DEVNULL)
        harness.wait_until(lambda: cpu_s(process.pid) >= RUN_S, 20, "CPU time of " + path)
        return process

    def start_forged(self, forged, honest, **options):
        """The forged one, at the path of the honest one in a mount namespace of its own; once its names came."""
        attack = self.neighbour(**options).start(
            "sh", "-c", 'mount --bind "$1" "$2" && exec "$2" "$3"', "sh", forged, honest, HOLD_S,
            unshare=IN_USER_NAMESPACE, stdout=subprocess.DEVNULL)
        self.await_leaf(attack.pid, "forged_function")
        return attack

    def assert_true_stacks(self, process, function):
        """Never a name of the other file; once its rows are read, most stacks lead to main. A tick may hit the program in its
        loop instead, or libc. It is ended."""
        seen = 0

        def are_whole():
            nonlocal seen
            stacks = self.await_stacks(process.pid, seen + STACKS)[seen:]
            seen += len(stacks)
            inside = [stack for stack in stacks if stack[0] not in ("called_by_main", "main")]
            for stack in inside:
                self.assertFalse(set(stack) & (TWINS - {function}), stack)
            whole = [stack for stack in inside if stack[:3] == [function, "called_by_main", "main"]]
            return len(inside) > len(stacks) / 2 and len(whole) >= 0.8 * len(inside)
        harness.wait_until(are_whole, 40, "whole stacks with " + function)
        process.kill()
        process.wait()

# SPDX-License-Identifier: Apache-2.0
"""Processes that end before anybody could look at them: their CPU time is there, with whole stacks."""
import concurrent.futures
import os
import struct
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))
import harness  # noqa: E402
import stacks  # noqa: E402
import truth  # noqa: E402

RUNS = 200 if harness.SANITIZE else 1000
RUN_MS = 20
TRUE_FREQUENCY = 397 if harness.SANITIZE else 997
TRUE_SECONDS = 4
# What a process does before its exec and without its memory is of no program: only without a filter
# it is all there. Instrumented, spanprof has enough to do with one program.
ONLY = ("true",) if harness.SANITIZE else ()
LEAST = 0.95
ENTRY_BYTES = 64  # of _start()
INSIDE_RUNS = 20
INSIDE = """mount -t tmpfs none "$1" || exit 77
cp "$2" "$1/inside"
i=0
while [ $i -lt $3 ]; do
    i=$((i+1))
    "$1/inside" plain $4 </dev/null || exit 1
    sleep 0.3
done"""
IN_EXEC = {"load_elf_binary", "begin_new_exec"}  # kernel functions: the memory is changed in there


def entry_of(path):
    """ELF address of a file's first instruction; None if it is no ELF file."""
    try:
        with open(path, "rb") as file:
            header = file.read(32)
    except OSError:
        return None
    return struct.unpack_from("<Q", header, 24)[0] if header.startswith(b"\x7fELF") else None


def is_first_code(frame):
    """Whether it lies at the entry of its file, as the first frame of each process does."""
    entry = entry_of(frame.mapping)
    return entry is not None and entry <= frame.address < entry + ENTRY_BYTES


class Children:
    """Processes that were started and waited for: their pids and, as the kernel counted it, their
    CPU time."""

    def __init__(self):
        self.pids = set()
        self.cpu_s = 0

    def run(self, *command):
        null = [(os.POSIX_SPAWN_OPEN, fd, "/dev/null", os.O_RDWR, 0) for fd in (0, 1)]
        pid = os.posix_spawn(command[0], command, os.environ, file_actions=null)
        _, status, used = os.wait4(pid, 0)
        if status != 0:
            raise RuntimeError("%s ended with %d" % (command, status))
        self.pids.add(pid)
        self.cpu_s += used.ru_utime + used.ru_stime


@harness.needs_sampling
class ShortLived(harness.IntegrationTest):
    def start(self, frequency, *executables, command):
        self.frequency = frequency
        sampler = {"frequency": frequency, "include": {"executables": list(executables)}}
        self.sp = self.spanprof(over={"receivers": {"sampler": sampler}})
        stacks.wait_sampling(self.sp, lambda: Children().run(*command))

    def samples_of(self, children):
        return [sample for sample in self.backend.samples()
                if sample.resource.get("process.pid") in children.pids]

    def finish(self, children, least=LEAST):
        """Share of the CPU time that has come, by what the samples say that they stand for."""
        def share():
            return sum(sample.count() * sample.period for sample in self.samples_of(children)) / (
                1e9 * children.cpu_s)
        try:
            harness.wait_until(lambda: share() > least, 20, "the CPU time")
        except TimeoutError:
            pass  # then too few will be found
        self.stop_spanprof(self.sp)
        self.assert_conforming()
        self.assertEqual(self.frequency, round(1e9 / self.samples_of(children)[0].period))
        return share()

    @unittest.skipUnless(os.path.isdir(stacks.DIRECTORY), "programs of test/support/stacks are for x86-64")
    def test_programs_of_20_ms(self):
        program = stacks.Program("O2")
        children = [Children(), Children()]  # of a thread each
        command = program.path, "plain", str(RUN_MS)
        self.start(harness.FREQUENCY, program.name, command=command)
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda own: [own.run(*command) for _ in range(RUNS // 2)], children))
        both = Children()
        both.pids, both.cpu_s = children[0].pids | children[1].pids, sum(c.cpu_s for c in children)
        share = self.finish(both)
        verdict = stacks.judge("plain", program, stacks.BURNING, self.samples_of(both))
        expected = RUNS * RUN_MS * self.frequency / 1000
        print("%d runs: %.3f s of CPU time, %.1f %% of it sampled; of %.0f samples expected in burn() "
              "%.1f %% are exact" % (RUNS, both.cpu_s, 100 * share, expected,
                                     100 * verdict.right / expected))
        print(verdict)
        self.assertGreaterEqual(share, LEAST)
        tolerated = 2 / expected ** 0.5 if harness.SANITIZE else 0  # few samples come out less even
        self.assertGreaterEqual(verdict.right, (LEAST - tolerated) * expected, verdict)
        self.assertEqual(verdict.wrong_names, 0)

    @unittest.skipUnless(os.path.isdir(stacks.DIRECTORY), "programs of test/support/stacks are for x86-64")
    def test_where_only_the_parent_is(self):
        """In a file system that nobody else sees, by processes that have ended before anybody looks."""
        program = stacks.Program("static")
        place = os.path.join(self.directory, "place")
        os.mkdir(place)
        sampler = {"frequency": TRUE_FREQUENCY, "include": {"executables": [program.name, "inside"]}}
        self.sp = self.spanprof(over={"receivers": {"sampler": sampler}})
        stacks.wait_sampling(self.sp, lambda: Children().run(program.path, "plain", str(RUN_MS)))
        shell = subprocess.run(["unshare", "-m", "sh", "-c", INSIDE, "sh", place, program.path, str(INSIDE_RUNS),
                                str(RUN_MS)], stdout=subprocess.DEVNULL, check=False)
        if shell.returncode == 77:
            self.skipTest("no right to mount")
        self.assertEqual(shell.returncode, 0)
        self.assertFalse(os.listdir(place))
        program.path = os.path.join(place, "inside")
        expected = INSIDE_RUNS * RUN_MS * TRUE_FREQUENCY / 1000

        def own():
            return [s for s in self.backend.samples() if s.resource.get("process.executable.name") == "inside"]
        try:
            harness.wait_until(lambda: truth.count(own()) > LEAST * expected, 20, "samples")
        except TimeoutError:
            pass  # then too few will be found
        self.stop_spanprof(self.sp)
        self.assert_conforming()
        verdict = stacks.judge("inside", program, stacks.BURNING, own())
        print("of %.0f samples expected" % expected, verdict)
        self.assertGreaterEqual(verdict.right, (LEAST - 2 / expected ** 0.5) * expected, verdict)
        self.assertEqual(verdict.wrong_names, 0)
        self.assertLessEqual(verdict.unnamed, (1 - LEAST) * verdict.n, verdict)

    def test_true_in_a_loop(self):
        children = Children()
        self.start(TRUE_FREQUENCY, *ONLY, command=["/bin/true"])
        end = time.monotonic() + TRUE_SECONDS
        while time.monotonic() < end:
            children.run("/bin/true")
        least = 0.3 if ONLY else LEAST
        share = self.finish(children, least)
        own = [s for s in self.samples_of(children) if s.attributes.get("thread.name") == "true"]
        named = [s for s in own if s.resource.get("process.executable.name") == "true"]
        in_user = [s for s in own if s.frames and s.frames[0].kind == "native"]
        whole = [s for s in in_user if is_first_code(s.frames[-1])]
        print("%d runs of %.0f us CPU time: %.1f %% of it sampled; of %d samples as `true` %d have the "
              "executable's name; %d of %d in user mode are whole" % (
                  len(children.pids), 1e6 * children.cpu_s / len(children.pids), 100 * share,
                  truth.count(own), truth.count(named), truth.count(whole), truth.count(in_user)))
        self.assertGreaterEqual(share, least)
        in_exec = [s for s in self.samples_of(children) if IN_EXEC & {
            frame.function for frame in s.frames if frame.kind == "kernel"}]
        self.assertTrue(in_exec)
        self.assertFalse([s.functions() for s in in_exec if s.frames[-1].kind != "kernel"])
        # The rest is their starter's work between fork and exec.
        self.assertGreaterEqual(truth.count(own), 0.6 * truth.count(self.samples_of(children)))
        self.assertGreaterEqual(truth.count(named), 0.99 * truth.count(own))
        self.assertGreaterEqual(truth.count(whole), LEAST * truth.count(in_user))


if __name__ == "__main__":
    harness.main()

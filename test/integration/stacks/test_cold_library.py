# SPDX-License-Identifier: Apache-2.0
"""Stacks of Java and JavaScript that wait for the unwind rows of their leaf's library, which nobody has seen before:
they are walked on in user space, through frames of the runtime, and still reach main."""
import os
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))
import harness  # noqa: E402

PROGRAMS = os.path.join(harness.SOURCE, "test", "support", "runtimes", "cold")
RUNS = 6
RUN_MS = 1500  # of CPU time
FREQUENCY = 199
KNOWN_S = 10  # in which a program's runtime is known
UNREADABLE = "[unreadable]"
NAMED = 0.5  # at the least, whatever else runs here
LEAST = 0.95  # of the samples of main threads whose leaf is in the library: they use it while they start, too


def library_of(program, name):
    """The library's file if the program is linked with it."""
    for line in subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout.splitlines():
        if line.strip().startswith(name + " "):
            return line.split("=>")[1].split()[0]
    return None


@harness.needs_sampling
@unittest.skipUnless(os.uname().machine == "x86_64", "frames of Java and JavaScript are those of x86-64")
class ColdLibrary(harness.IntegrationTest):
    def run_programs(self, command, executable, library):
        """Each with a copy of the library that is its own file, so its rows are never there."""
        self.library = os.path.basename(library)
        sampler = {"frequency": FREQUENCY, "include": {"executables": [executable]}}
        self.sp = self.spanprof(over={"processors": {"join": {"wait": "1s"}}, "receivers": {"sampler": sampler}})
        for i in range(RUNS):
            folder = os.path.join(self.directory, "library%d" % i)
            os.mkdir(folder)
            shutil.copy(library, folder)
            known = self.processes()
            process = subprocess.Popen([*command, str(RUN_MS)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                       env={**os.environ, "LD_LIBRARY_PATH": folder})
            self.addCleanup(process.communicate)
            try:
                harness.wait_until(lambda n=known: self.processes() > n, KNOWN_S, "its runtime")
            except TimeoutError:
                pass  # another program's may have ended meanwhile
            process.stdin.write(b"\n")
            process.stdin.flush()
            self.assertEqual(process.stdout.readline().strip(), b"done")  # it stays, for the names of its last frames

    def processes(self):
        """Whose frames of a runtime are read."""
        return self.sp.metric("spanprof_runtime_processes")

    def in_library(self, thread):
        return [sample for sample in self.backend.samples()
                if sample.attributes.get("thread.name") == thread and sample.frames
                and next((os.path.basename(frame.mapping or "") for frame in sample.frames if frame.kind != "kernel"),
                         "") == self.library]

    def has_all(self, sample, chain):
        """Or, where names did not come in time, frames of the runtime with native ones on both sides."""
        functions = [line[0] for frame in sample.frames for line in frame.lines]
        if [function for function in functions if function in chain] == chain:
            return True
        own = [i for i, frame in enumerate(sample.frames) if frame.kind in ("jvm", "v8js")]
        return UNREADABLE in functions and len(own) > 2 and len(sample.frames) - own[-1] > 3

    def judge(self, thread, chain):
        """All of the chain, innermost first."""
        least = 0.2 * RUNS * RUN_MS * FREQUENCY / 1000
        harness.wait_until(lambda: sum(sample.count() for sample in self.in_library(thread)) > least, 30, "samples")
        walked = self.sp.metric("spanprof_runtime_frames_walked_total")
        self.stop_spanprof(self.sp)
        self.assert_conforming()
        right = named = n = late = 0
        for sample in self.in_library(thread):
            cut = sample.frames[-1].attributes.get("spanprof.frame.truncated")
            if cut == "not_loaded":  # the answer has not come in time
                late += sample.count()
                continue
            n += sample.count()
            if not self.has_all(sample, chain):
                print(cut, sample.functions())
                continue
            right += sample.count()
            named += sample.count() if UNREADABLE not in sample.functions() else 0
        print("%d of %d samples reach main, %d with all names, %d had no answer; %d frames walked outside of the kernel"
              % (right, n, named, late, walked))
        self.assertGreaterEqual(right, LEAST * n)
        self.assertLess(late, n)
        self.assertGreaterEqual(named, NAMED * n)
        self.assertGreaterEqual(walked, RUNS * len(chain))

    @unittest.skipUnless(shutil.which("javac"), "needs a JDK")
    def test_java(self):
        java = os.path.realpath(shutil.which("java"))
        library = library_of(os.path.join(os.path.dirname(os.path.dirname(java)), "lib", "libzip.so"), "libz.so.1")
        if not library:
            self.skipTest("this JDK has a libz of its own")
        subprocess.run(["javac", "-g", "-d", self.directory, os.path.join(PROGRAMS, "Cold.java")], check=True)
        self.run_programs([java, "-cp", self.directory, "Cold"], "java", library)
        self.judge("java", ["Cold.inner", "Cold.middle", "Cold.outer", "Cold.main"])

    @unittest.skipUnless(os.path.exists("/usr/bin/node"), "no node")
    def test_node(self):
        library = library_of("/usr/bin/node", "libc.so.6")
        self.run_programs(["/usr/bin/node", os.path.join(PROGRAMS, "cold.js")], "node", library)
        self.judge("node", ["inner", "middle", "outer"])


if __name__ == "__main__":
    harness.main()

# SPDX-License-Identifier: Apache-2.0
"""Frames of HotSpot 11 to 25, from the registry, against their own jstack; with all that moves frames and tables:
collectors, tiers, code heaps, object headers. Programs that run reach their outermost frame; classes and code that come
and go never give a wrong name. Of 8 whether a program that runs reaches main."""
import collections
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import java_services  # noqa: E402
import harness  # noqa: E402
import hotspot_stacks  # noqa: E402
import sdk_clients  # noqa: E402

FLAGS = {
    "default": [], "interpreted": ["-Xint"], "C1": ["-XX:TieredStopAtLevel=1"], "C2": ["-XX:-TieredCompilation"],
    "all compiled": ["-Xcomp"], "serial": ["-XX:+UseSerialGC"], "parallel": ["-XX:+UseParallelGC"],
    "ZGC": ["-XX:+UseZGC"], "Shenandoah": ["-XX:+UseShenandoahGC"], "one code heap": ["-XX:-SegmentedCodeCache"],
    "small code cache": ["-XX:ReservedCodeCacheSize=4m"], "frame pointers": ["-XX:+PreserveFramePointer"],
    "compact headers": ["-XX:+UseCompactObjectHeaders"],
    "no compressed pointers": ["-XX:-UseCompressedOops", "-XX:-UseCompressedClassPointers"],
}
NOT_IN = {11: ["ZGC", "Shenandoah", "compact headers"], 17: ["compact headers"], 21: ["compact headers"], 25: []}
SAMPLES = 1000
COMPLETE = 0.995
DELAY_MS = 50  # between a tick and the look at its frames, on average: half of drain_interval
UNREADABLE = 0.1  # where classes and code come and go
WARM_ROUNDS, STUBS = 600, 25
CHAIN = os.path.join(hotspot_stacks.PROGRAMS, "Chain.java")
CHAIN_S, CHAIN_SAMPLES, LEAST_8 = 60, 300, 0.97  # its compilers and collector run, too


class Case(unittest.TestCase):
    version = None

    @classmethod
    def setUpClass(cls):
        if cls.version is None:
            raise unittest.SkipTest("for each version")
        if os.geteuid() != 0 or not shutil.which("javac"):
            raise unittest.SkipTest("needs root and javac")
        try:
            cls.java, = java_services.from_pypi(cls.version)
        except sdk_clients.Missing as missing:
            raise unittest.SkipTest(str(missing))
        folder = os.path.dirname(cls.java)
        for name in ("jstack", "java"):
            os.chmod(os.path.join(folder, name), 0o755)

    def setUp(self):
        directory = tempfile.mkdtemp(prefix="spanprof-hotspot-")
        self.addCleanup(shutil.rmtree, directory, ignore_errors=True)
        self.programs = hotspot_stacks.Programs(directory)
        self.addCleanup(self.programs.end)
        self.programs.compile()

    def compare(self, flags, *arguments):
        process = self.programs.start(self.java, flags, *arguments)
        self.assertIsNotNone(process, flags)
        equal, different = hotspot_stacks.differences(*hotspot_stacks.threads(self.java, process.pid))
        self.programs.end()
        self.assertEqual(different, [])
        return equal

    def samples(self, flags, *arguments, delay_ms=0):
        process = self.programs.start(self.java, flags, *arguments)
        stacks = hotspot_stacks.inspect("samples", process.pid, SAMPLES, delay_ms)
        self.programs.end()
        self.assertEqual(len(stacks), SAMPLES)
        return stacks

    def outermost(self, what, stacks, names):
        good = [stack for stack in stacks if stack.complete() and  # compilers run stubs only
                re.search(names, stack.functions()[-1] if stack.lines() else ".run")]
        for stack in stacks:
            if stack not in good:
                print(what, stack.end, stack.frames[:4], stack.code)
        print("FIGURE hotspot %d %s: %d of %d stacks reach their outermost frame" % (
            self.version, what, len(good), len(stacks)))
        self.assertGreaterEqual(len(good) / len(stacks), COMPLETE)

    def test_threads(self):
        for what, flags in FLAGS.items():
            if what in NOT_IN[self.version]:
                continue
            with self.subTest(what):
                calls = 200 if what in ("interpreted", "all compiled") else 20000
                equal = self.compare(flags, "Stacks", "wait", str(calls))
                print("%d, %s: %d frames equal" % (self.version, what, equal))
                self.assertGreater(equal, 200)

    def test_deoptimized(self):
        for flags in ([], ["-XX:-TieredCompilation"]):
            self.assertGreater(self.compare(flags, "Deopt"), 80)

    def test_running(self):
        for what in ("default", "interpreted", "C1", "C2"):
            stacks = self.samples(FLAGS[what], "Stacks", "spin")
            self.outermost(what, stacks, r"^Stacks\.main$|\.run$")
            outcomes = collections.Counter(frame.outcome for stack in stacks for frame in stack.frames)
            gone = outcomes["stale"] + outcomes["unreadable"] + outcomes["unknown"]
            self.assertLess(gone, 0.01 * sum(outcomes.values()))

    def test_stubs(self):
        """Each instruction of the stubs that a program gets to."""
        process = self.programs.start(self.java, [], "Intrinsics", str(WARM_ROUNDS))
        stubs = hotspot_stacks.steps(process.pid)
        print("FIGURE hotspot %d: %d instructions of %d stubs" % (
            self.version, sum(n for n, _ in stubs.values()), len(stubs)))
        self.assertEqual([text for _, wrong in stubs.values() for text in wrong], [])
        self.assertGreater(len(stubs), STUBS)

    def test_virtual(self):
        if self.version < 21:
            self.skipTest("no virtual threads")
        stacks = self.samples([], "Virtual")
        self.outermost("virtual", stacks, r"^Virtual\.main$|\.run$")
        kinds = collections.Counter(frame.kind for stack in stacks for frame in stack.frames)
        self.assertGreater(kinds["frozen"], 50)

    def test_unloaded(self):
        """The methods of one of these classes only call each other."""
        for flags in ([], ["-XX:ReservedCodeCacheSize=2496k"], ["-XX:TieredStopAtLevel=1"]):
            outcomes = collections.Counter()
            for stack in self.samples(flags, "Unload", delay_ms=DELAY_MS):
                tokens = {token for name in stack.functions() for token in re.findall(r"(?:Body|outer|inner)(\d{4})",
                                                                                      name)}
                self.assertLessEqual(len(tokens), 1, stack.functions())
                outcomes += collections.Counter(frame.outcome for frame in stack.frames if frame.kind != "native")
            print("%d %s: %s" % (self.version, flags, dict(outcomes)))
            self.assertGreater(outcomes["named"], 1000)
            self.assertLess(sum(outcomes.values()) - outcomes["named"], UNREADABLE * sum(outcomes.values()))


@unittest.skipUnless(os.geteuid() == 0 and shutil.which("javac"), "needs root and javac")
class HotSpot8(unittest.TestCase):
    """Which no Debian but unstable has: its layout is found by the same fields, or it would be refused."""
    CHAIN = ["Chain.inner", "Chain.middle", "Chain.outer", "Chain.main"]

    def test_running(self):
        try:
            java = java_services.from_unstable()
        except sdk_clients.Missing as missing:
            self.skipTest(str(missing))
        os.makedirs(java_services.FOLDER, exist_ok=True)
        directory = tempfile.mkdtemp(dir=java_services.FOLDER)  # its root sees this tree
        self.addCleanup(shutil.rmtree, directory)
        subprocess.run(["javac", "--release", "8", "-nowarn", "-g", "-d", directory, CHAIN], check=True,
                       stderr=subprocess.DEVNULL)
        process = subprocess.Popen([*java, "-cp", directory, "Chain", str(CHAIN_S)], stdout=subprocess.DEVNULL)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        time.sleep(CHAIN_S / 4)
        stacks = hotspot_stacks.inspect("samples", process.pid, CHAIN_SAMPLES, 0)
        good = [stack for stack in stacks if stack.functions() == self.CHAIN and stack.complete()]
        print("FIGURE hotspot 8: %d of %d stacks reach main" % (len(good), len(stacks)))
        self.assertGreaterEqual(len(good), LEAST_8 * CHAIN_SAMPLES)


for number in java_services.PYPI:
    name = "HotSpot%d" % number
    globals()[name] = type(name, (Case,), {"version": number})
del Case


if __name__ == "__main__":
    harness.main()

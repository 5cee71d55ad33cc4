# SPDX-License-Identifier: Apache-2.0
"""Perf maps of real JIT compilers: each name that a file gives last, and the names of functions that run."""
import glob
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

INSPECT = os.path.join(os.environ["SPANPROF_BUILD_DIR"], "test", "perf_map_inspect")
NAME_BYTES = 512
ADDRESSES = 2000
SECONDS = 20

JAVASCRIPT = """
function hot(n) { let s = 0; for (let i = 0; i < n; i++) s += Math.sqrt(i) * i % 7; return s; }
function outer() { return hot(1e5); }
setInterval(outer, 0);
"""
JAVA = """
public class Hot {
    static double hot(int n) { double s = 0; for (int i = 0; i < n; i++) s += Math.sqrt(i) * i % 7; return s; }
    static double outer() { return hot(100000); }
    public static void main(String[] a) { double s = 0; while (s >= 0) s += outer(); System.out.println(s); }
}
"""
PYTHON = """
def hot(n):
    return sum(i * i % 7 for i in range(n))
def outer():
    return hot(100000)
while True:
    outer()
"""


def entries_of(path):
    """In the order of the file: start, end, name. Only what is finished."""
    with open(path, encoding="utf-8", errors="replace") as file:
        lines = file.read().rpartition("\n")[0].split("\n")
    for line in lines:
        start, size, name = line.split(None, 2)
        yield int(start, 16), int(start, 16) + int(size, 16), name.strip()


def live(entries):
    """What no later entry overlaps."""
    kept = []
    for entry in reversed(list(entries)):
        if not any(entry[0] < end and start < entry[1] for start, end, _ in kept):
            kept.append(entry)
    return kept


def python_with_trampolines():
    """The path of one; None."""
    pyenv = os.environ.get("PYENV_ROOT", os.path.expanduser("~/.pyenv"))
    for python in ["python3.14", "python3.13", "python3.12", *glob.glob(pyenv + "/versions/3.1[2-9].*/bin/python3")]:
        probe = [python, "-X", "perf", "-c",
                 "import os, sys; print(sys.is_stack_trampoline_active() and sys.executable or '');"
                 "os.unlink('/tmp/perf-%d.map' % os.getpid())"]
        if shutil.which(python):
            path = subprocess.run(probe, capture_output=True, text=True, check=False).stdout.strip()
            if path:
                return path
    return None


class PerfMaps(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="spanprof-perf-")
        self.addCleanup(shutil.rmtree, self.directory)

    def write(self, name, text):
        path = os.path.join(self.directory, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def start(self, *command):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                   cwd=self.directory)  # V8 leaves a log there
        path = "/tmp/perf-%d.map" % process.pid

        def end():
            process.kill()
            process.wait()
            if os.path.exists(path):
                os.unlink(path)
        self.addCleanup(end)
        return process.pid, path

    def check(self, pid, path, functions, still=lambda: None):
        """Once the file tells of these functions: what is found in it, and in gaps."""
        until = time.monotonic() + SECONDS
        while time.monotonic() < until:
            still()
            time.sleep(0.3)
            if os.path.exists(path):
                names = [name for _, _, name in entries_of(path)]
                if all(any(function in name for name in names) for function in functions):
                    break
        else:
            self.fail("no names of %s in %s" % (functions, path))
        os.kill(pid, 19)  # SIGSTOP: the file is what it is
        ranges = live(entries_of(path))
        chosen = random.Random(1).sample(ranges, min(len(ranges), ADDRESSES))
        wanted = [(at, name) for start, end, name in chosen for at in {start, (start + end) // 2, end - 1}]
        starts = {start for start, _, _ in ranges}
        wanted += [(end, "") for _, end, _ in chosen
                   if end not in starts and not any(start <= end < last for start, last, _ in ranges)]
        found = subprocess.run([INSPECT, str(pid)], input="".join("%x\n" % at for at, _ in wanted), check=True,
                               capture_output=True, text=True).stdout.split("\n")
        print("%s: %d ranges, %d addresses" % (self.id().rpartition(".")[2], len(ranges), len(wanted)))
        for (at, name), answer in zip(wanted, found):
            expected = name.encode()[:NAME_BYTES].decode(errors="ignore")
            self.assertEqual(answer, expected, hex(at))

    def test_node(self):
        node = shutil.which("node") or self.skipTest("no node on this machine")
        pid, path = self.start(node, "--perf-basic-prof", self.write("app.js", JAVASCRIPT))
        self.check(pid, path, ["*hot ", "outer "])

    def test_java(self):
        if not shutil.which("javac") or not shutil.which("jcmd"):
            self.skipTest("no JDK on this machine")
        subprocess.run(["javac", "-d", self.directory, self.write("Hot.java", JAVA)], check=True)
        pid, path = self.start("java", "-XX:+PreserveFramePointer", "-cp", self.directory, "Hot")

        def write_map():
            done = subprocess.run(["jcmd", str(pid), "Compiler.perfmap"], capture_output=True, text=True,
                                  check=False)
            if "Unknown diagnostic command" in done.stdout:
                self.skipTest("a JDK before 17, which writes none")
        self.check(pid, path, ["Hot.hot(int)", "Hot.outer()"], write_map)

    def test_python(self):
        python = python_with_trampolines() or self.skipTest(
            "no Python from 3.12 on, built with perf trampolines, on this machine")
        pid, path = self.start(python, "-X", "perf", self.write("app.py", PYTHON))
        self.check(pid, path, ["py::hot:", "py::outer:"])


if __name__ == "__main__":
    outcome = unittest.main(exit=False).result
    sys.exit(1 if not outcome.wasSuccessful() else 77 if len(outcome.skipped) == outcome.testsRun else 0)

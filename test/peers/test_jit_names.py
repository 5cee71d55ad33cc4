# SPDX-License-Identifier: Apache-2.0
"""Real JIT compilers under spanprof by their perf maps alone, as where a runtime is not known: how much of the code that
lies in no file has a name in what is exported."""
import collections
import glob
import os
import shutil
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "integration", "support"))
import harness  # noqa: E402
import test_perf_maps as programs  # noqa: E402

SECONDS = 8
FREQUENCY = 97


@harness.needs_sampling
class JitNames(harness.IntegrationTest):
    def write(self, name, text):
        path = os.path.join(self.directory, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def profile(self, command, wanted, also=lambda pid: None):
        """wanted: functions that must be seen, each below the one before it, in one stack."""
        spanprof = self.spanprof(over={"processors": {"join": {"wait": "1s"}},
                                       "receivers": {"sampler": {"frequency": FREQUENCY,
                                                                 "runtimes": {"frames": False}}}})
        spanprof.wait_sampling()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=self.directory)
        time.sleep(2)
        also(process.pid)
        time.sleep(SECONDS)
        process.kill()
        process.wait()
        for path in glob.glob("/tmp/perf-%d.map" % process.pid):
            os.unlink(path)
        time.sleep(8)  # a window, and what is promised
        self.stop_spanprof(spanprof)
        samples = [sample for sample in self.backend.samples() if sample.resource.get("process.pid") == process.pid]
        kinds, chains = collections.Counter(), 0
        for sample in samples:
            for frame in sample.frames:
                lies = "file" if frame.mapping or frame.kind == "kernel" else "named" if frame.function else "unnamed"
                kinds[lies] += sample.count()
            rest = iter(sample.functions())
            chains += sample.count() * all(any(function in name for name in rest) for function in wanted)
        total = sum(sample.count() for sample in samples)
        print("%s: %d samples, %d with the whole chain; frames %s" % (
            self.id().rpartition(".")[2], total, chains, dict(kinds)))
        self.assertGreater(total, 50)
        self.assertGreater(kinds["named"], 0)
        return total, chains, kinds

    def test_node(self):
        node = shutil.which("node") or self.skipTest("no node on this machine")
        total, chains, kinds = self.profile(
            [node, "--perf-basic-prof", "--interpreted-frames-native-stack",
             "--no-turbo-inlining",  # or both functions become one with the timer that calls them, at V8's discretion
             self.write("app.js", programs.JAVASCRIPT)],
            ["hot ", "outer "])
        self.assertGreater(chains, 0.6 * total)  # others are the start, and V8's own work
        self.assertGreater(kinds["named"], 0.9 * (kinds["named"] + kinds["unnamed"]))

    def test_python(self):
        """Its trampolines keep no frame pointer, so stacks go on below the first one only where Python itself was
        built with frame pointers."""
        python = programs.python_with_trampolines() or self.skipTest("no Python with perf trampolines")
        total, chains, kinds = self.profile([python, "-X", "perf", self.write("app.py", programs.PYTHON)],
                                            ["py::"])
        self.assertGreater(chains, 0.8 * total)
        self.assertGreater(kinds["named"], 0.9 * (kinds["named"] + kinds["unnamed"]))

    def test_java(self):
        if not shutil.which("javac") or not shutil.which("jcmd"):
            self.skipTest("no JDK on this machine")
        subprocess.run(["javac", "-d", self.directory, self.write("Hot.java", programs.JAVA)], check=True)
        _, chains, _ = self.profile(
            ["java", "-XX:+PreserveFramePointer", "-cp", self.directory, "Hot"], ["Hot.hot(int)"],
            lambda pid: subprocess.run(["jcmd", str(pid), "Compiler.perfmap"], check=True, stdout=subprocess.DEVNULL))
        self.assertGreater(chains, 20)  # a map that comes late is noticed within some seconds


if __name__ == "__main__":
    harness.main()

# SPDX-License-Identifier: Apache-2.0
"""Debian's Python in its own language: each frame with function, file and line, between the native frames of what it
calls, from the tick to a backend."""
import ast
import collections
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))
import harness  # noqa: E402

PYTHON = "/usr/bin/python3"
SCRIPT = os.path.join(harness.SOURCE, "test", "support", "runtimes", "python", "busy.py")
SAMPLES = 300


def functions():
    """Of the script: name -> first and last line."""
    with open(SCRIPT, encoding="utf-8") as file:
        tree = ast.parse(file.read())
    return {node.name: (node.lineno, node.end_lineno) for node in ast.walk(tree)
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))}


@harness.needs_sampling
class Python(harness.IntegrationTest):
    def samples(self, pid):
        return [sample for sample in self.backend.samples() if sample.resource.get("process.pid") == pid
                and any(frame.file == SCRIPT for frame in sample.frames)]

    def test_frames(self):
        spanprof = self.spanprof(over={"processors": {"join": {"wait": "1s"}},
                                       "receivers": {"sampler": {"frequency": 97}}})
        spanprof.wait_sampling()
        process = subprocess.Popen([PYTHON, SCRIPT], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        harness.wait_until(lambda: sum(sample.count() for sample in self.samples(process.pid)) > SAMPLES, 60, "samples")
        self.stop_spanprof(spanprof)
        lines = functions()
        outermost, leaves = collections.Counter(), collections.Counter()
        for sample in self.samples(process.pid):
            python = [frame for frame in sample.frames if frame.kind == "cpython"]
            outermost[python[-1].function] += sample.count()
            leaves[sample.frames[0].kind] += sample.count()
            for frame in python:
                if frame.file != SCRIPT:
                    continue
                first, last = lines.get(frame.function.rpartition(".")[2], (1, 1000))
                self.assertTrue(first <= frame.lines[-1][2] <= last, frame.lines)
        print(dict(outermost), dict(leaves))
        total = sum(outermost.values())
        self.assertGreater(outermost["Thread._bootstrap"], 0.98 * total, outermost)
        self.assertGreater(leaves["cpython"], 0.1 * total, leaves)


if __name__ == "__main__":
    harness.main()

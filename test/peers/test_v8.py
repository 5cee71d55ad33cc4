# SPDX-License-Identifier: Apache-2.0
"""Stacks of Node 16 to 26, and of Debian's, which has V8 in a stripped library: each frame as V8 itself tells it, in all
tiers of its code; of a program that runs, each stack to its outermost function; and names that are asked for later,
while V8 moves objects, are the same or none. A single one: test_v8.py V8.test_22"""
import collections
import os
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "integration", "support"))
sys.path.insert(0, HERE)
import harness  # noqa: E402
import publishing_node  # noqa: E402
import test_publish_node  # noqa: E402
import v8_frames  # noqa: E402

RUNTIMES = os.path.join(HERE, "runtimes", "node")
CALLS = (10, 3000, 60000)
FLAGS = ((), ("--jitless",), ("--always-sparkplug",), ("--no-turbo-inlining",), ("--no-lazy-feedback-allocation",))
SAMPLES = 1000
LATER_SAMPLES, LATER_US = 100, 150000  # as long as names wait at most, if nothing is overloaded


def command(version):
    if version == "debian":
        return test_publish_node.debian_node()
    folder = publishing_node.install("runtimes_node", RUNTIMES)
    return [os.path.join(folder, "node" + version, "bin", "node")]


def is_twin(pair):
    """fresh() makes a function of the same text again and again. One may come to lie exactly where the last one lay,
    with all its parts, and is then taken for it: name and file are the same."""
    before, after = (text.split("\t")[-5:-2] for text in pair)
    return before[:2] == after[:2] == ["(anonymous)", ""]


@unittest.skipIf(os.geteuid(), "reads memory of others: needs root")
class V8(unittest.TestCase):
    def node(self, version):
        try:
            return command(version)
        except publishing_node.Missing as missing:
            return self.skipTest(str(missing))

    def frames(self, node, calls, *arguments, flags=()):
        program = v8_frames.Node(self, node, "frames.js", str(calls), *arguments, flags=flags)
        told, sample = program.told(), program.waiting()
        program.stop()
        self.assertIsNotNone(sample)
        self.assertGreater(len(told), 20)
        self.assertEqual(v8_frames.differences(told, sample.calls), [])
        self.assertEqual(set(sample.outcomes), {"named"})
        return len(told)

    def running(self, node):
        program = v8_frames.Node(self, node, "spin.js")
        program.started()
        samples = v8_frames.walk(program.process.pid, SAMPLES, 1000)
        reached = sum(any(call.function == "outer" for call in sample.calls) for sample in samples)
        outcomes, lines, without = collections.Counter(), 0, 0
        for sample in samples:
            outcomes.update(sample.outcomes)
            lines += sum(1 for call in sample.calls if call.file)
            without += sum(1 for call in sample.calls if call.file and not call.line)
        print("  running: %d of %d reach outer(); frames %s; %d of %d lines missing" % (
            reached, len(samples), dict(outcomes), without, lines))
        self.assertEqual(len(samples), SAMPLES)
        self.assertGreaterEqual(reached, 0.995 * SAMPLES)
        self.assertGreaterEqual(outcomes["named"], 0.99 * sum(outcomes.values()))
        self.assertLess(without, 0.01 * lines)
        program.stop()

    def later(self, node, *flags):
        program = v8_frames.Node(self, node, "spin.js", "1000", "--collect", flags=flags)
        program.started()
        samples = v8_frames.walk(program.process.pid, LATER_SAMPLES, 1000, LATER_US)
        later, different, twins = collections.Counter(), [], 0
        for sample in samples:
            later.update(sample.later)
            pairs = list(zip(sample.different[::2], sample.different[1::2]))
            twins += sum(map(is_twin, pairs))
            different += [pair for pair in pairs if not is_twin(pair)]
        print("  %d ms later, with %s: %s" % (LATER_US // 1000, " ".join(flags), dict(later)))
        self.assertEqual(different, [])
        self.assertLess(twins, 0.01 * later["named"])
        self.assertGreaterEqual(later["named"], 0.9 * sum(later[name] for name in (
            "named", "stale", "unreadable", "unknown")))
        self.assertLess(later["poorer"], 0.05 * later["named"])
        program.stop()

    def one(self, version, workers=True):
        node = self.node(version)
        print("Node", version)
        frames = sum(self.frames(node, calls) for calls in CALLS)
        for flags in FLAGS[1:]:
            frames += self.frames(node, CALLS[1], flags=flags)
        if workers:
            frames += self.frames(node, CALLS[1], "--worker")
        print("  %d frames are equal" % frames)
        self.running(node)
        self.later(node, "--expose-gc")

    def test_16(self):
        self.one("16")

    def test_18(self):
        self.one("18")

    def test_20(self):
        self.one("20")

    def test_22(self):
        self.one("22")

    def test_24(self):
        self.one("24")

    def test_25(self):
        self.one("25")

    def test_26(self):
        self.one("26")

    def test_debian(self):
        self.one("debian")


if __name__ == "__main__":
    harness.main()

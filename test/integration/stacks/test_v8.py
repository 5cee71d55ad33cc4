# SPDX-License-Identifier: Apache-2.0
"""Stacks of the Node that is installed: each frame as V8 itself tells it."""
import os
import shutil
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))
import harness  # noqa: E402
import unittest  # noqa: E402
import v8_frames  # noqa: E402


@unittest.skipIf(os.geteuid(), "reads memory of others: needs root")
@unittest.skipUnless(os.path.exists("/usr/bin/node"), "no node")
class V8(unittest.TestCase):
    def test_frames(self):
        for calls, arguments in ((10, ()), (3000, ()), (60000, ()), (3000, ("--worker",))):
            with self.subTest(calls=calls, arguments=arguments):
                node = v8_frames.Node(self, ["/usr/bin/node"], "frames.js", str(calls), *arguments)
                told, sample = node.told(), node.waiting()
                self.assertIsNotNone(sample)
                self.assertGreater(len(told), 20)
                self.assertEqual(v8_frames.differences(told[:], sample.calls), [])
                self.assertEqual(set(sample.outcomes), {"named"})
                node.stop()

    def test_running(self):
        node = v8_frames.Node(self, ["/usr/bin/node"], "spin.js")
        node.started()
        samples = v8_frames.walk(node.process.pid, 300, 1000)
        reached = [sample for sample in samples if any(call.function == "outer" for call in sample.calls)]
        self.assertEqual(len(samples), 300)
        self.assertGreaterEqual(len(reached), 298)


if __name__ == "__main__":
    harness.main()

# SPDX-License-Identifier: Apache-2.0
"""Debian's Ruby in its own language: each sample has the frames that its thread has said (caller_locations), with
function, file and line, from the tick to a backend."""
import collections
import os
import re
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))
import harness  # noqa: E402

RUBY = "/usr/bin/ruby"
SCRIPT = os.path.join(harness.SOURCE, "test", "support", "runtimes", "ruby", "spinning.rb")
SAMPLES = 300
CLASS_PATH = re.compile(r"\b[A-Z][\w:]*[#.](?=\S+$)")


def said(output):
    """What each thread says: the labels and lines of its frames from the leaf on."""
    frames = collections.defaultdict(list)
    for line in output:
        if line.startswith("ready"):
            return {tuple(one) for one in frames.values()}
        name, label, path, number = line.rstrip("\n").split("\t")
        frames[name].append((label, path, int(number or 0)))
    raise AssertionError("the program has ended")


def frame_of(frame):
    _, file, line = frame.lines[-1]
    return CLASS_PATH.sub("", frame.function), file, line


def is_same(found, expected):
    """A method in C has no file and line of its own."""
    return found[0] == expected[0] and (not found[1] or found[1:] == expected[1:])


@unittest.skipUnless(os.path.exists(RUBY), "there is no Ruby")
@harness.needs_sampling
class Ruby(harness.IntegrationTest):
    def samples(self):
        return [sample for sample in self.backend.samples()
                if any(frame.file == SCRIPT and frame.kind == "ruby" for frame in sample.frames)]

    def test_frames(self):
        spanprof = self.spanprof(over={"processors": {"join": {"wait": "1s"}},
                                       "receivers": {"sampler": {"frequency": 97}}})
        spanprof.wait_sampling()
        process = subprocess.Popen([RUBY, SCRIPT], stdout=subprocess.PIPE, encoding="utf-8")
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        expected = said(process.stdout)
        harness.wait_until(lambda: sum(sample.count() for sample in self.samples()) > SAMPLES, 60, "samples")
        self.stop_spanprof(spanprof)
        outcomes, names = collections.Counter(), set()
        for sample in self.samples():
            ruby = [frame for frame in sample.frames if frame.kind == "ruby"]
            names.update(frame.function for frame in ruby)
            if any(frame.function == "[unreadable]" for frame in ruby):
                outcomes["unreadable"] += sample.count()
                continue
            found = [frame_of(frame) for frame in ruby]
            spins = any(len(one) == len(found) and all(map(is_same, found, one)) for one in expected)
            outcomes["as said" if spins else "other"] += sample.count()
            if not spins:
                print(found)
        print(dict(outcomes))
        self.assertGreater(outcomes["as said"], 0.98 * sum(outcomes.values()))
        self.assertLessEqual({"Shop#layout", "block in Shop#render", "Shop.open"}, names)


if __name__ == "__main__":
    harness.main()

#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""docs/metrics.md is what the program prints, and whatever README.md and docs/ say of metrics is in it."""
import glob
import os
import re
import subprocess
import unittest

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
BINARY = os.environ["SPANPROF_BINARY"]
ROW = re.compile(r"^\| `(?P<name>spanprof_\w+)` \| (?P<type>\w+) \| (?P<labels>.*?) \| \w* \| (?P<help>.+) \|$", re.M)
# spanprof_x_total{reason="full"}, spanprof_x_total{signal,reason}
MENTION = re.compile(r"\b(spanprof_[a-z0-9_]+)(?!::|[a-z0-9_])(?:\{([^}]*)\})?")


def read(path):
    with open(os.path.join(SOURCE, path), encoding="utf-8") as file:
        return file.read()


class MetricsReference(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.printed = subprocess.run([BINARY, "print-metrics"], check=True, capture_output=True, text=True).stdout
        cls.labels = {"spanprof_span_cpu_seconds_total": {"service_name": {}, "span_name": {}}}
        for row in ROW.finditer(cls.printed):
            if row["name"] in cls.labels:
                raise AssertionError(row["name"] + " is there twice")
            labels = cls.labels[row["name"]] = {}
            for label, values in re.findall(r"`(\w+)`:((?:,? `[^`]*`(?: \(loss\))?)+)", row["labels"]):
                labels[label] = set(re.findall(r"`([^`]*)`", values))

    def test_is_not_stale(self):
        self.assertGreater(len(self.labels), 100)
        self.assertEqual(read("docs/metrics.md"), self.printed, "docs/metrics.md is stale: run ./dev docs")

    def is_known(self, name, labels):
        known = self.labels.get(name)
        if known is None:
            return False
        for label, value in re.findall(r'(\w+)(?:="([^"]*)")?', labels):
            if label not in known or (value and value not in known[label]):
                return False
        return True

    def test_what_documents_mention(self):
        functions = set(re.findall(r"\bspanprof_\w+(?=\()", read("context/spanprof_context.h")))
        unknown = []
        for path in ["README.md", *sorted(glob.glob("docs/**/*.md", root_dir=SOURCE, recursive=True))]:
            for mention in MENTION.finditer(read(path)):
                if mention[1] not in functions and not self.is_known(mention[1], mention[2] or ""):
                    unknown.append(f"{path}: {mention[0]}")
        self.assertEqual(unknown, [])


if __name__ == "__main__":
    unittest.main()

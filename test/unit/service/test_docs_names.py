#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Paths, functions and tests that the documents name are there. Metrics: test_metrics_reference.py."""
import glob
import os
import re
import subprocess
import unittest

SOURCE = os.path.abspath(os.path.join(os.path.dirname(__file__), "../../.."))
BUILD = os.environ["SPANPROF_BUILD_DIR"]
GENERATED = {"docs/configuration.md", "docs/metrics.md"}
OLD = {"CHANGELOG.md"}  # lists what things were called before
ENDINGS = r"\.(?:c|h|py|md|js|txt|yaml|tsv|cmake|proto|sh)$"
FOLDERS_LEFT_OUT = {"build", ".git"}


def documents():
    for pattern in ("*.md", "docs/*.md", "docs/design/*.md"):
        for path in sorted(glob.glob(pattern, root_dir=SOURCE)):
            if path not in GENERATED | OLD:
                with open(os.path.join(SOURCE, path), encoding="utf-8") as file:
                    yield path, file.read()


def is_there(document, path):
    """Links are from the document's folder, other paths from the root."""
    folders = (SOURCE, os.path.join(SOURCE, os.path.dirname(document)))
    return any(glob.glob(os.path.join(folder, path)) for folder in folders)


def missing_paths(document, text):
    """`path/to/file.c`, `path/to/folder/`, `file.c`, [text](link.md)."""
    links = [link.split("#")[0] for link in re.findall(r"\]\(([^):]+)\)", text)]
    named = re.findall(r"`((?:[A-Za-z][\w*-]*/)+[\w.*-]*|[\w*-]+\.[a-z.]+)`", text)
    paths = links + [path for path in named if re.search(ENDINGS, path) or path.count("/") > 1]
    return [path for path in paths if not path.startswith("build/") and not is_there(document, path)]


def words_of_sources():
    """Functions, and names of files."""
    words = set()
    for folder, folders, files in os.walk(SOURCE):
        folders[:] = set(folders) - FOLDERS_LEFT_OUT
        for source in (file for file in files if file.endswith((".c", ".h", ".py"))):
            words.add(source.split(".")[0])
            with open(os.path.join(folder, source), encoding="utf-8") as file:
                words.update(re.findall(r"\b[a-z]\w+(?=\()", file.read()))
    return words


def missing_functions(words, text):
    """`function()`, `test_module: test_case, test_case`."""
    names = set(re.findall(r"`([a-z]\w+)\(\)`", text))
    for code in re.findall(r"`((?:test|fuzz|bench)_[^`]*)`", text):
        names.update(re.findall(r"\b(?:test|fuzz|bench)_[a-z0-9_]+", code))
    return sorted(names - words)


def missing_tests(registered, text):
    """`unit.module`, `bpf.oracle_*`."""
    named = set(re.findall(r"`((?:unit|bpf|integration|peers|fuzz)\.[a-z0-9_]+\*?)`", text))
    return sorted(test for test in named if not re.search(r"\b" + re.escape(test.rstrip("*")), registered))


class DocsNames(unittest.TestCase):
    def test_names_are_there(self):
        words = words_of_sources()
        tests = subprocess.run(["ctest", "--test-dir", BUILD, "-N"], check=True, capture_output=True, text=True).stdout
        missing = []
        for document, text in documents():
            found = missing_paths(document, text) + missing_functions(words, text) + missing_tests(tests, text)
            missing += [f"{document}: {name}" for name in found]
        self.assertEqual(missing, [])

    def test_what_is_not_there_is_found(self):
        text = "`base/none.c` `base/map.c` `base/` `base/none/` [x](none.md) `map_none()` `map_put()` `unit.none`"
        self.assertEqual(missing_paths("docs/x.md", text), ["none.md", "base/none.c", "base/none/"])
        self.assertEqual(missing_functions({"map_put"}, text), ["map_none"])
        self.assertEqual(missing_tests("Test #1: unit.map", text), ["unit.none"])


if __name__ == "__main__":
    unittest.main()

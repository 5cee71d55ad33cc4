#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Names in the documents: every path is there, every metric is in docs/metrics.md, every function in a source, and every
test that is named is registered.

    docs_names.py ROOT [CTEST-LIST]

CTEST-LIST is the output of `ctest -N`; without it names of tests are not looked at. Prints what is missing; exit code 1.
"""
import glob
import os
import re
import subprocess
import sys

GENERATED = {"docs/configuration.md", "docs/metrics.md"}
OLD = {"CHANGELOG.md"}  # lists what things were called
ENDINGS = r"\.(?:c|h|bpf\.c|bpf\.h|py|md|js|txt|yaml|tsv|cmake|proto|sh)"
MADE = ("build/", "docs/images/")  # of a build; pictures


def documents(root):
    for pattern in ("*.md", "docs/*.md", "docs/design/*.md"):
        for path in sorted(glob.glob(os.path.join(root, pattern))):
            name = os.path.relpath(path, root)
            if name not in GENERATED | OLD:
                with open(path, encoding="utf-8") as file:
                    yield name, file.read()


def is_there(root, folder, path):
    places = [os.path.join(root, path), os.path.join(root, folder, path)]
    return any(glob.glob(place.rstrip("/")) for place in places)


def missing_paths(root, name, text):
    """`path/to/file.c`, `path/to/folder/`, [text](link.md)."""
    found = re.findall(r"`([a-z][a-z0-9_.*/-]*/[a-z0-9_.*-]*)`", text)
    found += re.findall(r"`([A-Za-z0-9_*-]+%s)`" % ENDINGS, text)
    found += [link.split("#")[0] for link in re.findall(r"\]\(([^):]+)\)", text)]
    for path in found:
        is_file = re.search(ENDINGS + "$", path) or path.count("/") > 1
        if is_file and not path.startswith(MADE) and not is_there(root, os.path.dirname(name), path):
            yield path


def missing_metrics(root, text):
    with open(os.path.join(root, "docs/metrics.md"), encoding="utf-8") as file:
        known = file.read()
    for metric in set(re.findall(r"`(spanprof_[a-z0-9_]+)", text)):
        prefix = metric.endswith("_") or metric.startswith("spanprof_context_")  # also functions of the library
        if not prefix and metric not in known and metric != "spanprof_span_cpu_seconds_total":
            yield metric


def missing_functions(root, text):
    names = set(re.findall(r"`([a-z][a-z0-9_]+)\(\)`", text))
    if not names:
        return
    sources = subprocess.run(["git", "ls-files", "*.c", "*.h"], cwd=root, capture_output=True, text=True, check=True)
    words = set()
    for source in sources.stdout.split():
        with open(os.path.join(root, source), encoding="utf-8") as file:
            words.update(re.findall(r"\b[a-z][A-Za-z0-9_]+(?=\()", file.read()))
    yield from (name + "()" for name in names - words)


def missing_tests(registered, text):
    for test in set(re.findall(r"`((?:unit|bpf|integration|peers|fuzz)\.[a-z0-9_]+\*?)", text)):
        if not re.search(r"\b%s" % re.escape(test.rstrip("*")), registered):
            yield test


def main():
    root = sys.argv[1]
    registered = None
    if len(sys.argv) > 2:
        with open(sys.argv[2], encoding="utf-8") as file:
            registered = file.read()
    bad = []
    for name, text in documents(root):
        missing = list(missing_paths(root, name, text)) + list(missing_metrics(root, text))
        missing += list(missing_functions(root, text))
        if registered is not None:
            missing += list(missing_tests(registered, text))
        bad += ["%s: %s is not there" % (name, what) for what in missing]
    print("\n".join(bad))
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What a commit must be like: ./dev lint.

    lint.py BUILD [--quick] [--junit FILE]

BUILD: the folder of the dev build, with spanprof in it. --quick leaves clang-tidy out. --junit writes the outcome of
each check as tests of the suite "lint". Exit 1 if a check finds something; each finding is a line.
"""
import argparse
import concurrent.futures
import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

TREE = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
MAX_LINES = 600
SKIP_HEADER = "test/support/fixtures/skip.h"


def tracked(*patterns):
    """Files of the index that are there: not those about to be deleted."""
    names = subprocess.run(["git", "ls-files", "-z", "--", *patterns], cwd=TREE, capture_output=True, text=True,
                           check=True).stdout.split("\0")
    return [name for name in names if name and "/vmlinux/" not in name and os.path.isfile(os.path.join(TREE, name))]


def text_of(name):
    with open(os.path.join(TREE, name), errors="replace") as file:
        return file.read()


def output_of(*command):
    done = subprocess.run(command, cwd=TREE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return done.returncode, done.stdout


def check_format(build):
    """clang-format, with .clang-format."""
    status, output = output_of("clang-format-14", "--dry-run", "--Werror", *tracked("*.c", "*.h"))
    return [line for line in output.splitlines() if "error:" in line] or ([output] if status else [])


def check_sizes(build):
    """No source of more than 600 lines, none without its licence."""
    findings = []
    for name in tracked("*.c", "*.h", "*.py", "*.cmake", "dev"):
        text = text_of(name)
        if text.count("\n") > MAX_LINES:
            findings.append("%s: %d lines, the end is %d" % (name, text.count("\n"), MAX_LINES))
        if "SPDX-License-Identifier" not in "\n".join(text.split("\n", 2)[:2]) and not name.endswith(".cmake"):
            findings.append("%s: no SPDX line" % name)
    return findings


def check_skips(build):
    """A case that skips says why."""
    return ["%s:%d: skip() without a reason, see %s" % (name, text_of(name)[:found.start()].count("\n") + 1, SKIP_HEADER)
            for name in tracked("test/*.c", "test/*.h") if name != SKIP_HEADER
            for found in re.finditer(r"(?<!\w)skip\(\)", text_of(name))]


def check_rooms(build):
    """No #include goes up, across or past a door: cmake/rooms.py."""
    status, output = output_of(sys.executable, "-B", "cmake/rooms.py")
    return output.splitlines() or ["cmake/rooms.py ended with %d" % status] if status else []


def check_docs(build):
    """What the program prints of itself is what the documents hold."""
    findings = []
    for name, command in (("docs/configuration.md", "print-reference"), ("docs/metrics.md", "print-metrics")):
        done = subprocess.run([os.path.join(build, "spanprof"), command], capture_output=True, text=True, check=False)
        if done.returncode:
            findings.append("spanprof %s ended with %d: %s" % (command, done.returncode, done.stderr.strip()))
        elif done.stdout != text_of(name):
            findings.append("%s is stale: ./dev docs" % name)
    return findings


def check_tidy(build):
    """clang-tidy on what is compiled here, the largest first, so that no CPU waits at the end."""
    directory = os.path.join(TREE, "build", "lint")
    os.makedirs(directory, exist_ok=True)
    with open(os.path.join(build, "compile_commands.json")) as file:
        text = re.sub(r" -mtls-dialect=[a-z0-9]*", "", file.read())  # flags that clang does not know
    with open(os.path.join(directory, "compile_commands.json"), "w") as file:
        file.write(text)
    compiled = {os.path.relpath(entry["file"], TREE) for entry in json.loads(text)}
    files = [name for name in tracked("*.c")
             if name in compiled and not name.endswith(".bpf.c") and not name.startswith("test/fuzz/")]
    files.sort(key=lambda name: -os.path.getsize(os.path.join(TREE, name)))

    def tidy(name):
        done = subprocess.run(["clang-tidy-14", "-p", directory, "--quiet", name], cwd=TREE, capture_output=True,
                              text=True, check=False)
        return [done.stdout.strip() or "%s: clang-tidy ended with %d" % (name, done.returncode)] \
            if done.returncode else []

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return [finding for findings in pool.map(tidy, files) for finding in findings]


QUICK = (check_format, check_sizes, check_skips, check_rooms, check_docs)


def main():
    parser = argparse.ArgumentParser(prog="./dev lint")
    parser.add_argument("build")
    parser.add_argument("--quick", action="store_true", help="without clang-tidy")
    parser.add_argument("--junit")
    options = parser.parse_args()
    suite, failed = ElementTree.Element("testsuite", name="lint"), False
    for check in QUICK if options.quick else (*QUICK, check_tidy):
        name = check.__name__.replace("check_", "")
        findings = check(options.build)
        print("lint: %s: %s" % (name, "%d found" % len(findings) if findings else "clean"))
        case = ElementTree.SubElement(suite, "testcase", name="lint." + name)
        if findings:
            failed = True
            print("\n".join(findings))
            ElementTree.SubElement(case, "failure", message="%d found" % len(findings))
    if options.junit:
        ElementTree.ElementTree(suite).write(options.junit)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

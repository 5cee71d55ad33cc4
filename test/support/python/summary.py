#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The figures of ctest's JUnit files.

    summary.py SUITE FILE     one line, and each skipped test with its reason
    summary.py --total FILE...  the closing line; exit 1 if anything failed or nothing ran
"""
import re
import sys
import xml.etree.ElementTree as ElementTree

REASON = re.compile(r"skipped ['\"](.*?)['\"]$|^skipped: (.*)$", re.M)


def outcome(case):
    skipped = case.find("skipped")
    if skipped is not None and "Unable to find executable" in skipped.get("message", ""):
        return "failed"  # ctest takes a test that was not built for skipped
    if case.find("failure") is not None or case.get("status") == "fail":
        return "failed"
    if skipped is not None or case.get("status") in ("notrun", "disabled"):
        return "skipped"
    return "passed"


def read(path):
    """[(name, outcome, reason)]"""
    cases = []
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        output = case.findtext("system-out") or ""
        reason = REASON.search(output)
        skipped = case.find("skipped")
        text = reason and (reason.group(1) or reason.group(2))
        cases.append((case.get("name"), outcome(case),
                      text or (skipped.get("message") if skipped is not None else "")))
    return cases


def line(cases):
    counts = {kind: sum(1 for case in cases if case[1] == kind)
              for kind in ("passed", "failed", "skipped")}
    return "%(passed)d passed, %(failed)d failed, %(skipped)d skipped" % counts


def main():
    if sys.argv[1] == "--total":
        cases = [case for path in sys.argv[2:] for case in read(path)]
        for name, _, _ in [case for case in cases if case[1] == "failed"]:
            print("failed: " + name)
        print(line(cases))
        return 1 if not cases or any(case[1] == "failed" for case in cases) else 0
    cases = read(sys.argv[2])
    for name, _, reason in [case for case in cases if case[1] == "skipped"]:
        print("skipped: %s: %s" % (name, reason or "no reason given"))
    print("%s: %s" % (sys.argv[1], line(cases)))
    return 0


sys.exit(main())

#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The figures of JUnit files: of ctest, of test/kernels and of lint.

    summary.py SUITE FILE                   one line
    summary.py --total [--skips LIST] FILE...  what failed, what was skipped and why, and the closing line;
                                            exit 1 if anything failed or nothing ran
    summary.py --costs FILE...              test/costs.cmake, by the seconds that the tests took

A test may skip as a whole, or some of its cases while it passes: both count as skipped. The reason is a line
`skipped: REASON` of its output. Between cmocka's `[ RUN ] CASE` and `[ SKIPPED ] CASE` it is that case's; elsewhere
it reads `skipped: CASE: REASON`. With --skips only what LIST names may be skipped; anything else counts as failed. A
row of LIST: a regular expression for the whole of `TEST: CASE` (or TEST alone), a tab, why that may be skipped.
"""
import re
import sys
import xml.etree.ElementTree as ElementTree

RUN = re.compile(r"\[ RUN      \] (\w+)$")
SKIPPED = re.compile(r"\[  SKIPPED \] (\w+)$")
REASON = re.compile(r"skipped: (.*)$")
CASE = re.compile(r"(?:(\S+): )?(.*)$")  # the name of a case has no spaces
NO_REASON = "no reason given"


def outcome(case):
    skipped = case.find("skipped")
    if skipped is not None and "Unable to find executable" in skipped.get("message", ""):
        return "failed"  # ctest takes a test that was not built for skipped
    if case.find("failure") is not None or case.get("status") == "fail":
        return "failed"
    if skipped is not None or case.get("status") in ("notrun", "disabled"):
        return "skipped"
    return "passed"


def skipped_cases(output):
    """[(case, reason)]; case is "" where the line names none."""
    found, running, reason = [], None, None
    for line in output.splitlines():
        run, skipped, said = RUN.match(line), SKIPPED.match(line), REASON.match(line)
        if run:
            running, reason = run.group(1), None
        elif skipped and skipped.group(1) == running:
            found.append((running, reason or NO_REASON))
            running = None
        elif said and running:
            reason = reason or said.group(1)
        elif said:
            found.append(CASE.match(said.group(1)).groups(""))
        elif line.startswith("["):
            running = None  # that case has ended
    return found


def read(path):
    """[(name, outcome, reason)]: a row a test, and one for each case skipped by a test that passed."""
    rows = []
    for test in ElementTree.parse(path).getroot().iter("testcase"):
        name, how = test.get("name"), outcome(test)
        cases = skipped_cases(test.findtext("system-out") or "")
        if how == "skipped":
            element = test.find("skipped")
            message = element.get("message", "") if element is not None else ""
            said = "; ".join(dict.fromkeys(reason for _, reason in cases))
            rows.append((name, how, said or ("" if message.startswith("SKIP_") else message) or NO_REASON))
            continue
        rows.append((name, how, ""))
        if how == "passed":
            rows += [("%s: %s" % (name, case) if case else name, "skipped", reason) for case, reason in cases]
    return rows


def line(rows):
    counts = {kind: sum(1 for row in rows if row[1] == kind) for kind in ("passed", "failed", "skipped")}
    return "%(passed)d passed, %(failed)d failed, %(skipped)d skipped" % counts


def allowed(path):
    """The compiled patterns of a list of skips."""
    with open(path) as file:
        rows = [text.rstrip("\n") for text in file if text.strip() and not text.startswith("#")]
    without = [row for row in rows if not row.partition("\t")[2].strip()]
    if without:
        sys.exit("summary: %s: no reason for %s" % (path, without[0]))
    return [re.compile(row.partition("\t")[0]) for row in rows]


def total(rows, patterns):
    """patterns: what may be skipped; None: anything."""
    def judged(row):
        name, how, reason = row
        if how != "skipped" or patterns is None or any(pattern.fullmatch(name) for pattern in patterns):
            return row
        return name, "failed", "skipped, which is not on the list: " + reason

    rows = [judged(row) for row in rows]
    for kind in ("skipped", "failed"):
        for name, _, reason in [row for row in rows if row[1] == kind]:
            print("%s: %s%s" % (kind, name, ": " + reason if reason else ""))
    print(line(rows))
    return 1 if not rows or any(how == "failed" for _, how, _ in rows) else 0


def costs(paths):
    """Tests of two seconds and more, as CMake reads them."""
    took = {test.get("name"): round(float(test.get("time") or 0))
            for path in paths for test in ElementTree.parse(path).getroot().iter("testcase")}
    print("# SPDX-License-Identifier: Apache-2.0\n"
          "# Seconds of each test of two and more; written by test/support/python/summary.py --costs.")
    for name, seconds in sorted(took.items()):
        if seconds >= 2:
            print("set(SPANPROF_SECONDS_%s %d)" % (name, seconds))


def main():
    arguments = sys.argv[1:]
    if arguments[0] == "--costs":
        costs(arguments[1:])
        return 0
    if arguments[0] != "--total":
        print("%s: %s" % (arguments[0], line(read(arguments[1]))))
        return 0
    patterns, paths = None, arguments[1:]
    if paths[:1] == ["--skips"]:
        patterns, paths = allowed(paths[1]), paths[2:]
    return total([row for path in paths for row in read(path)], patterns)


if __name__ == "__main__":
    sys.exit(main())

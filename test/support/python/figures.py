#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Reads `name value unit` lines of the benchmarks from stdin; prints them as a table or, with --json,
as one object. Other lines are passed on to stderr."""
import json
import sys


def figures(lines, other=sys.stderr.write):
    """(name, value, unit) of each line that is one; the rest goes to other()."""
    for text in lines:
        parts = text.split(None, 2)
        try:
            yield parts[0], float(parts[1]), parts[2].strip()
        except (IndexError, ValueError):
            other(text)


def main():
    found = list(figures(sys.stdin))
    if "--json" in sys.argv:
        print(json.dumps({name: {"value": value, "unit": unit} for name, value, unit in found}, indent=1))
        return 0
    width = max((len(name) for name, _, _ in found), default=0)
    for name, value, unit in found:
        print("%-*s %14.6g %s" % (width, name, value, unit))
    return 0 if found else 1


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What the publisher adds to the stock SDK on Node: nanoseconds per with(), await, macrotask and whole span.

`await_alone` is that of a program which does nothing but to await; all others have used timers, ticks and files before,
as services do, which makes Node's own part dearer.

The bounds: 100 ns for with(), 150 for an await, 450 for a macrotask; a fifth of these where Node's own thread context
serves (24 and later).

Prints `name value unit`: the stock SDK's own, and what is added. The Node in PATH, and those that the peers tests have
installed. Programs with the publisher and without run in turns; of each the fastest counts.
"""
import glob
import os
import re
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "integration", "support"))
import publishing_node  # noqa: E402

TURNS = 4
WHAT = ("with", "await", "await alone", "macrotask", "span")


def nodes():
    """Version -> program."""
    found = {}
    installed = sorted(glob.glob(os.path.join(publishing_node.INSTALLED, "runtimes", "node_modules", "*", "bin", "node")))
    for program in [shutil.which("node"), shutil.which("nodejs"), *installed]:
        if program:
            version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
            found.setdefault(int(re.match(r"v(\d+)", version).group(1)), program)
    return sorted(found.items())


def measure(node, what, packages, options):
    done = subprocess.run([node, os.path.join(HERE, "publish_node.js"), *what.split()], capture_output=True, text=True, check=True,
                          env={"PATH": os.environ["PATH"], "NODE_PATH": packages, "NODE_OPTIONS": options})
    return float(done.stdout.split()[1])


def main():
    reason = publishing_node.why_not_built()
    if not reason:
        try:
            packages = publishing_node.packages()
        except publishing_node.Missing as missing:
            reason = str(missing)
    if reason:
        print("publish_node: " + reason)
        return
    for version, node in nodes():
        for what in WHAT:
            stock, ours = [], []
            for _ in range(TURNS):
                stock.append(measure(node, what, packages, ""))
                ours.append(measure(node, what, packages, publishing_node.preload()))
            name = "publish_node_%d_%s" % (version, what.replace(" ", "_"))
            print("%s_stock_ns %.6g ns" % (name, min(stock)))
            print("%s_added_ns %.6g ns" % (name, min(ours) - min(stock)), flush=True)


if __name__ == "__main__":
    main()

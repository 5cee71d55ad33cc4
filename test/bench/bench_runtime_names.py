#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What naming a stack of Java or JavaScript reads of its process: requests and bytes, when nothing is kept from one
stack to the next and when it is. Prints `name value unit`."""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(HERE))
BUILD = os.environ.get("SPANPROF_BUILD_DIR", os.path.join(SOURCE, "build", "release"))
STACKS = os.path.join(SOURCE, "test", "peers", "java", "Stacks.java")
SPIN = os.path.join(SOURCE, "test", "support", "runtimes", "v8", "spin.js")
SAMPLES = 200
WARM_S = 5


def run(tool, *arguments, **environment):
    done = subprocess.run([os.path.join(BUILD, "test", tool), *map(str, arguments)], capture_output=True, text=True,
                          check=True, timeout=300, env={**os.environ, **environment})
    return done.stdout, done.stderr


def report(name, stacks, requests, size):
    print("%s_requests %.1f requests" % (name, requests / stacks))
    print("%s_bytes %.0f bytes" % (name, size / stacks), flush=True)


def java(pid, name, **environment):
    _, said = run("hotspot_inspect", "samples", pid, SAMPLES, 0, **environment)
    report(name, *map(int, re.search(r"named: (\d+) stacks, (\d+) requests, (\d+) bytes", said).groups()))


def node(pid, name, **environment):
    ends = re.findall(r"(\d+) requests\t(\d+) bytes", run("v8_walk", pid, SAMPLES, 1000, **environment)[0])
    report(name, len(ends), sum(int(requests) for requests, _ in ends), sum(int(size) for _, size in ends))


def measure(what, command, look, variable):
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        time.sleep(WARM_S)
        look(process.pid, what + "_names", **{variable: "1"})
        look(process.pid, what + "_names_kept")
    finally:
        process.kill()
        process.wait()


def main():
    if os.geteuid() != 0:
        print("skipped: root is needed")
        sys.exit(77)
    if shutil.which("javac"):
        with tempfile.TemporaryDirectory() as classes:
            subprocess.run(["javac", "--release", "11", "-d", classes, STACKS], check=True)
            for name, flags in (("java", []), ("java_interpreted", ["-Xint"])):
                measure(name, ["java", *flags, "-cp", classes, "Stacks", "spin"], java, "HOTSPOT_UNCACHED")
    if os.path.exists("/usr/bin/node"):
        measure("node", ["/usr/bin/node", SPIN], node, "V8_WALK_UNCACHED")


if __name__ == "__main__":
    main()

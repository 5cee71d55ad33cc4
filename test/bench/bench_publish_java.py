#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What the publisher for Java adds to a scope and to a switch of virtual threads, in ns, with the SDK's own cost beside
it: the same program with SPANPROF_CONTEXT=off and without. The least of several turns counts. A switch is of threads
that yield, by turns on one carrier; `_2_carriers` is the time between switches on two.
The bounds: 80 ns for a scope; for a switch of virtual threads 600 on 21, 200 on 25.

Prints `name value unit`.
"""
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(os.path.dirname(HERE), "peers"), HERE]
import java_services  # noqa: E402
from java_services import JAR, QUIET, sdk_clients  # noqa: E402

TURNS = 3
VERSIONS = (8, 11, 17, 21, 25)


def run(java, path, carriers, switch):
    """name -> ns"""
    done = subprocess.run([*java, "-Djdk.virtualThreadScheduler.parallelism=%d" % carriers, *QUIET, "-cp",
                           path + ":" + JAR, "Cost"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True,
                          timeout=300, env={**os.environ, "SPANPROF_CONTEXT": switch})
    return {name: float(ns) for name, ns in (line.split() for line in done.stdout.decode().splitlines())}


def measure(version, path, carriers):
    java = java_services.java(version)
    least = {"off": {}, "on": {}}
    for _ in range(TURNS):
        for switch, found in least.items():
            for name, ns in run(java, path, carriers, switch).items():
                found[name] = min(ns, found.get(name, ns))
    for name, own in least["off"].items():
        if carriers > 1:
            if name != "virtual_switch":
                continue
            name, added = name + "_2_carriers", least["on"][name] - own
        else:
            added = least["on"][name] - own
        print("publish_java_%d_%s_sdk %.1f ns" % (version, name, own))
        print("publish_java_%d_%s_added %.1f ns" % (version, name, added), flush=True)


def main():
    if not os.path.exists(JAR):
        print("publish_java: the publisher is not built: no JDK")
        return
    for version in VERSIONS:
        try:
            path = java_services.compiled("", "Cost")
            for carriers in (1, 2) if version >= 21 else (1,):
                measure(version, path, carriers)
        except sdk_clients.Missing as reason:
            print("publish_java: %s" % reason)


if __name__ == "__main__":
    main()

#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What the publishers for Go, Rust and C++ add to the SDK's own spans and switches.

Prints `name value unit`: the SDK's own ns beside what is added, each the best of some rounds; for Go also allocations.
What has no toolchain here is left out, with the reason.
"""
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
PEERS = os.path.join(os.path.dirname(HERE), "peers")
sys.path[:0] = [PEERS, os.path.join(os.path.dirname(HERE), "integration", "support"), os.path.join(PEERS, "sdk")]
import go_toolchain  # noqa: E402
import native_programs  # noqa: E402
import sdk_clients  # noqa: E402


def output_of(*command, **options):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=600,
                          env=dict(os.environ, LD_LIBRARY_PATH=native_programs.LIBRARY), **options).stdout


def lines_of(program, mode):
    return {name: float(value) for name, value in
            (line.split() for line in output_of(program, *mode).splitlines())}


def compare(language, program, own, ours):
    """Of two runs of a program that prints names and ns: in turns, the better of each."""
    runs = [[lines_of(program, mode) for mode in (own, ours)] for _ in range(2)]
    for name in runs[0][0]:
        sdk, published = (min(run[which][name] for run in runs) for which in (0, 1))
        print("publish_%s_%s_sdk_ns %.4g ns" % (language, name, sdk))
        print("publish_%s_%s_added_ns %.4g ns" % (language, name, published - sdk), flush=True)


def measure_go():
    if not go_toolchain.GO:
        raise sdk_clients.Missing("no go in PATH")
    text = subprocess.run([go_toolchain.GO, "test", "-mod=readonly", "-run", "^$", "-bench", "Span", "-count", "5", "."],
                          check=True, capture_output=True, text=True, timeout=600, cwd=native_programs.MODULE,
                          env=sdk_clients.go_environment()).stdout
    best = {}
    for name, ns, allocated in re.findall(r"^BenchmarkSpan/(\w+?)(?:-\d+)?\s+\d+\s+([\d.]+) ns/op.*?(\d+) allocs/op", text, re.M):
        best[name] = min(best.get(name, (1e9, 0)), (float(ns), int(allocated)))
    print("publish_go_span_sdk_ns %.4g ns" % best["sdk"][0])
    print("publish_go_span_added_ns %.4g ns" % (best["published"][0] - best["sdk"][0]))
    print("publish_go_span_added_allocations %d 1" % (best["published"][1] - best["sdk"][1]), flush=True)


def measure_rust():
    native_programs.build_rust()
    compare("rust", native_programs.rust("bench"), ["nothing"], ["observer"])


def measure_cpp():
    native_programs.build_cpp()
    compare("cpp", native_programs.cpp("bench"), [], ["publish"])


def main():
    for measure in (measure_go, measure_rust, measure_cpp):
        try:
            measure()
        except sdk_clients.Missing as reason:
            print("%s: %s" % (measure.__name__, reason), flush=True)


if __name__ == "__main__":
    main()

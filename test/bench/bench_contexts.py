#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""How soon a new process's samples carry its spans: from its start, and from when its first span began.

Prints `name value unit`: median and worst of some processes, one after the other, that work in spans as soon as
they have published.
"""
import os
import statistics
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "integration", "support"))
import harness  # noqa: E402
import publishing  # noqa: E402
import receiver  # noqa: E402

RUNS = 8
FREQUENCY = 997
KINDS = {
    "otel": lambda: publishing.Publisher("glibc", "local_exec", ["otel"], *OPTIONS),
    "otel_late_library": lambda: publishing.late("glibc", "otel_tlsdesc_large", *OPTIONS),
    "elastic": lambda: publishing.late("glibc", "elastic_tlsdesc", *OPTIONS),
    "custom_labels": lambda: publishing.Publisher("glibc", "labels_local_exec", ["labels"], *OPTIONS),
}
OPTIONS = ("--threads", 1, "--cpu-ms", 1200)


def run_one(make):
    """The publisher, and when it was started."""
    started = time.time_ns()
    publisher = make()
    publisher.release(publisher.first("ready"))
    publisher.wait()
    return publisher, started


def first_attributed(publisher, samples):
    spans = {(record["trace_id"], record["span_id"]) for record in publisher.of("on")}
    return min((moment for sample in publishing.own_samples(publisher, samples)
                if sample.key() in spans for moment in sample.times), default=None)


def measure(name, runs, samples):
    firsts = [(first_attributed(publisher, samples), started, publisher.of("on")[0]["from"])
              for publisher, started in runs]
    found = [row for row in firsts if row[0]]
    if len(found) < len(firsts):
        print("%s: %d of %d processes were never attributed" % (name, len(firsts) - len(found), len(firsts)))
    for what, origin in (("start", 1), ("first_span", 2)):
        milliseconds = [(row[0] - row[origin]) / 1e6 for row in found] or [float("nan")]
        print("first_attributed_sample_%s_after_%s_ms %.6g ms" % (name, what, statistics.median(milliseconds)))
        print("first_attributed_sample_%s_after_%s_worst_ms %.6g ms" % (name, what, max(milliseconds)), flush=True)


def main():
    if harness.why_no_sampling():
        print("contexts: " + harness.why_no_sampling())
        return
    backend = receiver.Backend()
    with tempfile.TemporaryDirectory(prefix="spanprof-bench-") as directory:
        program = harness.Spanprof(directory, backend.address, over=harness.merge(
            {"receivers": {"sampler": {"frequency": FREQUENCY}}}, {"processors": publishing.OVER["processors"]}))
        program.start()
        program.wait_sampling()
        runs = {name: [run_one(make) for _ in range(RUNS)] for name, make in KINDS.items()}
        time.sleep(2 * publishing.WAIT_S)
        program.stop()
    backend.stop()
    for name in KINDS:
        measure(name, runs[name], backend.samples())


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    os._exit(0)  # grpc's threads must not hold the end back

#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What each part of the durability path is worth alone: 10,000 spans/s of 330 bytes come by gRPC and are sent on,
with the part and without it (durability_switches.c).

Prints `name value unit`. `saves`: the share of the service's CPU time, or of the bytes written to its log, that
the part saves, and the distance between the quartiles of all turns. In each of TURNS turns every part is off for
SECONDS, and none is for as long; the service runs all the time. one_write saves so little that this does not show
it: it is switched every few transactions instead, and the writer's CPU time within transactions is compared, in
10 stretches.
"""
import mmap
import os
import statistics
import struct
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "integration", "support"))
import harness  # noqa: E402
import sender  # noqa: E402
import receiver_schema  # noqa: E402
from bench_collector import Sink, print_figure  # noqa: E402

TURNS, SECONDS, SETTLE_SECONDS = int(os.environ.get("SPANPROF_BENCH_TURNS", 40)), 1, 0.15
STRETCHES, STRETCH_SECONDS = 10, 8
RATE, REQUESTS = 10000, 41 * 5
PARTS = {"handoff": 1, "recycling": 2}
ONE_WRITE = 4
FRAME_BYTES = 24 + 4096  # a page of the log
PROGRAM = os.path.join(harness.BUILD, "test", "durability_spanprof")


def cpu_ns(pid):
    total = 0
    for thread in os.listdir("/proc/%d/task" % pid):
        with open("/proc/%d/task/%s/schedstat" % (pid, thread)) as file:
            total += int(file.read().split()[0])
    return total


def requests():
    """80 to 120 spans each. Their ids differ, because SQLite does not write a page that does not change."""
    request = receiver_schema.message(receiver_schema.TRACE_REQUEST)
    with open(os.path.join(HERE, "spans_330.bin"), "rb") as file:
        template = request.FromString(file.read())
    spans, made = list(template.resource_spans[0].scope_spans[0].spans), []
    for i in range(REQUESTS):
        one = request.FromString(template.SerializeToString())
        ours = one.resource_spans[0].scope_spans[0].spans
        del ours[:]
        ours.extend(spans[(i + j) % len(spans)] for j in range(80 + i * 17 % 41))
        for span in ours:
            span.trace_id, span.span_id = os.urandom(16), os.urandom(8)
        made.append((one.SerializeToString(), len(ours)))
    return made


class Load(threading.Thread):
    """Sends RATE spans/s until stop()."""

    def __init__(self, address):
        super().__init__(daemon=True)
        self.client, self.made, self.ends, self.calls = sender.GrpcSender(address), requests(), False, []
        self.start()

    def run(self):
        began, sent = time.monotonic(), 0
        while not self.ends:
            body, spans = self.made[len(self.calls) % len(self.made)]
            time.sleep(max(0, began + sent / RATE - time.monotonic()))
            self.calls.append(self.client.call.future(body, timeout=10))
            sent += spans

    def stop(self):
        """Raises what a request failed with."""
        self.ends = True
        self.join()
        for call in self.calls:
            call.result()
        self.client.close()


class Switches:
    def __init__(self, path):
        with open(path, "w+b") as file:
            file.truncate(64)
            self.map = mmap.mmap(file.fileno(), 64)

    def turn_off(self, parts, alternating=0):
        self.map[:16] = struct.pack("=QQ", parts, alternating)

    def counters(self):
        """Items, pages, transactions[2], their CPU time[2]."""
        return struct.unpack("=6Q", self.map[16:])


class Bench:
    def __init__(self, directory, sink):
        path = os.path.join(directory, "switches")
        self.switches = Switches(path)
        os.environ["SPANPROF_BENCH_SWITCHES"], harness.BINARY = path, PROGRAM
        self.program = harness.Spanprof(directory, sink.address, sampler=False, over={
            "exporters": {"otlp_grpc": {"compression": "none"}},
            "service": {"telemetry": {"logs": {"level": "error"}}}}).start()

    def measure(self, seconds):
        """CPU time, and how much the counters rose."""
        cpu, before = cpu_ns(self.program.service), self.switches.counters()
        time.sleep(seconds)
        after = self.switches.counters()
        return cpu_ns(self.program.service) - cpu, [new - old for old, new in zip(before, after)]

    def without(self, parts):
        """Nanoseconds of CPU a span, bytes of log a span."""
        self.switches.turn_off(parts)
        time.sleep(SETTLE_SECONDS)
        cpu, (items, pages, *_) = self.measure(SECONDS)
        return cpu / items, pages * FRAME_BYTES / items

    def one_write(self):
        """Percent of the service's CPU time that it saves."""
        self.switches.turn_off(0, ONE_WRITE)
        cpu, (_, _, n, n_off, ns, ns_off) = self.measure(STRETCH_SECONDS)
        saved = (ns_off / n_off - ns / n) * (n + n_off)  # if it was off, or on, in all of them
        return 100 * saved / (cpu + saved / 2)


def print_spread(name, values, unit):
    first, median, third = statistics.quantiles(values, n=4)
    print_figure(name, median, unit)
    print_figure(name + "_spread", third - first, unit)


def run(bench):
    found = {part: [] for part in ("", *PARTS)}
    for turn in range(TURNS):
        parts = list(found)
        for part in parts[turn % len(parts):] + parts[:turn % len(parts)]:
            found[part].append(bench.without(PARTS.get(part, 0)))
    for i, (what, unit) in enumerate((("cpu", "ns of CPU a span"), ("log", "bytes of log a span"))):
        print_spread("durability_" + what, [figures[i] for figures in found[""]], unit)
        for part in PARTS:
            print_spread("durability_%s_saves_%s" % (part, what),
                         [100 * (1 - whole[i] / less[i]) for whole, less in zip(found[""], found[part])], "% of " + what)
    print_spread("durability_one_write_saves_cpu", [bench.one_write() for _ in range(STRETCHES)], "% of cpu")


def main():
    sink = Sink()
    with tempfile.TemporaryDirectory(prefix="spanprof-bench-") as directory:
        bench = Bench(directory, sink)
        try:
            load = Load(bench.program.grpc_address)
            time.sleep(1)
            run(bench)
            load.stop()
        finally:
            bench.program.kill_all()
            sink.stop()


if __name__ == "__main__":
    main()

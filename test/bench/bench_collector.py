#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""spanprof beside an OpenTelemetry Collector that keeps its queue in file_storage, and beside Fluent Bit with
its filesystem buffer: the same spans in, the same sink behind, on the same machine.

Prints `name value unit`; ratios are spanprof's figure through the other's. h2load sends requests of 100
spans of 330 bytes by gRPC, 10,000 spans/s or as many as are taken; both have answered when a request is on
disk, written (`kill`: survives the end of the program) or synced (`power`). CPU time counts until the last
span was sent on. PSS is the largest that was seen. Last, with spans of 800 bytes, it says what spanprof is
limited by. With the Collector where test/peers has built it; with Fluent Bit where SPANPROF_FLUENT_BIT names it, or it
is in build/peers/bin or in PATH. Fluent Bit syncs no request before it answers, so it is in no `power`.
"""
import collections
import gzip
import os
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TEST = os.path.dirname(HERE)
sys.path[:0] = [os.path.join(TEST, "integration", "support"), os.path.join(TEST, "peers")]
import collector_program  # noqa: E402
import go_toolchain  # noqa: E402
import harness  # noqa: E402
import sender  # noqa: E402
import thread_usage  # noqa: E402

SECONDS, SPANS, RATE = 6, 100, 10000
QUEUE_REQUESTS = 100000  # of the Collector: none is refused
STILL_SECONDS = 3  # without a span sent on: that was all
FIRST_SECONDS = 20  # for the first one
SINK = os.path.join(harness.BUILD, "test", "interop_server")
PEERS = os.path.dirname(go_toolchain.HOME)
FLUENT_BIT = os.environ.get("SPANPROF_FLUENT_BIT") or shutil.which(
    "fluent-bit", path=os.pathsep.join([os.path.join(PEERS, "bin"), os.environ["PATH"]]))
COLLECTOR = os.environ.get("SPANPROF_COLLECTOR") or os.path.join(go_toolchain.HOME, "bin", "collector")


def print_figure(name, value, unit):
    print("%s %.6g %s" % (name, value, unit), flush=True)


def cpu_seconds(pid):
    with open("/proc/%d/stat" % pid) as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Spanprof:
    name = "spanprof"

    def __init__(self, directory, sink, compression, durability):
        self.program = harness.Spanprof(directory, sink.address, sampler=False, over={
            "exporters": {"otlp_grpc": {"compression": compression}},
            "extensions": {"sqlite_storage": {"fsync": {"kill": "normal", "power": "full"}[durability]}},
            "service": {"telemetry": {"logs": {"level": "error"}}}})
        self.address = self.program.grpc_address
        self.program.start()

    def pids(self):
        return [self.program.supervisor, *harness.children_of(self.program.supervisor)]

    def sent(self):
        return self.program.metric("spanprof_exporter_sent_items_total")

    def stop(self):
        self.program.kill_all()


class Collector:
    name = "collector"

    def __init__(self, directory, sink, compression, durability):
        port, self.sink = harness.free_port(), sink
        store = os.path.join(directory, "storage")
        os.mkdir(store)
        self.address = "127.0.0.1:%d" % port
        self.program = collector_program.Collector(COLLECTOR, directory, "collector", {
            "receivers": {"otlp": {"protocols": {"grpc": {"endpoint": self.address}}}},
            "exporters": {"otlp_grpc": {
                "endpoint": sink.address, "tls": {"insecure": True}, "compression": compression,
                "sending_queue": {"storage": "file_storage", "queue_size": QUEUE_REQUESTS}}},
            "extensions": {"file_storage": {"directory": store, "fsync": durability == "power"}},
            "service": {"extensions": ["file_storage"],
                        "pipelines": {"traces": {"receivers": ["otlp"], "exporters": ["otlp_grpc"]}}}},
            [port])
        self.program.start()

    def pids(self):
        return [self.program.process.pid]

    def sent(self):
        return self.sink.spans

    def stop(self):
        self.program.process.kill()
        self.program.process.wait()


FLUENT_BIT_CONFIG = """
[SERVICE]
    flush 0.2
    scheduler.base 1
    scheduler.cap 2
    storage.path {directory}/storage
    storage.sync normal
    storage.max_chunks_up 4000
[INPUT]
    name opentelemetry
    listen 127.0.0.1
    port {port}
    storage.type filesystem
[OUTPUT]
    name opentelemetry
    match *
    host {host}
    port {sink_port}
    grpc on
    http2 force
    log_response_payload false
    retry_limit no_limits
    {compress}
"""


class FluentBit:
    name = "fluentbit"

    def __init__(self, directory, sink, compression, durability):
        port, self.sink = harness.free_port(), sink
        self.address = "127.0.0.1:%d" % port
        host, sink_port = sink.address.split(":")
        path = os.path.join(directory, "fluent-bit.conf")
        with open(path, "w") as file:
            file.write(FLUENT_BIT_CONFIG.format(directory=directory, port=port, host=host, sink_port=sink_port,
                                                compress="compress gzip" if compression == "gzip" else ""))
        self.process = subprocess.Popen([FLUENT_BIT, "-q", "-c", path], stdout=subprocess.DEVNULL)
        harness.wait_until(self.listens, 20, "Fluent Bit listens")

    def listens(self):
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", int(self.address.split(":")[1]))) == 0

    def pids(self):
        return [self.process.pid]

    def sent(self):
        return self.sink.spans

    def stop(self):
        self.process.kill()
        self.process.wait()


class Sink:
    """spans: that have come."""

    def __init__(self):
        self.spans = 0
        self.process = subprocess.Popen([SINK], stdout=subprocess.PIPE, text=True)
        self.address = "127.0.0.1:" + self.process.stdout.readline().strip()
        self.reader = threading.Thread(target=self._read)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            self.spans = int(line)

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.reader.join()


class Load(collections.namedtuple("Load", "size compression durability rate")):
    """size: bytes of a span. rate: spans a second; None: as many as are taken."""

    @property
    def name(self):
        size = "" if self.size == 330 else "%d_" % self.size
        return "%s_%s%s_%s_" % ("10k" if self.rate else "full", size, self.compression, self.durability)

    def request_file(self, directory):
        with open(os.path.join(HERE, "spans_%d.bin" % self.size), "rb") as file:
            body = file.read()
        if self.compression == "gzip":
            body = gzip.compress(body, 6)
        path = os.path.join(directory, "request")
        with open(path, "wb") as file:
            file.write(struct.pack(">BI", self.compression == "gzip", len(body)) + body)
        return path

    def start(self, address, path):
        pace = ["-c", "1", "-m", "8", "--rps=%d" % (self.rate // SPANS)] if self.rate else ["-c", "4", "-m", "8"]
        encoding = ["-H", "grpc-encoding: gzip"] if self.compression == "gzip" else []
        return subprocess.Popen(["h2load", "-D", str(SECONDS), *pace, *encoding, "-d", path, "-H", "te: trailers",
                                 "-H", "content-type: application/grpc", "http://" + address + sender.METHOD],
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def run(kind, load, watch=None):
    """Spans a second that were taken, spans sent on for a second of CPU time, PSS in MiB, share of a CPU.
    watch: is called with the program, and what it returns is stopped with the load."""
    sink = Sink()
    with tempfile.TemporaryDirectory(prefix="spanprof-bench-") as directory:
        path = load.request_file(directory)
        program = kind(directory, sink, load.compression, load.durability)
        try:
            watcher = watch(program) if watch else None
            return measure(program, load.start(program.address, path), watcher)
        finally:
            program.stop()
            sink.stop()


class Usage:
    def __init__(self, pids):
        self.pids, self.pss_mib, self.began = pids, 0, sum(map(cpu_seconds, pids))

    def look(self):
        """CPU time since the begin."""
        self.pss_mib = max(self.pss_mib, sum(map(harness.pss_kib, self.pids)) / 1024)
        return sum(map(cpu_seconds, self.pids)) - self.began


def measure(program, load, watcher):
    usage, began = Usage(program.pids()), time.monotonic()
    while load.poll() is None:
        during = usage.look()
        time.sleep(0.25)
    if watcher:
        watcher.stop()
    wall, sent, still_since, cpu = time.monotonic() - began, 0, time.monotonic(), usage.look()
    while time.monotonic() < still_since + (STILL_SECONDS if sent else FIRST_SECONDS):
        before, sent = sent, program.sent()
        if sent != before:
            still_since, cpu = time.monotonic(), usage.look()
        time.sleep(0.25)
    if not sent:
        raise RuntimeError("nothing arrived")
    return sent / wall, sent / cpu, usage.pss_mib, during / wall * 100


def compare(load, watch=None):
    units = ("spans_per_second", "spans/s"), ("spans_per_cpu_second", "spans/s of CPU"), ("pss_mib", "MiB"), \
        ("cpu_percent", "% of a CPU")
    others = ([Collector] if os.path.exists(COLLECTOR) else []) + \
        ([FluentBit] if FLUENT_BIT and load.durability == "kill" else [])
    ours, theirs = run(Spanprof, load, watch), [run(kind, load) for kind in others]
    for i, (what, unit) in enumerate(units):
        for kind, found in zip([Spanprof, *others], [ours, *theirs]):
            print_figure("%s%s_%s" % (load.name, kind.name, what), found[i], unit)
        for kind, found in zip(others, theirs):
            print_figure("%s%s_to_%s_ratio" % (load.name, what, kind.name), ours[i] / found[i], "x")


def find_limit(size):
    load, watchers = Load(size, "none", "kill", None), []

    def watch(program):
        watchers.append(thread_usage.ThreadUsage(program.program.service))
        return watchers[0]

    compare(load, watch)
    usage = watchers[0]
    for share in usage.shares:
        for what, percent in zip(("cpu", "ready", "disk"), share[1:]):
            print_figure("%sspanprof_%s_%s_percent" % (load.name, share.name, what), percent, "% of the time")
    print_figure(load.name + "spanprof_written_mb_per_second", usage.written_per_second / 1e6, "MB/s")
    print_figure(load.name + "machine_cpu_percent", usage.machine_percent, "% of all CPUs")
    print("collector_%d_limit: %s" % (size, usage.limit()), flush=True)


def main():
    if not os.path.exists(COLLECTOR):
        print("no Collector beside it: ./dev test peers -R collector builds one, with Go")
    for durability, compressions in (("kill", ("none", "gzip")), ("power", ("none",))):
        for compression in compressions:
            for rate in (RATE, None):
                compare(Load(330, compression, durability, rate))
    find_limit(800)


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""spanprof and the OpenTelemetry eBPF profiler, side by side: each samples all that runs here and sends it to a sink of
its own. What they cost is read alike."""
import gzip
import json
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
TEST = os.path.dirname(HERE)
sys.path[:0] = [os.path.join(TEST, "integration", "support"), os.path.join(TEST, "peers")]
import bench_service  # noqa: E402
import go_toolchain  # noqa: E402
import harness  # noqa: E402
import receiver  # noqa: E402

FREQUENCY = 97
INTERVAL_S = 5  # between two exports, of both
START_S = 120
EBPF_PROFILER = go_toolchain.program("ebpf-profiler", "SPANPROF_EBPF_PROFILER")
STATS_SWITCH = "/proc/sys/kernel/bpf_stats_enabled"


class Sink(receiver.Backend):
    """Keeps requests as they come; they are looked at when nothing is measured any more."""

    def _keep(self, request):
        with self.changed:
            self.received.append(request)

    def samples(self, pid=None, since=0):
        """since: requests before that time are left out."""
        return [sample for request in self.requests("profiles") if request.time >= since
                for sample in receiver.samples_of(request.message)]


def without_native_names(body):
    """Bytes of a request that names no native code: the other profiler leaves that to its backend."""
    message = receiver.receiver_schema.message(receiver.receiver_schema.PROFILES_REQUEST).FromString(body)
    tables, resolver = message.dictionary, receiver.Resolver(message)
    named, emptied = set(), 0
    for location in tables.location_table:
        if resolver.attributes(location.attribute_indices).get("profile.frame.type") == "native":
            del location.lines[:]
        named |= {line.function_index for line in location.lines}
    texts = [{function.name_strindex, function.system_name_strindex, function.filename_strindex}
             for function in tables.function_table]
    kept = set().union(*(texts[index] for index in named))
    for index, function in enumerate(tables.function_table):
        if index and index not in named:
            function.Clear()
            emptied += 1
    for index in set().union(*texts) - kept:
        tables.string_table[index] = ""
        emptied += 1
    return message.ByteSize() - 2 * emptied  # an empty entry is its tag and a zero


class Spanprof:
    name = "spanprof"

    def __init__(self, directory):
        self.sink = Sink()
        self.program = harness.Spanprof(directory, self.sink.address, over={
            "receivers": {"sampler": {"frequency": FREQUENCY}}, "processors": {"join": {"wait": "1s"}},
            "service": {"telemetry": {"logs": {"level": "error"}}}})

    def start(self):
        self.program.start()
        self.program.wait_sampling()

    def pids(self):
        return [self.program.supervisor, *harness.children_of(self.program.supervisor)]

    def stop(self):
        if self.program.process:
            self.program.kill_all()
        self.sink.stop()


class EbpfProfiler:
    name = "ebpf_profiler"

    def __init__(self, directory):
        self.sink, self.process = Sink(), None
        self.log = open(os.path.join(directory, "profiler.log"), "w+")

    def start(self):
        self.process = subprocess.Popen(
            [EBPF_PROFILER, "-collection-agent", self.sink.address, "-disable-tls", "-samples-per-second",
             str(FREQUENCY), "-reporter-interval", "%ds" % INTERVAL_S], stdout=self.log, stderr=self.log)
        self.sink.wait(lambda: self.sink.requests("profiles") or self.process.poll() is not None, START_S,
                       "it profiles")
        if self.process.poll() is not None:
            self.log.seek(0)
            raise RuntimeError("the profiler ended with %d: %s" % (self.process.returncode, self.log.read()[-2000:]))

    def pids(self):
        return [self.process.pid]

    def stop(self):
        if self.process:
            self.process.kill()
            self.process.wait()
        self.log.close()
        self.sink.stop()


class BpfStats:
    """The kernel counts the time of BPF programs meanwhile."""

    def __enter__(self):
        self.before = self._set("1")
        return self

    def __exit__(self, *_):
        self._set(self.before)

    def _set(self, value):
        with open(STATS_SWITCH, "r+") as file:
            before = file.read().strip()
            file.seek(0)
            file.write(value)
        return before


def fdinfo_of(pids):
    for pid in pids:
        for name in os.listdir("/proc/%d/fdinfo" % pid):
            try:
                with open("/proc/%d/fdinfo/%s" % (pid, name)) as file:
                    yield file.read()
            except OSError:
                continue  # closed meanwhile


def bpf_times(pids):
    """(ns, ticks): of all BPF programs of these processes, and how often those of perf events began."""
    ids = {int(found) for text in fdinfo_of(pids) for found in re.findall(r"^prog_id:\s*(\d+)", text, re.M)}
    listed = json.loads(subprocess.run(["bpftool", "-j", "prog", "show"], check=True, capture_output=True).stdout)
    own = [program for program in listed if program["id"] in ids]
    return (sum(program.get("run_time_ns", 0) for program in own),
            sum(program.get("run_cnt", 0) for program in own if program["type"] == "perf_event"))


def map_bytes(pids):
    maps = {}
    for text in fdinfo_of(pids):
        found = re.search(r"^map_id:\s*(\d+)", text, re.M)
        if found:
            maps[found.group(1)] = int(re.search(r"^memlock:\s*(\d+)", text, re.M).group(1))
    return sum(maps.values())


class Cost:
    """Of a profiler, from now to stop()."""

    def __init__(self, profiler):
        self.profiler = profiler
        self.began = self._counters()

    def _counters(self):
        pids = self.profiler.pids()
        return (sum(map(bench_service.cpu_seconds, pids)), *bpf_times(pids), len(self._requests()))

    def _requests(self):
        return self.profiler.sink.requests("profiles")

    def stop(self):
        ended = self._counters()
        self.cpu_s, self.bpf_ns, self.ticks, _ = (after - before for before, after in zip(self.began, ended))
        self.bodies = [request.body for request in self._requests()[self.began[-1]:ended[-1]]]
        self.pss_mib = sum(map(harness.pss_kib, self.profiler.pids())) / 1024
        self.map_mib = map_bytes(self.profiler.pids()) / (1 << 20)
        return self

    def count_bytes(self):
        """Later: it takes long."""
        self.otlp_bytes = sum(map(len, self.bodies))
        self.gzip_bytes = sum(len(gzip.compress(body, 6)) for body in self.bodies)
        self.alike_bytes = sum(map(without_native_names, self.bodies))

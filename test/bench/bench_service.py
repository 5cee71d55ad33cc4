#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The whole service under load: spans, data points and log records acknowledged through gRPC (each
request after its commit), latency, memory.

Prints `name value unit`. h2load sends; the outbox is emptied by the debug exporter, so that nothing but
spanprof is measured. Memory is PSS summed over supervisor, service and symbolizer; that of BPF maps lies in the
kernel and is printed beside it.
"""
import os
import re
import struct
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "integration", "support"))
import harness  # noqa: E402
import sender  # noqa: E402

# file, signal, what it counts as, their name
LOADS = (("spans_330", "traces", "spanprof_spans_received_total", "spans"),
         ("spans_800", "traces", "spanprof_spans_received_total", "spans"),
         ("metrics", "metrics", "spanprof_metric_points_received_total", "points"),
         ("logs", "logs", "spanprof_log_records_received_total", "records"))
SECONDS = 6


def print_figure(name, value, unit):
    print("%s %.6g %s" % (name, value, unit), flush=True)


def spanprof(directory, sampler, history=False):
    over = {"exporters": {"debug": {}}, "service": {"pipelines": {
        signal: {"exporters": ["debug"]} for signal in (["traces", "profiles"] if sampler else ["traces"])}}}
    for signal in ("metrics", "logs"):
        over["service"]["pipelines"][signal] = {"receivers": ["otlp"], "exporters": ["debug"]}
    if history:
        over["extensions"] = {"history": {}}
        over["service"]["extensions"] = ["sqlite_storage", "history"]
    over["service"]["telemetry"] = {"logs": {"level": "error"}}
    return harness.Spanprof(directory, "127.0.0.1:1", sampler=sampler, over=over)


def processes(program):
    return [program.supervisor, *harness.children_of(program.supervisor)]


def pss_mib(program):
    return sum(harness.pss_kib(pid) for pid in processes(program)) / 1024


def cpu_seconds(pid):
    with open("/proc/%d/stat" % pid) as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def map_bytes(program):
    """Of the BPF maps that the supervisor holds, as the kernel accounts for them."""
    total, seen = 0, set()
    for name in os.listdir("/proc/%d/fdinfo" % program.supervisor):
        with open("/proc/%d/fdinfo/%s" % (program.supervisor, name)) as file:
            text = file.read()
        found = re.search(r"^map_id:\s*(\d+)", text, re.M)
        if found and found.group(1) not in seen:
            seen.add(found.group(1))
            total += int(re.search(r"^memlock:\s*(\d+)", text, re.M).group(1))
    return total


def percentile(values, share):
    return values[min(len(values) - 1, int(share * len(values)))]


def load(program, path, method, clients, streams=8):
    """Requests a second and sorted latencies in microseconds of answered requests, by h2load."""
    log = path + ".log"
    subprocess.run(["h2load", "-D", str(SECONDS), "--warm-up-time", "1", "-c", str(clients), "-m", str(streams),
                    "-d", path, "-H", "te: trailers", "-H", "content-type: application/grpc",
                    "--log-file", log, "http://%s%s" % (program.grpc_address, method)],
                   check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with open(log) as file:
        rows = [line.split("\t") for line in file]
    return sorted(int(row[2]) for row in rows if row[1] == "200")


def grpc_file(directory, name, times=1):
    with open(os.path.join(HERE, name + ".bin"), "rb") as file:
        body = file.read() * times
    path = os.path.join(directory, name + ".grpc")
    with open(path, "wb") as file:
        file.write(b"\0" + struct.pack(">I", len(body)) + body)
    return path


def measure_load(directory, file, signal, counter, items, history=False):
    name = "grpc_" + file.replace("spans_", "") + ("_history" if history else "")
    program = spanprof(os.path.join(directory, "load_" + name), sampler=False, history=history)
    os.mkdir(program.directory)
    program.start()
    path = grpc_file(directory, file)
    before, cpu = program.metric(counter), cpu_seconds(program.service)
    began = time.monotonic()
    micros = load(program, path, sender.METHODS[signal], clients=4)
    wall = time.monotonic() - began
    taken = program.metric(counter) - before
    cpu = cpu_seconds(program.service) - cpu
    print_figure("%s_%s_per_second" % (name, items), taken / wall, items + "/s")
    print_figure("%s_%s_per_cpu_second" % (name, items), taken / cpu, items + "/s of CPU")
    print_figure(name + "_latency_p50_ms", percentile(micros, 0.50) / 1000, "ms")
    print_figure(name + "_latency_p99_ms", percentile(micros, 0.99) / 1000, "ms")
    print_figure(name + "_pss_mib", pss_mib(program), "MiB")
    refused = program.metric("spanprof_requests_refused_total")
    if refused:
        print("%s: %d requests were refused" % (name, refused))
    program.stop()


def measure_overload(directory):
    """2560 requests of 264 kB at a time: 640 MB, where 32 MiB are let in."""
    program = spanprof(os.path.join(directory, "overload"), sampler=False)
    os.mkdir(program.directory)
    program.start()
    path = grpc_file(directory, "spans_330", times=8)
    began = time.monotonic()
    micros = load(program, path, sender.METHODS["traces"], clients=64, streams=40)
    wall = time.monotonic() - began
    calls = {outcome: program.metric("spanprof_grpc_server_calls_total", 'outcome="%s"' % outcome)
             for outcome in ("accepted", "busy")}
    print_figure("overload_spans_per_second", program.metric("spanprof_spans_received_total") / wall, "spans/s")
    print_figure("overload_latency_p99_ms", percentile(micros, 0.99) / 1000, "ms")
    print_figure("overload_refused_percent", 100 * calls["busy"] / sum(calls.values()), "%")
    print_figure("overload_pss_peak_mib", int(harness.status_of(program.service)["VmHWM"].split()[0]) / 1024, "MiB")
    program.stop()


def measure_memory(directory):
    sampler = harness.why_no_sampling() is None
    program = spanprof(os.path.join(directory, "idle"), sampler)
    os.mkdir(program.directory)
    program.start()
    time.sleep(8)
    print_figure("pss_idle_mib", pss_mib(program), "MiB")
    cpu = sum(cpu_seconds(pid) for pid in processes(program))
    time.sleep(5)
    print_figure("cpu_idle_percent", (sum(cpu_seconds(pid) for pid in processes(program)) - cpu) / 5 * 100,
                 "% of a CPU")
    if sampler:
        workload = harness.Workload("--mode", "duty", "--duty", "100,100", "--seconds", "10", "--span-ms", "20",
                                    endpoint=program.http_address)
        time.sleep(8)
        print_figure("pss_loaded_mib", pss_mib(program), "MiB")
        workload.wait()
        print_figure("bpf_maps_mib", map_bytes(program) / (1 << 20), "MiB")
    program.stop()


def main():
    with tempfile.TemporaryDirectory(prefix="spanprof-bench-") as directory:
        measure_memory(directory)
        for figures in LOADS:
            measure_load(directory, *figures)
        measure_load(directory, *LOADS[0], history=True)
        measure_overload(directory)


if __name__ == "__main__":
    main()

#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Python, Java and Node as spanprof and as the OpenTelemetry eBPF profiler tell them, side by side in one run.

    bench_runtimes_peer.py [--seconds N] [--keep DIRECTORY] [PROGRAM...]

For each runtime (the installed ones, or the PROGRAMs: python..., java..., node..., of any version) a load runs on each
CPU whose stacks are known by construction (test/support/loads/phases.*), while both profilers sample at the same rate
and send to a sink of their own. One function judges both (known_stacks.py), in samples of the load's thread at times
when it said that a phase ran. --keep: examples of what was not right go there.

Prints `name value unit`; names end with whose figure it is.
    load_cpu     what the loads got; far below 100 % for each CPU, the machine was busy with something else, and neither
                 bpf nor cpu is the load's
    whole        stacks of which no frame of the language is missing, out to the outermost one
    wrong_names, wrong_lines, no_lines    frames of the load
    other_time   stacks of another phase than the one that ran at the sample's time
    bpf          time of all its BPF programs by ticks
    cpu          of all its processes by 1,000 samples that it told, of whatever process
    otlp         of its requests, not compressed; otlp_gzip: compressed, alike for both; otlp_alike: without the names
                 and lines of native code, which one of them leaves to its backend
    start        of all its processes, from their start on until 10 s after it began to sample

The peer is what SPANPROF_EBPF_PROFILER names, or the ebpf-profiler in build/peers/go/bin or PATH; without one this is
skipped. It wants what test/peers/test_ebpf_profiler.py says.
"""
import argparse
import bisect
import collections
import os
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import known_stacks  # noqa: E402
import profilers  # noqa: E402
from bench_service import cpu_seconds, print_figure  # noqa: E402
from profilers import harness  # noqa: E402

PROGRAMS = ("/usr/bin/python3.11", "/usr/bin/java", "/usr/bin/node")
KNOWN_S = 60  # by then a profiler shows the runtime, or it never does
SETTLE_S = 5
START_S = 10
ARRIVE_S = 60
MARGIN_NS = 5_000_000  # at either end of a phase
EXAMPLES = 12


class Load:
    """Says which phase ran when, until it is stopped."""

    def __init__(self, language, command):
        self.language, self.phases = language, []
        self.output = tempfile.TemporaryFile(mode="w+")
        self.process = subprocess.Popen(command, stdout=self.output)
        self.thread = int(harness.wait_until(self._said, 30, "the load runs")[0][1])

    def _said(self):
        self.output.seek(0)
        return [line.split() for line in self.output.read().splitlines(keepends=True) if line.endswith("\n")]

    def stop(self):
        self.process.kill()
        self.process.wait()
        for name, begin, end in self._said()[1:]:
            self.phases.append((int(begin) + MARGIN_NS, int(end) - MARGIN_NS, name))
        self.output.close()

    def phase(self, when):
        at = bisect.bisect(self.phases, (when, 1 << 63, "")) - 1
        return self.phases[at][2] if at >= 0 and when <= self.phases[at][1] else None


class Runtime:
    """A program, and how the load runs on it."""

    def __init__(self, path, directory):
        self.path = path
        base = os.path.basename(path)
        kind = next((name for name in known_stacks.LANGUAGES if base.startswith(name)), None)
        if kind is None:
            raise SystemExit("%s: none of %s" % (path, ", ".join(known_stacks.LANGUAGES)))
        self.language = known_stacks.LANGUAGES[kind]
        self.name = kind + self._version(kind)
        self.command = [path, self.language.path, "100000"]
        if kind == "java":
            subprocess.run(["javac", "-g", "--release", "11", "-d", directory, self.language.path], check=True)
            self.command[1:2] = ["-cp", directory, "Phases"]

    def _version(self, kind):
        said = subprocess.run([self.path, "-version" if kind == "java" else "--version"], check=True, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout
        text = said.split('"')[1] if kind == "java" else said.split()[-1].lstrip("v")
        return ".".join(text.split(".")[:2 if kind == "python" else 1])

    def start(self):
        return [Load(self.language, self.command) for _ in range(os.cpu_count())]


class Outcome:
    """What one profiler told of the loads."""

    def __init__(self, loads, samples, window):
        self.told = self.whole = self.frames = self.names = self.lines = self.no_lines = 0
        self.other_time = self.all = 0
        self.faults, self.examples = collections.Counter(), []
        threads = {load.thread: load for load in loads}
        for sample in samples:
            times = [when for when in sample.times if window[0] <= when <= window[1]]
            self.all += len(times)
            load = threads.get(sample.attributes.get("thread.id"))
            for phase in filter(None, map(load.phase, times)) if load else ():
                self._add(load.language, sample, phase)

    def _add(self, language, sample, phase):
        frames = [known_stacks.Frame(*line) for frame in sample.frames if frame.kind == language.kind
                  for line in frame.lines]
        verdict = known_stacks.judge(language, frames, phase)
        self.told += 1
        self.whole += verdict.whole
        self.frames += verdict.frames
        self.names += verdict.names
        self.lines += verdict.lines
        self.no_lines += verdict.no_lines
        self.other_time += verdict.other_time
        new = set(verdict.faults) - set(self.faults)
        self.faults.update(verdict.faults)
        if new and len(self.examples) < EXAMPLES:
            self.examples.append((phase, verdict, sample))

    def figures(self, cost):
        return (("samples", self.told, "samples"), ("whole", 100 * self.whole / max(1, self.told), "% of samples"),
                ("frames", self.frames / max(1, self.told), "frames a sample"),
                ("wrong_names", self.names, "frames"), ("wrong_lines", self.lines, "frames"),
                ("no_lines", self.no_lines, "frames"), ("other_time", self.other_time, "samples"),
                ("bpf", cost.bpf_ns / max(1, cost.ticks), "ns a tick"),
                ("cpu", 1e6 * cost.cpu_s / max(1, self.all), "ms of 1000 samples"),
                ("otlp", cost.otlp_bytes / max(1, self.all), "bytes a sample"),
                ("otlp_alike", cost.alike_bytes / max(1, self.all), "bytes a sample"),
                ("otlp_gzip", cost.gzip_bytes / max(1, self.all), "bytes a sample"),
                ("pss", cost.pss_mib, "MiB"), ("maps", cost.map_mib, "MiB"))


def write_examples(file, name, outcome):
    """Of what was not right."""
    print("== %s" % name, *("%6d %s" % (n, why) for why, n in outcome.faults.most_common(40)), sep="\n", file=file)
    for phase, verdict, sample in outcome.examples:
        print("-- %s: %s" % (phase, "; ".join(verdict.faults)), file=file)
        for frame in sample.frames:
            print("   ", frame.kind, frame.lines or frame.name(), file=file)


def shows(other, loads):
    threads = {load.thread for load in loads}
    return any(frame.kind == loads[0].language.kind for sample in other.sink.samples()
               if sample.attributes.get("thread.id") in threads for frame in sample.frames)


def settle(runtime, loads, others):
    """Until each shows frames of the runtime, or never does."""
    for other in others:
        try:
            other.sink.wait(lambda other=other: shows(other, loads), KNOWN_S, "it is known")
        except TimeoutError:
            print("%s: %s does not show it" % (runtime.name, other.name), flush=True)
    time.sleep(SETTLE_S)
    for other in others:
        other.sink.forget()


def measure(runtime, others, loads, seconds):
    """Costs, and when it was."""
    pids = [load.process.pid for load in loads]
    used, costs, begin = sum(map(cpu_seconds, pids)), [profilers.Cost(other) for other in others], time.time_ns()
    time.sleep(seconds)
    window = begin, time.time_ns()
    print_figure(runtime.name + "_load_cpu", 1e11 * (sum(map(cpu_seconds, pids)) - used) / (window[1] - begin),
                 "% of a CPU")
    return [cost.stop() for cost in costs], window


def has_come(sink, when):
    """All that was sampled until then."""
    return any(time_ns > when for sample in sink.samples(since=when / 1e9) for time_ns in sample.times)


def run(runtime, others, options):
    """One load, with both profilers beside it."""
    for other in others:
        other.sink.forget()
    loads = runtime.start()
    try:
        settle(runtime, loads, others)
        costs, window = measure(runtime, others, loads, options.seconds)
    finally:
        for load in loads:
            load.stop()
    for other in others:
        other.sink.wait(lambda other=other: has_come(other.sink, window[1]), ARRIVE_S, "its samples have come")
    for cost in costs:
        cost.count_bytes()
    outcomes = [Outcome(loads, other.sink.samples(), window) for other in others]
    figures = [outcome.figures(cost) for outcome, cost in zip(outcomes, costs)]
    for row in zip(*figures):
        for other, (what, value, unit) in zip(others, row):
            print_figure("%s_%s_%s" % (runtime.name, what, other.name), value, unit)
    if options.keep:
        with open(os.path.join(options.keep, runtime.name + ".txt"), "w") as file:
            for other, outcome in zip(others, outcomes):
                write_examples(file, other.name, outcome)


def installed():
    return [program for program in PROGRAMS if shutil.which(program) and
            ("java" not in program or shutil.which("javac"))]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--keep")
    parser.add_argument("programs", nargs="*", metavar="PROGRAM")
    options = parser.parse_args()
    reason = harness.why_no_sampling() or (None if profilers.EBPF_PROFILER else "no ebpf-profiler is given")
    if reason:
        print("skipped: " + reason)
        return
    with tempfile.TemporaryDirectory(prefix="spanprof-bench-") as directory, profilers.BpfStats():
        os.chmod(directory, 0o755)
        runtimes = [Runtime(program, directory) for program in options.programs or installed()]
        others = [kind(directory) for kind in (profilers.Spanprof, profilers.EbpfProfiler)]
        try:
            for other in others:
                other.start()
                time.sleep(START_S)
                print_figure("start_" + other.name, sum(map(profilers.bench_service.cpu_seconds, other.pids())),
                             "s of CPU")
            for runtime in runtimes:
                run(runtime, others, options)
        finally:
            for other in others:
                other.stop()


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    os._exit(0)  # grpc's threads must not hold the end back

#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What spanprof costs a node: 200 processes, two of which keep two CPUs busy with deep stacks; and a node that starts
short programs without end.

Prints `name value unit`: CPU time of spanprof's processes, and of its ticks in the kernel, in percent of one CPU;
memory (PSS of all its processes, BPF maps beside it); how many stacks are whole.
"""
import os
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "integration", "support"))
sys.path.insert(0, HERE)
import bench_service  # noqa: E402
import harness  # noqa: E402
import receiver  # noqa: E402

LOADS = os.path.join(os.path.dirname(HERE), "support", "loads")
BUSY = (["/usr/bin/python3", os.path.join(LOADS, "sorting.py")], ["perl", os.path.join(LOADS, "words.pl")])
PROCESSES = 200
SETTLE_S = 10
MEASURE_S = 20
SHORT = ["sh", "-c", "while :; do /bin/true; done"]


def start(command):
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)


def cpu_by_process(program):
    return {harness.comm_of(pid): bench_service.cpu_seconds(pid) for pid in bench_service.processes(program)}



def measure(program, name, seconds):
    before, metrics = cpu_by_process(program), program.metrics()
    time.sleep(seconds)
    after, now = cpu_by_process(program), program.metrics()

    def grown(metric):
        return sum(now[key] - metrics.get(key, 0) for key in now if key.split("{")[0] == metric)

    for comm, spent in sorted(after.items()):
        bench_service.print_figure("%s_cpu_%s" % (name, comm.replace("-", "_")),
                                   100 * (spent - before.get(comm, 0)) / seconds, "% of a CPU")
    bench_service.print_figure(name + "_cpu_ticks", grown("spanprof_tick_nanoseconds_total") / 1e7 / seconds,
                               "% of a CPU")
    samples = grown("spanprof_samples_total") or 1
    bench_service.print_figure(name + "_samples_per_s", samples / seconds, "samples/s")
    bench_service.print_figure(name + "_stacks_whole",
                               100 * (1 - grown("spanprof_stacks_truncated_total") / samples), "%")
    bench_service.print_figure(name + "_stacks_copied", 100 * grown("spanprof_stacks_copied_total") / samples, "%")
    return grown


def main():
    if harness.why_no_sampling():
        print("node: " + harness.why_no_sampling())
        return
    backend = receiver.Backend()
    children = [start(["sleep", "600"]) for _ in range(PROCESSES - len(BUSY))]
    with tempfile.TemporaryDirectory(prefix="spanprof-bench-") as directory:
        program = harness.Spanprof(directory, backend.address,
                                   over={"receivers": {"sampler": {"max_cpu_percent": 100}}})  # ticks are timed then
        program.start()
        program.wait_sampling()
        children += [start(command) for command in BUSY]
        time.sleep(SETTLE_S)
        measure(program, "node_200", MEASURE_S)
        bench_service.print_figure("node_200_pss_mib", bench_service.pss_mib(program), "MiB")
        bench_service.print_figure("node_200_bpf_maps_mib", bench_service.map_bytes(program) / (1 << 20), "MiB")
        for child in children:
            child.kill()
        children.append(start(SHORT))
        time.sleep(SETTLE_S / 2)
        measure(program, "node_short", MEASURE_S)
        children[-1].kill()
        program.stop()
    backend.stop()


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    os._exit(0)  # grpc's threads must not hold the end back

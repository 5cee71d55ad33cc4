# SPDX-License-Identifier: Apache-2.0
"""The OpenTelemetry eBPF profiler as sender: it samples programs that publish their traces as Elastic's agents do,
and its samples meet the spans here.

SPANPROF_EBPF_PROFILER names the program; else one in build/peers/go/bin or in PATH. To have it, build it from its
repository, open-telemetry/opentelemetry-ebpf-profiler: go build -o ebpf-profiler .
It wants CAP_SYS_RESOURCE and tracefs (mount -t tracefs tracefs /sys/kernel/tracing).
"""
import os
import shutil
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "integration", "support"))
import go_toolchain  # noqa: E402
import harness  # noqa: E402
import publishing  # noqa: E402
import sender  # noqa: E402

FREQUENCY = 97
SERVICE = "shop"
N_PUBLISHERS = 5
ITS_OWN = "attribute_table[0] is not the zero value"  # pdata writes an empty value there
AGENT = "elastic-jvmti-linux-x64.so"  # by its name the profiler knows what it is


def program():
    return go_toolchain.program("ebpf-profiler", "SPANPROF_EBPF_PROFILER")


@unittest.skipUnless(program(), "no ebpf-profiler")
@unittest.skipUnless(os.geteuid() == 0, "sampling needs root")
class EbpfProfiler(publishing.PublishersTest):
    def profile(self, address):
        log = open(os.path.join(self.directory, "profiler.log"), "wb")
        self.addCleanup(log.close)
        process = subprocess.Popen([program(), "-collection-agent", address, "-disable-tls", "-verbose",
                                    "-reporter-interval", "1s", "-samples-per-second", str(FREQUENCY)],
                                   stdout=log, stderr=log)
        self.addCleanup(process.kill)
        return process

    def wait_profiling(self, profiler):
        harness.wait_until(lambda: self.backend.samples() or profiler.poll() is not None, 60, "the profiler profiles")
        if profiler.poll() is not None:
            with open(os.path.join(self.directory, "profiler.log")) as log:
                last = log.read().splitlines()[-1:]
            self.assertIn("operation not permitted", "".join(last))
            self.skipTest("the profiler may not do what it wants here: " + "".join(last))

    def start_publisher(self, number):
        """Its child is what matters: it has the library, and says all that it has to, from its first moment on;
        the profiler looks once."""
        directory = os.path.join(self.directory, str(number))
        os.mkdir(directory)
        library = os.path.join(directory, AGENT)
        shutil.copy(publishing.path("glibc", "elastic_tlsdesc.so"), library)
        return self.publish(publishing.Publisher(
            "glibc", "late", ["elastic=" + library], "--service", SERVICE, "--socket",
            os.path.join(directory, "agent.sock"), "--then", "fork"))

    def send_transactions(self, spanprof):
        """A profiler of this kind links to the local root. Returns the names by trace and span id."""
        request, spans = sender.new_request({"service.name": SERVICE})
        names = {}
        for publisher in self.publishers:
            for record in publisher.of("on"):
                key = record["trace_id"], record["root_id"]
                names[key] = "transaction %d" % len(names)
                sender.add_span(spans, names[key], *map(bytes.fromhex, key), start=record["from"],
                                end=record["to"])
        client = sender.GrpcSender(spanprof.grpc_address)
        client.send(request.SerializeToString())
        client.close()
        return names

    def test_its_samples_meet_the_spans(self):
        pipelines = {signal: {"receivers": ["otlp"], "processors": ["join"], "exporters": ["otlp_grpc"]}
                     for signal in ("traces", "profiles")}
        spanprof = self.spanprof(sampler=False, over={"processors": {"join": {"wait": "8s"}},
                                                      "service": {"pipelines": pipelines}})
        profiler = self.profile(spanprof.grpc_address)
        self.wait_profiling(profiler)
        publishing.run([self.start_publisher(number) for number in range(N_PUBLISHERS)])
        time.sleep(3)
        profiler.terminate()
        profiler.wait(20)
        names = self.send_transactions(spanprof)
        harness.wait_until(lambda: spanprof.metric("spanprof_pending_profiles") == 0, 20, "all is sent on")
        self.stop_spanprof(spanprof)
        samples = self.backend.samples()
        linked = [sample for sample in samples if sample.trace_id]
        named = [sample for sample in linked if sample.key() in names]
        print("%d samples, %d with a Link, %d to spans that came" % (len(samples), len(linked), len(named)))
        self.assertGreater(len(named), 2 * N_PUBLISHERS)
        for sample in linked:  # it also takes ids of records that say that they do not count
            self.assertEqual(sample.attributes.get("span.name"), names.get(sample.key()))
        self.assertLessEqual(set(self.backend.violations), {ITS_OWN})


if __name__ == "__main__":
    harness.main()

# SPDX-License-Identifier: Apache-2.0
"""A stock SDK's spans get the CPU time of the process that sent them: on the host, from a container's network, and
behind a Collector, named in the configuration or not."""
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
TEST = os.path.dirname(HERE)
sys.path[:0] = [os.path.join(TEST, "integration", "support"), os.path.join(TEST, "hostile", "support"),
                os.path.join(HERE, "sdk"), HERE]
import collector_program  # noqa: E402
import go_toolchain  # noqa: E402
import harness  # noqa: E402
import neighbour  # noqa: E402
import sdk_clients  # noqa: E402
import traced  # noqa: E402

UID = 65532
SPANS, SECONDS = 3, 0.5
LIBRARY = os.path.join(harness.BUILD, "context", "libspanprof-context.so")


@harness.needs_sampling
class Owner(harness.IntegrationTest):
    def setUp(self):
        super().setUp()
        self.sdk = sdk_clients.Python()
        try:
            self.sdk.install()
        except sdk_clients.Missing as reason:
            self.skipTest(str(reason))

    def start(self, forwarders=None):
        spanprof = self.spanprof(start=False, over={
            "processors": {"join": {"wait": "3s", "forwarders": forwarders or {}}}})
        for protocol, port in (("grpc", spanprof.grpc_port), ("http", spanprof.http_port)):
            spanprof.config["receivers"]["otlp"]["protocols"][protocol]["endpoint"] = "0.0.0.0:%d" % port
        spanprof.start()
        spanprof.wait_sampling()
        return spanprof

    def cgroup(self, name=None):
        cgroup = neighbour.Cgroup(os.cpu_count(), *([name] if name else []))
        self.addCleanup(cgroup.remove)
        return cgroup

    def spans_of(self, spanprof, protocol, endpoint, launcher=()):
        """Their ids: what a service on its own, with the SDK's settings alone, has made."""
        program = subprocess.Popen(
            [*launcher, *neighbour.as_user(UID), *self.sdk.command("burns.py"), str(SPANS), str(SECONDS)], preexec_fn=self.cgroup().enter,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={"PATH": os.environ["PATH"], "OTEL_EXPORTER_OTLP_PROTOCOL": protocol, "OTEL_SERVICE_NAME": "burns",
                 "OTEL_EXPORTER_OTLP_ENDPOINT": "http://" + endpoint, "SPANPROF_CONTEXT_LIBRARY": LIBRARY})
        self.addCleanup(program.kill)
        pid = int(program.stdout.readline().split()[1])
        harness.wait_until(lambda: spanprof.reads(pid), 20, "its context is read")
        output, _ = program.communicate("go\n", timeout=60)
        self.assertEqual(program.returncode, 0)
        return [line.split()[1] for line in output.splitlines()]

    def cpu_of(self, ids):
        """In ns, of each; None: the span has none."""
        self.backend.wait(lambda: {span.span_id for span in self.backend.spans()} >= set(ids), 30, "the spans arrive")
        by_id = {span.span_id: span.cpu_ns for span in self.backend.spans()}
        return [by_id[span_id] for span_id in ids]

    def assert_joined(self, ids, how):
        cpu = self.cpu_of(ids)
        print("%s: CPU %s s of %s" % (how, " ".join("%.2f" % ((ns or 0) / 1e9) for ns in cpu), SECONDS), flush=True)
        for ns in cpu:
            self.assertIsNotNone(ns)
            self.assertAlmostEqual(ns / 1e9, SECONDS, delta=0.15 * harness.SLOWNESS)

    def test_on_the_host_and_in_a_container(self):
        spanprof = self.start()
        network = traced.Network()
        self.addCleanup(network.remove)
        for protocol, port in (("grpc", spanprof.grpc_port), ("http/protobuf", spanprof.http_port)):
            with self.subTest(protocol):
                self.assert_joined(self.spans_of(spanprof, protocol, "localhost:%d" % port), protocol + ", host")
                self.assert_joined(self.spans_of(spanprof, protocol, "%s:%d" % (network.here, port),
                                                 network.launcher), protocol + ", container")

    def collector(self, spanprof, name):
        """One that passes traces on, in a cgroup of this name: its address."""
        port = harness.free_port()
        try:
            path = collector_program.program()
        except go_toolchain.Missing as reason:
            self.skipTest(str(reason))
        config = {"receivers": {"otlp": {"protocols": {"grpc": {"endpoint": "127.0.0.1:%d" % port}}}},
                  "exporters": {"otlp_grpc": {"endpoint": spanprof.grpc_address, "tls": {"insecure": True}}},
                  "service": {"pipelines": {"traces": {"receivers": ["otlp"], "exporters": ["otlp_grpc"]}}}}
        collector = collector_program.Collector(path, self.directory, name.replace("/", "-"), config, [port])
        self.addCleanup(collector.stop)
        collector.start()
        neighbour.write(os.path.join(self.cgroup(name).path, "cgroup.procs"), str(collector.process.pid))
        return "127.0.0.1:%d" % port

    def test_behind_a_collector(self):
        name = "spanprof-collector-%d" % os.getpid()
        spanprof = self.start({"cgroups": ["/" + name]})
        named, other = self.collector(spanprof, name), self.collector(spanprof, name + "-other")
        self.assert_joined(self.spans_of(spanprof, "grpc", named), "behind a named Collector")
        # By service.instance.id, which this SDK makes up itself, and which the process publishes.
        self.assert_joined(self.spans_of(spanprof, "grpc", other), "behind another one")


if __name__ == "__main__":
    harness.main()

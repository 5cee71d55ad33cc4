# SPDX-License-Identifier: Apache-2.0
"""telemetrygen, the Collector's load generator, and grpcurl, as operators point them at a new endpoint."""
import collections
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(os.path.dirname(HERE), "integration", "support"), os.path.join(HERE, "sdk")]
import harness  # noqa: E402
import receiver  # noqa: E402
import sdk_clients  # noqa: E402
import sender  # noqa: E402

TELEMETRYGEN = "github.com/open-telemetry/opentelemetry-collector-contrib/cmd/telemetrygen", "v0.161.0"
GRPCURL = "github.com/fullstorydev/grpcurl/cmd/grpcurl", "v1.9.4"
TIMEOUT_S = 120
ITEMS = 1000
WORKERS = 2
RECEIVED = {"traces": "spanprof_spans_received_total", "metrics": "spanprof_metric_points_received_total",
            "logs": "spanprof_log_records_received_total"}
EXPORT = "opentelemetry.proto.collector.trace.v1.TraceService/Export"
CHECK = "grpc.health.v1.Health/Check"
# Codes of gRPC as its exit codes are: 64 and the code.
DEADLINE_EXCEEDED, NOT_FOUND, UNAVAILABLE = 64 + 4, 64 + 5, 64 + 14


class ToolTest(harness.IntegrationTest):
    def program(self, package, version):
        try:
            return sdk_clients.go_program(package, version)
        except sdk_clients.Missing as reason:
            self.skipTest(str(reason))

    def run_tool(self, *command):
        return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)

    def certificates(self):
        subprocess.run([os.path.join(harness.BUILD, "test", "make_certificates"), self.directory], check=True)
        return os.path.join(self.directory, "ca.crt")

    def with_tls(self, addresses):
        tls = {kind + "_file": os.path.join(self.directory, "server." + end)
               for kind, end in (("cert", "crt"), ("key", "key"))}
        return {"receivers": {"otlp/tls": {"protocols": {
                    protocol: {"endpoint": address, "tls": tls} for protocol, address in addresses.items()}}},
                "service": {"pipelines": {"traces": {"receivers": ["otlp", "otlp/tls"]}}}}


class Telemetrygen(ToolTest):
    def setUp(self):
        super().setUp()
        self.tool = self.program(*TELEMETRYGEN)

    def spanprof_of_all(self, over=None):
        pipeline = {"receivers": ["otlp"], "exporters": ["otlp_grpc"]}
        return self.spanprof(sampler=False, over=harness.merge(
            {"service": {"pipelines": {"metrics": pipeline, "logs": dict(pipeline)}}}, over or {}))

    def generate(self, signal, address, *arguments):
        done = self.run_tool(self.tool, signal, "--otlp-endpoint", address, "--otlp-attributes", 'team="größe"',
                             "--telemetry-attributes", 'text="漢字 🚀"', "--rate", "0", *arguments)
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])

    def each_way(self, spanprof, signal, items, *arguments):
        """What arrives is counted in both protocols; the requests."""
        for address, way in ((spanprof.grpc_address, []), (spanprof.http_address, ["--otlp-http"])):
            self.backend.forget()
            received, sent = spanprof.metric(RECEIVED[signal]), self.sent(spanprof, signal)
            self.generate(signal, address, "--otlp-insecure", "--workers", str(WORKERS), *way, *arguments)
            harness.wait_until(lambda: self.sent(spanprof, signal) >= sent + items, 30, "all are sent")
            harness.wait_until(lambda: spanprof.metric("spanprof_outbox_items") == 0, 10, "nothing waits")
            self.assertEqual((spanprof.metric(RECEIVED[signal]) - received, self.sent(spanprof, signal) - sent),
                             (items, items))
            self.assertEqual(spanprof.metric("spanprof_requests_refused_total"), 0)
            yield [request.message for request in self.backend.requests(signal)]

    def sent(self, spanprof, signal):
        return spanprof.metric("spanprof_exporter_sent_items_total", 'signal="%s"' % signal)

    def check_attributes(self, resource, item):
        self.assertEqual(receiver.attributes_of(resource.attributes)["team"], "größe")
        self.assertEqual(receiver.attributes_of(item.attributes)["text"], "漢字 🚀")

    def test_traces(self):
        spanprof = self.spanprof_of_all()
        arguments = ["--traces", str(ITEMS // 2 // WORKERS), "--span-links", "2", "--status-code", "Error"]
        for messages in self.each_way(spanprof, "traces", ITEMS, *arguments):
            spans = {}
            for message in messages:
                for resource_spans in message.resource_spans:
                    for scope_spans in resource_spans.scope_spans:
                        for span in scope_spans.spans:
                            self.check_attributes(resource_spans.resource, span)
                            self.assertFalse(span.span_id in spans, "twice")
                            spans[span.span_id] = span
            self.assertEqual(len(spans), ITEMS)
            children = [span for span in spans.values() if span.parent_span_id]
            self.assertEqual(len(children), ITEMS // 2)
            for span in children:
                self.assertEqual(spans[span.parent_span_id].trace_id, span.trace_id)
            self.assertEqual({span.status.code for span in spans.values()}, {2})
            self.assertGreater(sum(len(span.links) for span in spans.values()), ITEMS)
        self.stop_spanprof(spanprof)

    def test_large_spans(self):
        """Roots of a megabyte each."""
        spanprof = self.spanprof_of_all()
        for messages in self.each_way(spanprof, "traces", 16, "--traces", "4", "--size", "1", "--batch=false"):
            self.assertGreater(sum(message.ByteSize() for message in messages), 8 << 20)
        self.stop_spanprof(spanprof)

    def test_metrics(self):
        spanprof = self.spanprof_of_all()
        for kind, field in (("Gauge", "gauge"), ("Sum", "sum"), ("Histogram", "histogram"),
                            ("ExponentialHistogram", "exponential_histogram")):
            arguments = ["--metrics", str(ITEMS // WORKERS), "--metric-type", kind]
            for messages in self.each_way(spanprof, "metrics", ITEMS, *arguments):
                points = 0
                for message in messages:
                    for resource_metrics in message.resource_metrics:
                        metrics = [metric for scope in resource_metrics.scope_metrics for metric in scope.metrics]
                        for point in (point for metric in metrics for point in getattr(metric, field).data_points):
                            self.check_attributes(resource_metrics.resource, point)
                            points += 1
                self.assertEqual(points, ITEMS, kind)
        self.stop_spanprof(spanprof)

    def test_logs(self):
        spanprof = self.spanprof_of_all()
        arguments = ["--logs", str(ITEMS // WORKERS), "--body", "größe", "--trace-id", "ab" * 16,
                     "--span-id", "cd" * 8]
        for messages in self.each_way(spanprof, "logs", ITEMS, *arguments):
            seen = collections.Counter()
            for message in messages:
                for resource_logs in message.resource_logs:
                    for record in (record for scope in resource_logs.scope_logs for record in scope.log_records):
                        self.check_attributes(resource_logs.resource, record)
                        seen[record.body.string_value, record.trace_id.hex(), record.span_id.hex()] += 1
            self.assertEqual(seen, {("größe", "ab" * 16, "cd" * 8): ITEMS})
        self.stop_spanprof(spanprof)

    def test_tls(self):
        ca = self.certificates()
        addresses = {protocol: "localhost:%d" % harness.free_port() for protocol in ("grpc", "http")}
        spanprof = self.spanprof_of_all(self.with_tls(addresses))
        for protocol, way in (("grpc", []), ("http", ["--otlp-http"])):
            self.backend.forget()
            self.generate("traces", addresses[protocol], "--ca-cert", ca, "--traces", "50", *way)
            self.backend.wait(lambda: len(self.backend.spans()) >= 100, 20, "spans")
            self.assertEqual(len(self.backend.spans()), 100)
        self.stop_spanprof(spanprof)


class Grpcurl(ToolTest):
    def setUp(self):
        super().setUp()
        self.tool = self.program(*GRPCURL)

    def call(self, address, method, request=None, *options):
        """(exit code, what it says)"""
        protos = ["-import-path", os.path.join(harness.SOURCE, "proto", "otlp", "schema"),
                  "-import-path", os.path.join(HERE, "sdk")]
        for name in ("health.proto", "trace_service.proto", "error_details.proto"):
            protos += ["-proto", name]
        data = ["-d", json.dumps(request)] if request is not None else []
        done = self.run_tool(self.tool, *(options or ["-plaintext"]), *protos, *data, address, method)
        return done.returncode, (done.stdout if done.returncode == 0 else done.stderr)

    def test_health(self):
        spanprof = self.spanprof(sampler=False)
        address = spanprof.grpc_address
        for service in ("", "opentelemetry.proto.collector.trace.v1.TraceService"):
            code, said = self.call(address, CHECK, {"service": service})
            self.assertEqual((code, json.loads(said or "{}")), (0, {"status": "SERVING"}), said)
        code, said = self.call(address, CHECK, {"service": "shop.Checkout"})
        self.assertEqual(code, NOT_FOUND, said)
        self.assertIn("Code: NotFound", said)
        code, said = self.call(address, "grpc.health.v1.Health/Watch", {}, "-plaintext", "-max-time", "2")
        self.assertEqual(code, DEADLINE_EXCEEDED, said)  # it goes on until then
        done = self.run_tool(self.tool, "-plaintext", address, "list")
        self.assertIn("server does not support the reflection API", done.stderr)
        self.stop_spanprof(spanprof)

    def test_tls(self):
        ca, address = self.certificates(), "localhost:%d" % harness.free_port()
        spanprof = self.spanprof(sampler=False, over=self.with_tls({"grpc": address}))
        code, said = self.call(address, CHECK, {}, "-cacert", ca)
        self.assertEqual((code, json.loads(said or "{}")), (0, {"status": "SERVING"}), said)
        self.stop_spanprof(spanprof)

    def test_export(self):
        spanprof = self.spanprof(sampler=False)
        span = {"traceId": "q" * 21 + "g==", "spanId": "q" * 10 + "g=", "name": "größe", "startTimeUnixNano": "1",
                "endTimeUnixNano": "2"}
        request = {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}
        code, said = self.call(spanprof.grpc_address, EXPORT, request)
        self.assertEqual((code, json.loads(said or "null")), (0, {}), said)
        self.backend.wait(lambda: self.backend.spans("größe"), 10, "the span arrives")
        self.assertEqual(len(self.backend.spans("größe")), 1)
        self.stop_spanprof(spanprof)

    def test_full_store(self):
        """Refused for now, with a reason and a delay that others can read; and not healthy."""
        spanprof = self.spanprof(sampler=False, over={"extensions": {"sqlite_storage": {"max_size_mib": 16}}})
        self.backend.stop()
        filler = sender.GrpcSender(spanprof.grpc_address)
        for spans in (500, 100, 20, 5, 1):
            body, _ = sender.request_of(spans, padding=4000)
            while filler.status(body)[0] == "OK":
                pass
        filler.close()
        span = {"traceId": "q" * 21 + "g==", "spanId": "q" * 10 + "g=", "name": "x" * 4000}
        code, said = self.call(spanprof.grpc_address, EXPORT, {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]})
        self.assertEqual(code, UNAVAILABLE, said)
        self.assertIn("google.rpc.RetryInfo", said)
        self.assertRegex(said, r'"retryDelay":\s*"[0-9.]+s"')
        code, said = self.call(spanprof.grpc_address, CHECK, {})
        self.assertEqual((code, json.loads(said or "{}")), (0, {"status": "NOT_SERVING"}), said)
        self.backend.start()
        self.stop_spanprof(spanprof)


if __name__ == "__main__":
    harness.main()

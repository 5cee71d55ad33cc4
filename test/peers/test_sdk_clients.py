# SPDX-License-Identifier: Apache-2.0
"""OpenTelemetry SDKs as programs have them, pointed at spanprof: each of a thousand spans arrives once and whole,
and the counters agree."""
import json
import os
import signal
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(os.path.dirname(HERE), "integration", "support"), os.path.join(HERE, "sdk")]
import harness  # noqa: E402
import receiver  # noqa: E402
import relay  # noqa: E402
import sdk_clients  # noqa: E402
import sdk_spans  # noqa: E402
import sender  # noqa: E402
from sdk_clients import GRPC, HTTP, JSON  # noqa: E402

KEPT = ("HOME", "JAVA_HOME", "PATH", "TMPDIR")  # of the environment: no settings of SDKs, proxies, certificates
CLIENT_TIMEOUT_S = 120
PAUSE_MS = 60
ARRIVAL_S = 30
PACKED = 0.5  # of the bytes, at most, when they are compressed
CONTENT_TYPES = {HTTP: b"application/x-protobuf", JSON: b"application/json"}
WARN = 13  # SeverityNumber
CALLS = {GRPC: ("spanprof_grpc_server_calls_total", "accepted"), HTTP: ("spanprof_http_server_requests_total", "200")}
CALLS[JSON] = CALLS[HTTP]


class Sdk:
    """What is asked of each; client: one of sdk_clients."""
    client = None

    def setUp(self):
        super().setUp()
        try:
            self.client.install()
        except sdk_clients.Missing as reason:
            self.skipTest(str(reason))

    # What spanprof says.

    def counters(self, spanprof):
        metrics = spanprof.metrics()
        return {name: sum(value for key, value in metrics.items() if key.startswith(name)) for name in (
            "spanprof_spans_received_total", 'spanprof_exporter_sent_items_total{signal="traces"}',
            "spanprof_requests_refused_total", "spanprof_exporter_dropped_items_total",
            'spanprof_exporter_requests_total{outcome="refused"}')}

    def calls(self, spanprof, protocol):
        """(taken, ended otherwise)."""
        name, taken = CALLS[protocol]
        return spanprof.metric(name, '"%s"' % taken), spanprof.metric(name) - spanprof.metric(name, '"%s"' % taken)

    # The client.

    def start(self, protocol, address, command=None, certificate=None, compression="none", slowly=False):
        """(process, time of the first span). certificate: the CA's, with the client's own beside it."""
        base = time.time_ns() // 1000 * 1000 + 123
        variables = {name: os.environ[name] for name in KEPT if name in os.environ}
        variables.update(sdk_spans.ENVIRONMENT, LC_ALL="C.UTF-8", OTEL_EXPORTER_OTLP_PROTOCOL=protocol,
                         OTEL_EXPORTER_OTLP_ENDPOINT="%s:%s" % (
                             "https://localhost" if certificate else "http://127.0.0.1", address.rsplit(":", 1)[-1]),
                         **self.client.environment())
        if compression != "none":  # which is not known to all as a name
            variables["OTEL_EXPORTER_OTLP_COMPRESSION"] = compression
        if certificate:
            folder = os.path.dirname(certificate)
            variables.update(OTEL_EXPORTER_OTLP_CERTIFICATE=certificate,
                             OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE=os.path.join(folder, "client.crt"),
                             OTEL_EXPORTER_OTLP_CLIENT_KEY=os.path.join(folder, "client.pkcs8"))
        if slowly:  # and each trace is sent by itself
            variables.update(OTEL_BSP_MAX_EXPORT_BATCH_SIZE=str(sdk_spans.SPANS_OF_TRACE), OTEL_BSP_SCHEDULE_DELAY="20")
        arguments = [str(base)] if command else [str(base), str(PAUSE_MS if slowly else 0)]
        process = subprocess.Popen([*(command or self.client.command()), *arguments], env=variables,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8")
        self.addCleanup(process.kill)
        return process, base

    def end(self, process, quiet=True):
        """Ids of the spans that it made. quiet: an SDK that is content writes nothing."""
        output, errors = process.communicate(timeout=CLIENT_TIMEOUT_S)
        said = [line for line in errors.splitlines() if line and not self.client.harmless.match(line)]
        self.assertEqual(process.returncode, 0, errors[-2000:])
        if quiet:
            self.assertEqual(said, [])
        ids = [tuple(line.split()[1:]) for line in output.splitlines()]
        self.assertEqual(len(set(ids)), sdk_spans.SPANS)
        return ids

    # What arrived.

    def arrived(self):
        return [span for span in self.backend.spans() if span.scope == sdk_spans.SCOPE[0]]

    def check_spans(self, base, ids):
        expected, seen = sdk_spans.expected(base, ids, self.client.omits), {}
        for request in self.backend.requests("traces"):
            for resource_spans in request.message.resource_spans:
                resource = receiver.attributes_of(resource_spans.resource.attributes)
                for scope_spans in resource_spans.scope_spans:
                    if scope_spans.scope.name != sdk_spans.SCOPE[0]:
                        continue
                    self.assertEqual({key: resource.get(key) for key in sdk_spans.RESOURCE}, sdk_spans.RESOURCE)
                    self.assertTrue(resource.get("telemetry.sdk.name"))
                    for span in scope_spans.spans:
                        self.assertFalse(span.name in seen, span.name + " came twice")
                        seen[span.name] = sdk_spans.seen(scope_spans, span, receiver.attributes_of)
        self.assertEqual(set(seen), set(expected))
        for name, span in expected.items():
            self.assertEqual(sdk_spans.typed(seen[name]), sdk_spans.typed(span), name)

    def wait_delivered(self, spanprof):
        self.backend.wait(lambda: len(self.arrived()) >= sdk_spans.SPANS, ARRIVAL_S * harness.SLOWNESS,
                          "%d spans" % sdk_spans.SPANS)
        self.wait_empty(spanprof)

    def wait_empty(self, spanprof):
        harness.wait_until(lambda: spanprof.metric("spanprof_outbox_items") == 0, ARRIVAL_S * harness.SLOWNESS,
                           "nothing waits")

    def deliver(self, spanprof, protocol, address, compression="none", certificate=None):
        """One run of the client. The bytes that it sent, and that arrived."""
        self.wait_empty(spanprof)
        self.backend.forget()
        between = relay.Relay(address)
        self.addCleanup(between.close)
        counters, (taken, others) = self.counters(spanprof), self.calls(spanprof, protocol)
        process, base = self.start(protocol, ":%d" % between.port, None, certificate, compression)
        ids = self.end(process)
        self.wait_delivered(spanprof)
        self.check_spans(base, ids)
        gone = {name: value - counters[name] for name, value in self.counters(spanprof).items()}
        self.assertEqual(list(gone.values()), [sdk_spans.SPANS, sdk_spans.SPANS, 0, 0, 0], gone)
        now_taken, now_others = self.calls(spanprof, protocol)
        self.assertGreater(now_taken, taken)
        self.assertEqual(now_others, others)
        if protocol != GRPC and not certificate:
            for head in between.heads:
                self.assertIn(CONTENT_TYPES[protocol], head)
                self.assertEqual((b"content-encoding: " + compression.encode()) in head.lower(),
                                 compression != "none")
        return between.bytes_sent, sum(len(request.body) for request in self.backend.requests("traces"))

    def test_each_way(self):
        spanprof = self.spanprof(sampler=False)
        for protocol in self.client.protocols:
            plain = None
            for compression in self.client.compressions:
                with self.subTest(protocol, compression=compression):
                    address = spanprof.grpc_address if protocol == GRPC else spanprof.http_address
                    sent, arrived = self.deliver(spanprof, protocol, address, compression)
                    print("%s, %s, %s: %d bytes, which leave as %d" % (
                        self.client.source, protocol, compression, sent, arrived))
                    plain = plain or sent
                    self.assertEqual(sent < PACKED * plain, compression != "none")
        self.stop_spanprof(spanprof)

    def test_mutual_tls(self):
        subprocess.run([os.path.join(harness.BUILD, "test", "make_certificates"), self.directory], check=True)
        subprocess.run(["openssl", "pkcs8", "-topk8", "-nocrypt", "-in", os.path.join(self.directory, "client.key"),
                        "-out", os.path.join(self.directory, "client.pkcs8")], check=True)  # Java wants it so
        addresses = {protocol: "127.0.0.1:%d" % harness.free_port() for protocol in ("grpc", "http")}
        tls = {kind + "_file": os.path.join(self.directory, "server." + end)
               for kind, end in (("cert", "crt"), ("key", "key"))}
        tls["client_ca_file"] = os.path.join(self.directory, "ca.crt")
        spanprof = self.spanprof(sampler=False, over={
            "receivers": {"otlp/tls": {"protocols": {
                protocol: {"endpoint": address, "tls": tls} for protocol, address in addresses.items()}}},
            "service": {"pipelines": {"traces": {"receivers": ["otlp", "otlp/tls"]}}}})
        for protocol in self.client.certificate:
            with self.subTest(protocol):
                before = spanprof.metric("spanprof_tls_handshakes_total", 'role="server",outcome="ok"')
                self.deliver(spanprof, protocol, addresses["grpc" if protocol == GRPC else "http"],
                             certificate=os.path.join(self.directory, "ca.crt"))
                self.assertGreater(
                    spanprof.metric("spanprof_tls_handshakes_total", 'role="server",outcome="ok"'), before)
        self.stop_spanprof(spanprof)

    def test_backend_fails_for_a_while(self):
        """The client does not notice."""
        spanprof = self.spanprof(sampler=False)
        self.backend.fault("traces", "UNAVAILABLE", count=1000000)
        process, base = self.start(GRPC, spanprof.grpc_address)
        self.backend.wait(lambda: self.backend.requests("traces", taken=False), CLIENT_TIMEOUT_S, "it is refused")
        time.sleep(2)
        self.backend.clear_faults()
        ids = self.end(process)
        self.wait_delivered(spanprof)
        self.check_spans(base, ids)
        self.assertGreater(spanprof.metric("spanprof_exporter_requests_total", 'outcome="retry"'), 0)
        self.assertEqual(self.counters(spanprof)['spanprof_exporter_sent_items_total{signal="traces"}'],
                         sdk_spans.SPANS)
        self.stop_spanprof(spanprof)

    def test_reloads(self):
        """Another configuration is taken while the client sends: it does not notice."""
        spanprof = self.spanprof(sampler=False)
        for protocol in self.client.protocols:
            with self.subTest(protocol):
                self.wait_empty(spanprof)
                self.backend.forget()
                process, base = self.start(
                    protocol, spanprof.grpc_address if protocol == GRPC else spanprof.http_address, slowly=True)
                self.backend.wait(self.arrived, CLIENT_TIMEOUT_S, "its first spans")
                for wait in ("11s", "10s"):
                    self.reload(spanprof, wait)
                self.assertIsNone(process.poll(), "it was still sending")
                ids = self.end(process)
                self.wait_delivered(spanprof)
                self.check_spans(base, ids)
        self.stop_spanprof(spanprof)

    def reload(self, spanprof, wait):
        service = spanprof.service
        spanprof.config["processors"]["join"]["wait"] = wait
        with open(spanprof.config_path, "w") as file:
            json.dump(spanprof.config, file)
        spanprof.process.send_signal(signal.SIGHUP)
        harness.wait_until(lambda: spanprof.service not in (None, service), 20 * harness.SLOWNESS, "the next service")
        before = len(self.arrived())
        self.backend.wait(lambda: len(self.arrived()) > before, 20 * harness.SLOWNESS, "it goes on")

    def test_refused_for_a_while(self):
        """By a full store, until the backend comes back: clients read when they may try again."""
        spanprof = self.spanprof(sampler=False, over={"extensions": {"sqlite_storage": {"max_size_mib": 16}}})
        for protocol in self.client.retries:
            with self.subTest(protocol):
                self.wait_empty(spanprof)
                self.backend.forget()
                self.backend.stop()
                self.fill(spanprof)
                refused = spanprof.metric("spanprof_requests_refused_total", 'reason="store"')
                process, base = self.start(
                    protocol, spanprof.grpc_address if protocol == GRPC else spanprof.http_address)
                harness.wait_until(
                    lambda: spanprof.metric("spanprof_requests_refused_total", 'reason="store"') > refused,
                    CLIENT_TIMEOUT_S, "the client is refused")
                self.backend.start()
                ids = self.end(process, quiet=False)
                self.wait_delivered(spanprof)
                self.check_spans(base, ids)
        self.stop_spanprof(spanprof)

    def fill(self, spanprof):
        """Until nothing is taken, however small."""
        filler = sender.GrpcSender(spanprof.grpc_address)
        for spans in (500, 100, 20, 5, 1):
            body, _ = sender.request_of(spans, padding=4000)
            while (status := filler.status(body)[0]) == "OK":
                pass
            self.assertEqual(status, "UNAVAILABLE")
        filler.close()


class JavaScript(Sdk, harness.IntegrationTest):
    client = sdk_clients.JavaScript()


class JavaScriptLatest(Sdk, harness.IntegrationTest):
    client = sdk_clients.JavaScriptLatest()


class Python(Sdk, harness.IntegrationTest):
    client = sdk_clients.Python()

    def check_resource(self, resource):
        seen = receiver.attributes_of(resource.attributes)
        self.assertEqual({key: seen.get(key) for key in sdk_spans.RESOURCE}, sdk_spans.RESOURCE)

    def check_logs(self, base):
        """As signals.py makes them."""
        seen = {}
        for request in self.backend.requests("logs"):
            for resource_logs in request.message.resource_logs:
                self.check_resource(resource_logs.resource)
                for scope_logs in resource_logs.scope_logs:
                    scope = scope_logs.scope
                    self.assertEqual((scope.name, scope.version, scope_logs.schema_url), sdk_spans.SCOPE)
                    for record in scope_logs.log_records:
                        self.assertFalse(record.event_name in seen, record.event_name + " came twice")
                        seen[record.event_name] = (
                            record.time_unix_nano, record.observed_time_unix_nano, record.severity_number,
                            record.severity_text, receiver.value_of(record.body), record.trace_id.hex(),
                            record.span_id.hex(), record.flags, receiver.attributes_of(record.attributes))
        expected = {}
        for i in range(sdk_spans.SPANS):
            body = {"number": i, "list": [True, 0.5, "ß"], "bytes": b"\x00\xff"} if i % 10 == 0 \
                else "log %d %s" % (i, sdk_spans.TEXT)
            expected["event.%d" % i] = (base + i, base + i + 1, WARN, "WARN", body, "%032x" % (i + 1),
                                        "%016x" % (i + 1), sdk_spans.SAMPLED, {"index": i, "text": sdk_spans.TEXT})
        self.assertEqual(set(seen), set(expected))
        for name, record in expected.items():
            self.assertEqual(sdk_spans.typed(seen[name]), sdk_spans.typed(record), name)

    def check_metrics(self):
        metrics = {}
        for request in self.backend.requests("metrics"):
            for resource_metrics in request.message.resource_metrics:
                self.check_resource(resource_metrics.resource)
                for scope_metrics in resource_metrics.scope_metrics:
                    for metric in scope_metrics.metrics:
                        self.assertFalse(metric.name in metrics, metric.name + " came twice")
                        metrics[metric.name] = metric
        self.assertEqual(set(metrics), {"requests", "duration", "level"})
        counter, n = metrics["requests"], sdk_spans.SPANS
        self.assertEqual((counter.unit, counter.description, counter.sum.is_monotonic), ("1", sdk_spans.TEXT, True))
        self.assertEqual([(receiver.attributes_of(point.attributes), point.as_int)
                          for point in counter.sum.data_points], [({"index": i}, i + 1) for i in range(n)])
        point, = metrics["duration"].histogram.data_points
        self.assertEqual((point.count, point.sum, point.min, point.max, sum(point.bucket_counts)),
                         (n, n * n / 2, 0.5, n - 0.5, n))
        self.assertEqual(len(point.explicit_bounds) + 1, len(point.bucket_counts))
        point, = metrics["level"].gauge.data_points
        self.assertEqual((point.as_double, receiver.attributes_of(point.attributes)), (-7.25, {"text": sdk_spans.TEXT}))

    def test_metrics_and_logs(self):
        """The other signals pass."""
        pipeline = {"receivers": ["otlp"], "exporters": ["otlp_grpc"]}
        spanprof = self.spanprof(sampler=False, over={
            "service": {"pipelines": {"metrics": pipeline, "logs": dict(pipeline)}}})
        names = {"spanprof_log_records_received_total": sdk_spans.SPANS,
                 "spanprof_metric_points_received_total": sdk_spans.SPANS + 2,
                 'spanprof_exporter_sent_items_total{signal="logs"}': sdk_spans.SPANS,
                 'spanprof_exporter_sent_items_total{signal="metrics"}': sdk_spans.SPANS + 2}
        for protocol in self.client.protocols:
            for compression in self.client.compressions:
                with self.subTest(protocol, compression=compression):
                    self.backend.forget()
                    before = spanprof.metrics()
                    process, base = self.start(
                        protocol, spanprof.grpc_address if protocol == GRPC else spanprof.http_address,
                        self.client.command("signals.py"), compression=compression)
                    output, errors = process.communicate(timeout=CLIENT_TIMEOUT_S)
                    self.assertEqual((process.returncode, output, errors), (0, "", ""))
                    self.wait_empty(spanprof)
                    self.check_logs(base)
                    self.check_metrics()
                    after = spanprof.metrics()
                    self.assertEqual({name: after[name] - before[name] for name in names}, names)
        self.assertEqual(spanprof.metric("spanprof_requests_refused_total"), 0)
        self.stop_spanprof(spanprof)


class Java(Sdk, harness.IntegrationTest):
    client = sdk_clients.Java()


class Go(Sdk, harness.IntegrationTest):
    client = sdk_clients.Go()


class Rust(Sdk, harness.IntegrationTest):
    client = sdk_clients.Rust()


if __name__ == "__main__":
    harness.main()

# SPDX-License-Identifier: Apache-2.0
"""Metrics, logs and profiles of others: byte for byte, as durable as traces, in no signal's way."""
import http.client
import os
import sys

import grpc

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))
import harness  # noqa: E402
import receiver  # noqa: E402
import receiver_schema  # noqa: E402
import receiver_wire as wire  # noqa: E402
import sender  # noqa: E402

UNKNOWN = wire.field(100, b"from a later version") + wire.number_field(101, 7)
NOW = 1763730000000000000


def metrics_of(n, padding=0):
    """n metrics of every kind, with what a data point can hold; returns (bytes, data points)."""
    request = receiver_schema.message(receiver_schema.METRICS_REQUEST)()
    resource = request.resource_metrics.add()
    sender.set_attribute(resource.resource, "service.name", "shop")
    scope = resource.scope_metrics.add()
    scope.scope.name = "meter"
    points = 0
    for i in range(n):
        metric = scope.metrics.add(name="m%d" % i, unit="By", description="x" * padding)
        kind = ("gauge", "sum", "histogram", "exponential_histogram", "summary")[i % 5]
        for k in range(1 + i % 3):
            point = getattr(metric, kind).data_points.add(time_unix_nano=NOW + k, flags=k & 1)
            points += 1
            sender.set_attribute(point, "k", k)
            if kind in ("gauge", "sum"):
                point.as_int = -k
                point.exemplars.add(as_double=0.5, trace_id=os.urandom(16), span_id=os.urandom(8))
            elif kind == "histogram":
                point.bucket_counts.extend([1, 2, 3])
                point.explicit_bounds.extend([0.5, 1.5])
                point.min = 0  # set, though it is zero
            elif kind == "exponential_histogram":
                point.scale = -3
                point.negative.bucket_counts.extend([1, 300])
    return request.SerializeToString(), points


def logs_of(n, padding=0):
    request = receiver_schema.message(receiver_schema.LOGS_REQUEST)()
    resource = request.resource_logs.add()
    sender.set_attribute(resource.resource, "service.name", "shop")
    scope = resource.scope_logs.add()
    for i in range(n):
        record = scope.log_records.add(time_unix_nano=NOW + i, severity_number=1 + i % 24,
                                       trace_id=os.urandom(16), span_id=os.urandom(8), flags=1)
        record.body.kvlist_value.values.add(key="text").value.string_value = "x" * (padding or i)
        sender.set_attribute(record, "log.file.name", "a.log")
    return request.SerializeToString(), n


def odd(signal):
    """A legal request as no library would write it: unknown fields on each level, odd order."""
    entry = wire.field(1, b"odd") if signal == "metrics" else b"\x09" + b"\1" * 8
    point = wire.field(1, UNKNOWN + b"\x19" + b"\2" * 8)
    entry = UNKNOWN + (wire.field(5, point) if signal == "metrics" else b"") + entry
    scope = wire.field(3, b"https://scope.example/1") + wire.field(2, entry) + UNKNOWN
    return UNKNOWN + wire.field(1, wire.field(2, scope) + UNKNOWN + wire.field(1, UNKNOWN)), 1


def profiles_of(n, linked=False):
    """As a host profiler sends them: n samples, each once, with a thread name."""
    request = receiver_schema.message(receiver_schema.PROFILES_REQUEST)()
    table = request.dictionary
    for element in (table.mapping_table, table.location_table, table.function_table, table.link_table,
                    table.attribute_table, table.stack_table):
        element.add()
    table.string_table.extend(["", "samples", "count", "cpu", "nanoseconds", "thread.name", "main",
                               "service.name"])
    table.function_table.add(name_strindex=6)
    table.location_table.add(address=4096).lines.add(function_index=1)
    table.stack_table.add(location_indices=[1])
    table.attribute_table.add(key_strindex=5).value.string_value = "worker"
    if linked:
        table.link_table.add(trace_id=os.urandom(16), span_id=os.urandom(8))
    resource = request.resource_profiles.add()
    pair = resource.resource.attributes.add(key_strindex=7)
    pair.value.string_value_strindex = 6
    profile = resource.scope_profiles.add().profiles.add(
        time_unix_nano=NOW, duration_nano=10 ** 9, period=10 ** 7, profile_id=os.urandom(16))
    profile.sample_type.type_strindex, profile.sample_type.unit_strindex = 1, 2
    profile.period_type.type_strindex, profile.period_type.unit_strindex = 3, 4
    for i in range(n):
        sample = profile.samples.add(stack_index=1, attribute_indices=[1] if i else [],
                                     link_index=int(linked and i % 2))
        sample.timestamps_unix_nano.append(NOW + i)
    return request.SerializeToString(), n


def former_layout(request):
    """The same request with Sample numbered as before OTLP 1.10: written by hand, from the bytes."""
    def nested(message, path):
        out = b""
        for number, kind, value, raw in wire.fields(message):
            if path and number == path[0] and kind == 2:
                raw = wire.field(number, nested(value, path[1:]))
            elif not path and number in (2, 3, 4):
                raw = bytes([{4: 2, 2: 3, 3: 4}[number] << 3 | kind]) + raw[1:]
            out += raw
        return out
    return nested(request, [1, 2, 2, 2])


def captured(version, name):
    with open(os.path.join(harness.SOURCE, "test", "captured", "former", "%s_%s.pb" % (version, name)), "rb") as file:
        return file.read()


def parsed(body):
    """Equal however the fields are ordered."""
    return receiver_schema.message(receiver_schema.PROFILES_REQUEST).FromString(body)


def why_refused(client, body):
    try:
        client.send(body)
    except grpc.RpcError as error:
        return error.code().name, error.details()
    return "OK", ""


IN_ORDER = {"sending_queue": {"num_consumers": 1}}
MADE = {"metrics": metrics_of, "logs": logs_of}
RECEIVED = {"metrics": "spanprof_metric_points_received_total",
            "logs": "spanprof_log_records_received_total"}


class Signals(harness.IntegrationTest):
    def spanprof_of_all(self, over=None):
        pipeline = {"receivers": ["otlp"], "exporters": ["otlp_grpc"]}
        return self.spanprof(sampler=False, over=harness.merge({
            "exporters": {"otlp_grpc": dict(IN_ORDER)},
            "service": {"pipelines": {"metrics": pipeline, "logs": dict(pipeline)}}}, over or {}))

    def spanprof_of_profiles(self):
        return self.spanprof(sampler=False, over={"exporters": {"otlp_grpc": dict(IN_ORDER)}, "service": {"pipelines": {
            "profiles": {"receivers": ["otlp"], "exporters": ["otlp_grpc"]}}}})

    def bytes_of(self, signal, backend=None):
        return b"".join(r.body for r in (backend or self.backend).requests(signal))

    def await_bytes(self, signal, expected, backend=None, timeout=15):
        """Requests that wait together may leave as one, which is one behind the other."""
        backend = backend or self.backend
        backend.wait(lambda: len(self.bytes_of(signal, backend)) >= len(expected), timeout,
                     "all %s are forwarded" % signal)
        self.assertEqual(self.bytes_of(signal, backend), expected)

    def test_they_come_out_as_they_came(self):
        spanprof = self.spanprof_of_all()
        expected = {}
        for signal in MADE:
            client = sender.GrpcSender(spanprof.grpc_address, signal=signal)
            packed = sender.GrpcSender(spanprof.grpc_address, grpc.Compression.Gzip, signal)
            expected[signal], items = b"", 0
            for body, n in (odd(signal), MADE[signal](50, 300), MADE[signal](1)):
                client.send(body)
                packed.send(body)
                for options in ({}, {"encoding": "gzip"}, {"chunked": True}):
                    status, _, answer = sender.post(spanprof.http_address, body,
                                                    path=sender.PATHS[signal], **options)
                    self.assertEqual((status, answer), (200, b""))
                expected[signal] += body * 5
                items += n * 5
            self.assertEqual(spanprof.metric(RECEIVED[signal]), items)
        for signal, bodies in expected.items():
            self.await_bytes(signal, bodies)
            harness.wait_until(lambda: spanprof.metric("spanprof_outbox_items") == 0, 10, "it is empty")
            self.assertEqual(spanprof.metric("spanprof_exporter_sent_items_total",
                                             'signal="%s"' % signal),
                             spanprof.metric(RECEIVED[signal]))
        self.stop_spanprof(spanprof)
        self.assertEqual(self.backend.requests("traces"), [])

    def test_profiles_of_others(self):
        spanprof = self.spanprof_of_profiles()
        client = sender.GrpcSender(spanprof.grpc_address, signal="profiles")
        plain, odd = profiles_of(20)[0], UNKNOWN + profiles_of(3, linked=True)[0]
        client.send(plain)
        self.assertEqual(sender.post(spanprof.http_address, odd, path=sender.PATHS["profiles"],
                                     encoding="gzip")[0], 200)
        self.await_bytes("profiles", plain + odd)
        self.assertEqual([r.body for r in self.backend.requests("profiles")], [plain, odd])
        self.assertEqual(client.status(plain[:-3])[0], "INVALID_ARGUMENT")
        self.assertEqual(spanprof.metric("spanprof_profile_samples_received_total"), 23)
        self.stop_spanprof(spanprof)

    def layouts(self, spanprof):
        names = ("1.9", "1.8", "1.8_comments", "1.7", "unclear")
        counts = {name: int(spanprof.metric("spanprof_profiles_former_layout_total", 'layout="%s"' % name))
                  for name in names}
        return {name: n for name, n in counts.items() if n}

    def test_former_layout_of_samples(self):
        spanprof = self.spanprof_of_profiles()
        client = sender.GrpcSender(spanprof.grpc_address, signal="profiles")
        body, _ = profiles_of(10, linked=True)
        former = former_layout(body)
        self.assertNotEqual(former, body)
        client.send(former)
        client.send(body)
        self.await_bytes("profiles", body * 2)
        self.assertEqual(self.layouts(spanprof), {"1.9": 1})
        self.stop_spanprof(spanprof)

    def test_former_layouts_as_packages_write_them(self):
        """What is converted comes out as the same program writes it today; the rest is refused with its reason."""
        spanprof = self.spanprof_of_profiles()
        client = sender.GrpcSender(spanprof.grpc_address, signal="profiles")
        converted = [(version, name) for version in ("1.8", "1.9")
                     for name in ("attributes", "aggregated", "valued", "ones", "whole")]
        for version, name in converted + [("1.8", "one")]:
            client.send(captured(version, name))
        self.assertEqual(self.layouts(spanprof), {"1.9": 5, "1.8": 6})
        self.backend.wait(lambda: len(self.backend.requests("profiles")) >= 11, 15, "all are forwarded")
        arrived = [parsed(request.body) for request in self.backend.requests("profiles")]
        for (version, name), request in zip(converted + [("1.8", "one")], arrived):
            with self.subTest(version=version, name=name):
                self.assertEqual(request, parsed(captured("today", name)))
        for version, name, reason in (("1.8", "comments", "with comments"), ("1.7", "python", "1.7 or before"),
                                      ("1.9", "one", "development-version")):
            with self.subTest(version=version, name=name):
                code, text = why_refused(client, captured(version, name))
                self.assertEqual(code, "INVALID_ARGUMENT")
                self.assertIn(reason, text)
        self.assertEqual(self.layouts(spanprof),
                         {"1.9": 5, "1.8": 6, "1.8_comments": 1, "1.7": 1, "unclear": 1})
        self.assertEqual(spanprof.metric("spanprof_requests_refused_total",
                                         'signal="profiles",reason="malformed"'), 3)
        self.stop_spanprof(spanprof)

    def test_values_or_attributes(self):
        """A list as long as the timestamps is refused, unless the sender says of which version it is."""
        spanprof = self.spanprof_of_profiles()
        client = sender.GrpcSender(spanprof.grpc_address, signal="profiles")
        body, key = captured("1.9", "one"), "otlp-profiles-development-version"
        self.assertEqual(client.status(body)[0], "INVALID_ARGUMENT")
        client.send(body, metadata=[(key, "1")])
        for headers, expected in (({}, 400), ({key: "1"}, 200)):
            connection = http.client.HTTPConnection(spanprof.http_address, timeout=10)
            connection.request("POST", sender.PATHS["profiles"], body,
                               dict(headers, **{"Content-Type": "application/x-protobuf"}))
            self.assertEqual(connection.getresponse().status, expected)
            connection.close()
        self.await_bytes("profiles", body * 2)
        self.stop_spanprof(spanprof)

    def test_former_layout_as_json(self):
        spanprof = self.spanprof_of_profiles()
        body = b'{"resourceProfiles":[{"scopeProfiles":[{"profiles":[{"sample":[{"stackIndex":0,"values":[1]}]}]}]}]}'
        status, _, answer = sender.post(spanprof.http_address, body, "application/json",
                                        path=sender.PATHS["profiles"])
        self.assertEqual(status, 400)
        self.assertIn(b"OTLP 1.8 or before", answer)
        self.stop_spanprof(spanprof)

    def test_version_of_profiles(self):
        spanprof = self.spanprof_of_profiles()
        client = sender.GrpcSender(spanprof.grpc_address, signal="profiles")
        key, body = "otlp-profiles-development-version", profiles_of(1)[0]
        for values, served in (([], True), (["1"], True), (["2"], False), (["01"], False),
                               ([""], False), (["1", "1"], False)):
            with self.subTest(values):
                try:
                    client.send(body, metadata=[(key, value) for value in values])
                    code = "OK"
                except grpc.RpcError as error:
                    code = error.code().name
                self.assertEqual(code, "OK" if served else "INVALID_ARGUMENT")
                connection = http.client.HTTPConnection(spanprof.http_address, timeout=10)
                connection.putrequest("POST", sender.PATHS["profiles"])
                for name, value in [("Content-Type", "application/x-protobuf"),
                                    ("Content-Length", str(len(body)))] + \
                        [("OTLP-Profiles-Development-Version", value) for value in values]:
                    connection.putheader(name, value)
                connection.endheaders(body)
                self.assertEqual(connection.getresponse().status, 200 if served else 400)
                connection.close()
        self.stop_spanprof(spanprof)

    def test_a_signal_that_left_the_configuration(self):
        """What waits of it goes out all the same."""
        spanprof = self.spanprof_of_all()
        self.backend.stop()
        body, _ = logs_of(20)
        sender.GrpcSender(spanprof.grpc_address, signal="logs").send(body)
        self.stop_spanprof(spanprof)
        del spanprof.config["service"]["pipelines"]["logs"]
        self.backend.start()
        spanprof.start()
        self.await_bytes("logs", body, timeout=30)
        harness.wait_until(lambda: spanprof.metric("spanprof_outbox_items") == 0, 10, "nothing waits any more")
        self.assertEqual(sender.post(spanprof.http_address, body, path=sender.PATHS["logs"])[0], 404)
        self.stop_spanprof(spanprof)

    def test_no_signal_waits_for_another(self):
        spanprof = self.spanprof_of_all()
        self.backend.fault("metrics", "UNAVAILABLE", count=1000000)
        clients = {s: sender.GrpcSender(spanprof.grpc_address, signal=s)
                   for s in ("traces", "metrics", "logs")}
        expected = {"metrics": b"", "logs": b""}
        for _ in range(20):
            for signal in expected:
                body, _ = MADE[signal](5, 50)
                clients[signal].send(body)
                expected[signal] += body
        clients["traces"].send(sender.request_of(3)[0])
        self.await_bytes("logs", expected["logs"])
        self.backend.wait(lambda: len(self.backend.spans()) == 3, 10, "spans are forwarded")
        self.assertEqual(self.bytes_of("metrics"), b"")
        self.assertGreater(spanprof.metric("spanprof_outbox_items", 'signal="metrics"'), 0)
        self.backend.clear_faults()
        self.await_bytes("metrics", expected["metrics"])
        self.stop_spanprof(spanprof)

    def test_backend_without_metrics(self):
        """They wait for a time, then they are given up, and only they."""
        spanprof = self.spanprof_of_all({"exporters": {"otlp_grpc": {"retry_on_failure": {
            "initial_interval": "100ms", "max_interval": "500ms"}}}})
        self.backend.fault("metrics", "UNIMPLEMENTED", count=1000000)
        metrics = sender.GrpcSender(spanprof.grpc_address, signal="metrics")
        dropped = sum(metrics.send(body) and 0 or n for body, n in (metrics_of(3) for _ in range(5)))
        body, _ = logs_of(3)
        sender.GrpcSender(spanprof.grpc_address, signal="logs").send(body)
        self.await_bytes("logs", body)
        harness.wait_until(lambda: spanprof.metric("spanprof_exporter_dropped_items_total",
                                                   "no_metrics_service") == dropped, 10,
                           "metrics are dropped, and counted")
        asked = len(self.backend.requests("metrics", taken=False))
        self.assertGreater(asked, 3)
        self.assertLess(asked, 30)
        self.stop_spanprof(spanprof)
        self.assertIn("does not take metrics", spanprof.log())

    def test_backend_without_metrics_for_a_moment(self):
        """As with a proxy while what is behind it is replaced: nothing is lost."""
        spanprof = self.spanprof_of_all({"exporters": {"otlp_grpc": {"retry_on_failure": {
            "initial_interval": "100ms", "max_interval": "2s"}}}})
        self.backend.fault("metrics", "UNIMPLEMENTED", seconds=1)
        client = sender.GrpcSender(spanprof.grpc_address, signal="metrics")
        bodies = [metrics_of(3)[0] for _ in range(10)]
        for body in bodies:
            client.send(body)
        self.await_bytes("metrics", b"".join(bodies))
        self.assertGreater(len(self.backend.requests("metrics", taken=False)),
                           len(self.backend.requests("metrics")))
        self.assertEqual(spanprof.metric("spanprof_exporter_dropped_items_total"), 0)
        self.stop_spanprof(spanprof)

    def test_kill(self):
        """What was acknowledged comes out after kill -9 of everything, with the backend away."""
        spanprof = self.spanprof_of_all()
        self.backend.stop()
        expected = {}
        for signal in MADE:
            client = sender.GrpcSender(spanprof.grpc_address, signal=signal)
            bodies = [MADE[signal](20, 100)[0] for _ in range(50)]
            for body in bodies:
                client.send(body)
            expected[signal] = b"".join(bodies)
        spanprof.kill_all()
        self.backend.start()
        spanprof.start()
        for signal, bodies in expected.items():
            self.await_bytes(signal, bodies, timeout=30)
        self.stop_spanprof(spanprof)

    def test_each_destination_has_its_place(self):
        other = receiver.Backend()
        self.addCleanup(other.stop)
        spanprof = self.spanprof_of_all({
            "exporters": {"otlp_grpc/other": {
                **IN_ORDER,
                "endpoint": other.address, "tls": {"insecure": True},
                "retry_on_failure": {"initial_interval": "100ms", "max_interval": "500ms"}}},
            "service": {"pipelines": {"metrics": {"exporters": ["otlp_grpc", "otlp_grpc/other"]}}}})
        other.stop()
        client = sender.GrpcSender(spanprof.grpc_address, signal="metrics")
        bodies = [metrics_of(5)[0] for _ in range(10)]
        for body in bodies:
            client.send(body)
        self.await_bytes("metrics", b"".join(bodies))
        self.assertGreater(spanprof.metric("spanprof_outbox_items", 'signal="metrics"'), 0)
        other.start()
        self.await_bytes("metrics", b"".join(bodies), other)
        harness.wait_until(lambda: spanprof.metric("spanprof_outbox_items") == 0, 10, "it is empty")
        self.stop_spanprof(spanprof)

    def test_receivers_serve_their_pipelines(self):
        ports = [harness.free_port() for _ in range(2)]
        spanprof = self.spanprof_of_all({
            "receivers": {"otlp/metrics": {"protocols": {
                "grpc": {"endpoint": "127.0.0.1:%d" % ports[0]},
                "http": {"endpoint": "127.0.0.1:%d" % ports[1]}}}},
            "service": {"pipelines": {"metrics": {"receivers": ["otlp/metrics"]}}}})
        doors = {"otlp": (spanprof.grpc_address, spanprof.http_address),
                 "otlp/metrics": tuple("127.0.0.1:%d" % port for port in ports)}
        for name, (by_grpc, by_http) in doors.items():
            for signal in ("traces", "metrics", "logs", "profiles"):
                served = signal != "profiles" and (signal == "metrics") == (name == "otlp/metrics")
                with self.subTest(name + " " + signal):
                    code, _ = sender.GrpcSender(by_grpc, signal=signal).status(b"")
                    self.assertEqual(code, "OK" if served else "UNIMPLEMENTED")
                    status, _, _ = sender.post(by_http, b"", path=sender.PATHS[signal])
                    self.assertEqual(status, 200 if served else 404)
        self.stop_spanprof(spanprof)

    def test_refused(self):
        spanprof = self.spanprof_of_all({"exporters": {"otlp_grpc": {"max_request_size": 100000}}})
        for signal in MADE:
            client = sender.GrpcSender(spanprof.grpc_address, signal=signal)
            body, _ = MADE[signal](3)
            for wrong in (b"\xff" * 100, body[:-5], wire.field(1, wire.number_field(2, 5))):
                self.assertEqual(client.status(wrong)[0], "INVALID_ARGUMENT")
                status, _, _ = sender.post(spanprof.http_address, wrong, path=sender.PATHS[signal])
                self.assertEqual(status, 400)
            self.assertEqual(client.status(wire.field(100, bytes(5 << 20)))[0], "RESOURCE_EXHAUSTED")
            self.assertEqual(client.status(MADE[signal](1, 200000)[0])[0], "RESOURCE_EXHAUSTED")
            self.assertEqual(spanprof.metric("spanprof_requests_refused_total",
                                             'signal="%s",reason="malformed"' % signal), 6)
            self.assertEqual(self.bytes_of(signal), b"")
        self.stop_spanprof(spanprof)

    def test_large_requests_are_split(self):
        spanprof = self.spanprof_of_all({"exporters": {"otlp_grpc": {"max_request_size": 100000}}})
        for signal, (body, items) in (("metrics", metrics_of(500, 1000)), ("logs", logs_of(500, 1000))):
            sender.GrpcSender(spanprof.grpc_address, signal=signal).send(body)
            harness.wait_until(lambda: spanprof.metric("spanprof_exporter_sent_items_total",
                                                       'signal="%s"' % signal) == items, 15,
                               "all %s are forwarded" % signal)
            bodies = [r.body for r in self.backend.requests(signal)]
            self.assertGreater(len(bodies), 5)
            self.assertLess(max(map(len, bodies)), 100000)
            entries = b"".join(raw.span for b in bodies for raw in wire.raw_spans(b))
            self.assertEqual(entries, b"".join(raw.span for raw in wire.raw_spans(body)))
            self.assertEqual({raw.resource_spans for b in bodies for raw in wire.raw_spans(b)},
                             {wire.raw_spans(body)[0].resource_spans})
        self.stop_spanprof(spanprof)


if __name__ == "__main__":
    harness.main()

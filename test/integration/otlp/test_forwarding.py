# SPDX-License-Identifier: Apache-2.0
"""What comes out is what came in: byte for byte but for the added attributes, exactly once."""
import os
import sys
import time
from collections import Counter

import grpc

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))
import harness  # noqa: E402
import receiver_wire as wire  # noqa: E402
import sender  # noqa: E402

UNKNOWN = wire.field(100, b"from a later version") + wire.number_field(101, 7)


def odd_request():
    """A legal request as no library would write it: unknown fields, odd order, long varints."""
    trace_id, span_id = os.urandom(16), os.urandom(8)
    attribute = wire.field(9, wire.field(1, b"key") + wire.field(2, wire.field(1, b"value")))
    span = wire.field(5, b"odd") + attribute + UNKNOWN + wire.field(2, span_id) + \
        b"\x30\x82\x80\x00" + wire.field(1, trace_id) + attribute + \
        b"\x39" + (1).to_bytes(8, "little") + b"\x41" + (2).to_bytes(8, "little")
    scope = wire.field(3, b"https://scope.example/1") + wire.field(2, span) + UNKNOWN + \
        wire.field(1, wire.field(1, b"scope"))
    resource = wire.field(1, wire.field(1, b"service.name") + wire.field(2, wire.field(1, b"odd")))
    resource_spans = wire.field(3, b"https://resource.example/1") + wire.field(2, scope) + UNKNOWN + \
        wire.field(1, resource + UNKNOWN)
    return UNKNOWN + wire.field(1, resource_spans) + wire.field(1, b""), (trace_id.hex(), span_id.hex())


class Forwarding(harness.IntegrationTest):
    def bodies(self):
        return [request.body for request in self.backend.requests("traces")]

    def test_unmatched_requests_come_out_as_they_came(self):
        spanprof = self.spanprof(sampler=False, over={"exporters": {"otlp_grpc": {
            "sending_queue": {"num_consumers": 1}}}})  # in their order
        odd, _ = odd_request()
        plain, _ = sender.request_of(50, padding=300)
        sent = []
        client = sender.GrpcSender(spanprof.grpc_address)
        packed = sender.GrpcSender(spanprof.grpc_address, grpc.Compression.Gzip)
        for body in (odd, plain):
            client.send(body)
            packed.send(body)
            for options in ({}, {"encoding": "gzip"}, {"chunked": True}):
                status, _, answer = sender.post(spanprof.http_address, body, **options)
                self.assertEqual((status, answer), (200, b""))
            sent += [body] * 5
        # Small requests that wait together may leave as one, which is one behind the other.
        expected = b"".join(sent)
        self.backend.wait(lambda: sum(map(len, self.bodies())) >= len(expected), 15,
                          "all requests are forwarded")
        self.stop_spanprof(spanprof)
        self.assertEqual(b"".join(self.bodies()), expected)

    def test_each_span_once_under_load(self):
        spanprof = self.spanprof(sampler=False)
        load = sender.Load(spanprof.grpc_address, senders=4, spans=50, padding=300)
        time.sleep(6)
        load.stop()
        self.assertEqual(load.refused, 0)
        self.assertEqual(load.acknowledged, load.sent)
        self.backend.wait(lambda: len(self.backend.spans()) >= len(load.acknowledged), 30,
                          "all spans are forwarded")
        self.stop_spanprof(spanprof)
        times = Counter(span.span_id for span in self.backend.spans())
        self.assertEqual(set(times), load.acknowledged)
        self.assertEqual({n for n in times.values()}, {1})
        print("%d spans, each once" % len(times))

    def test_empty_requests_are_answered_and_not_forwarded(self):
        spanprof = self.spanprof(sampler=False)
        sender.GrpcSender(spanprof.grpc_address).send(b"")
        self.assertEqual(sender.post(spanprof.http_address, b"")[0], 200)
        sender.GrpcSender(spanprof.grpc_address).send(sender.request_of(1)[0])
        self.backend.wait(lambda: self.backend.spans(), 10, "the span is forwarded")
        self.stop_spanprof(spanprof)
        self.assertEqual(len(self.backend.requests("traces")), 1)

    def test_large_requests_are_split(self):
        spanprof = self.spanprof(sampler=False, over={"exporters": {"otlp_grpc": {
            "max_request_size": 100000}}})
        body, ids = sender.request_of(1000, padding=1000)
        sender.GrpcSender(spanprof.grpc_address).send(body)
        self.backend.wait(lambda: len(self.backend.spans()) >= 1000, 15, "all spans are forwarded")
        self.stop_spanprof(spanprof)
        self.assertGreater(len(self.bodies()), 10)
        self.assertLess(max(len(body) for body in self.bodies()), 100000)
        self.assert_same_spans(body)

    def assert_same_spans(self, body):
        """Each span of the request came out once, with its surroundings; returns pairs (sent, got)."""
        got = {}
        for raw in self.backend.raw_spans():
            self.assertNotIn(raw.key(), got)
            got[raw.key()] = raw
        pairs = []
        for sent in wire.raw_spans(body):
            received = got.pop(sent.key())
            self.assertEqual(received.without_added(), sent.span)
            self.assertEqual(received.resource_spans, sent.resource_spans)
            self.assertEqual(received.scope_spans, sent.scope_spans)
            pairs.append((sent, received))
        self.assertEqual(got, {})
        return pairs

    def joined_request(self, spanprof, n_others, padding):
        """A request with one span that has samples, unknown fields in it, among others that have none."""
        workload = self.read_workload(spanprof, "--seconds", 3).wait()
        record, = workload.of("span")
        process = workload.first("process")
        known = sender.request_of_truth(process, [record], {"padding": "x" * padding})
        span = wire.raw_spans(known)[0].span + UNKNOWN
        others = b"".join(wire.field(2, raw.span)
                          for raw in wire.raw_spans(sender.request_of(n_others, padding)[0]))
        surroundings = wire.raw_spans(known)[0]
        scope = surroundings.scope_spans + others + wire.field(2, span) + UNKNOWN
        body = wire.field(1, surroundings.resource_spans + wire.field(2, scope))
        sender.GrpcSender(spanprof.grpc_address).send(body)
        return body, record

    @harness.needs_sampling
    def test_joined_spans_differ_by_added_attributes_only(self):
        spanprof = self.spanprof()
        spanprof.wait_sampling()
        body, record = self.joined_request(spanprof, 20, 100)
        self.backend.wait(lambda: len(self.backend.spans()) >= 21, 15, "all spans are forwarded")
        self.stop_spanprof(spanprof)
        changed = [received for sent, received in self.assert_same_spans(body)
                   if received.span != sent.span]
        self.assertEqual([raw.key()[1] for raw in changed], [record["span_id"]])
        self.assertGreater(self.backend.span(record["span_id"]).cpu_ns, 0)

    @harness.needs_sampling
    def test_annotated_requests_are_split(self):
        """Below the limit as it came, above it with what was added."""
        limit = 70000
        spanprof = self.spanprof(over={"exporters": {"otlp_grpc": {"max_request_size": limit}}})
        spanprof.wait_sampling()
        padding = limit // 20 - 160
        body, record = self.joined_request(spanprof, 19, padding)
        self.assertLess(len(body), limit)
        self.assertGreater(len(body), limit - 3000)
        self.backend.wait(lambda: len(self.backend.spans()) >= 20, 15, "all spans are forwarded")
        self.stop_spanprof(spanprof)
        self.assertLess(max(len(body) for body in self.bodies()), limit)
        self.assert_same_spans(body)
        self.assertGreater(self.backend.span(record["span_id"]).cpu_ns, 0)


if __name__ == "__main__":
    harness.main()

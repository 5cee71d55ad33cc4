# SPDX-License-Identifier: Apache-2.0
"""What a peer is told when it sends nonsense, too much, or knocks at a wrong door."""
import gzip
import http.client
import os
import socket
import sys

import grpc

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))
import harness  # noqa: E402
import receiver_wire as wire  # noqa: E402
import sender  # noqa: E402

MIB = 1 << 20


def nested_value(depth):
    value = wire.field(1, b"x")
    for _ in range(depth):
        value = wire.field(6, wire.field(1, wire.field(1, b"k") + wire.field(2, value)))
    return value


def request_with(span):
    return wire.field(1, wire.field(2, wire.field(2, span)))


MALFORMED = {
    "not protobuf": b"\xff" * 100,
    "cut off": sender.request_of(3)[0][:-5],
    "length past the end": b"\x0a\x7f\x01",
    "wrong type of a known field": request_with(wire.number_field(1, 5)),
    "deep nesting": request_with(wire.field(9, wire.field(1, b"k") +
                                            wire.field(2, nested_value(2000)))),
    "endless varint": b"\x0a" + b"\xff" * 20,
    "group": b"\x0b" * 50,
}


class Input(harness.IntegrationTest):
    def setUp(self):
        super().setUp()
        self.sp = self.spanprof(sampler=False)
        self.grpc = sender.GrpcSender(self.sp.grpc_address)

    def assert_still_serves(self):
        body, ids = sender.request_of(2)
        self.grpc.send(body)
        body, more = sender.request_of(2)
        self.assertEqual(sender.post(self.sp.http_address, body)[0], 200)
        self.backend.wait(lambda: {*ids, *more} <= {s.span_id for s in self.backend.spans()}, 10,
                          "spans are forwarded")

    def test_malformed_requests(self):
        for name, body in MALFORMED.items():
            with self.subTest(name):
                code, trailers = self.grpc.status(body)
                self.assertEqual(code, "INVALID_ARGUMENT")
                self.assertNotIn("grpc-status-details-bin", trailers)
                status, headers, answer = sender.post(self.sp.http_address, body)
                self.assertEqual(status, 400)
                self.assertEqual(headers["content-type"], "application/x-protobuf")
                self.assertEqual({n: v for n, _, v, _ in wire.fields(answer)}.get(1), 3)
        self.assert_still_serves()
        self.assertEqual(len(self.backend.spans()), 4)
        self.assertGreaterEqual(self.sp.metric("spanprof_requests_refused_total",
                                               'reason="malformed"'), 2 * len(MALFORMED))

    def test_oversized_requests_are_final(self):
        body = wire.field(100, bytes(5 * MIB))
        code, trailers = self.grpc.status(body)
        self.assertEqual(code, "RESOURCE_EXHAUSTED")
        self.assertNotIn("grpc-status-details-bin", trailers)
        status, headers, _ = sender.post(self.sp.http_address, wire.field(100, bytes(21 * MIB)))
        self.assertEqual(status, 413)
        self.assertNotIn("retry-after", headers)
        self.assertEqual(self.sp.metric("spanprof_requests_refused_total",
                                        'signal="traces",reason="too_big"'), 2)
        self.assert_still_serves()

    def test_the_largest_that_is_configured(self):
        """More than all of what else may be received or wait at a time: it comes alone."""
        self.stop_spanprof(self.sp)
        self.sp = self.spanprof(sampler=False, over={"receivers": {"otlp": {"protocols": {
            "grpc": {"max_recv_msg_size_mib": 96}, "http": {"max_request_body_size": 96 * MIB}}}}})
        self.grpc = sender.GrpcSender(self.sp.grpc_address)
        body, ids = sender.request_of(700, padding=100 << 10)
        more, more_ids = sender.request_of(700, padding=100 << 10)
        self.assertGreater(len(body), 68 * MIB)
        self.grpc.send(body, timeout=60)
        self.assertEqual(sender.post(self.sp.http_address, more, timeout=60)[0], 200)
        self.backend.wait(lambda: {*ids, *more_ids} <= {s.span_id for s in self.backend.spans()}, 60,
                          "spans are forwarded")
        self.assertEqual(self.grpc.status(bytes(97 * MIB), 60)[0], "RESOURCE_EXHAUSTED")
        self.assertEqual(self.sp.metric("spanprof_requests_refused_total", 'reason="busy"'), 0)

    def test_bombs(self):
        bomb = wire.field(100, bytes(300 * MIB))
        packed = sender.GrpcSender(self.sp.grpc_address, grpc.Compression.Gzip)
        self.assertEqual(packed.status(bomb, 30)[0], "RESOURCE_EXHAUSTED")
        self.assertEqual(sender.post(self.sp.http_address, bomb, encoding="gzip", timeout=30)[0], 413)
        self.assert_still_serves()
        # Small spans that a decoder would make large: 4 MiB of empty ones.
        empty = wire.field(1, wire.field(2, wire.field(2, b"") * (4 * MIB // 2 - 100)))
        self.assertIn(self.grpc.status(empty, 30)[0], ("OK", "INVALID_ARGUMENT", "RESOURCE_EXHAUSTED"))
        self.assert_still_serves()
        peak = max(int(harness.status_of(pid)["VmHWM"].split()[0])
                   for pid in [self.sp.supervisor, *harness.children_of(self.sp.supervisor)])
        if not harness.SANITIZE:
            self.assertLess(peak, 150 << 10, "KiB of memory at the peak")

    def test_http_doors(self):
        address = self.sp.http_address
        body, _ = sender.request_of(1)
        post = sender.post
        self.assertEqual(post(address, body, method="GET")[0], 405)
        self.assertEqual(post(address, body, method="PUT")[0], 405)
        self.assertEqual(post(address, body, path="/v1/nothing")[0], 404)
        self.assertEqual(post(address, body, path="/")[0], 404)
        self.assertEqual(post(address, body, content_type="text/plain")[0], 415)
        self.assertEqual(post(address, body, content_type=None)[0], 415)
        self.assertIn(post(address, body, encoding="br")[0], (400, 415))
        for encoding in ("gzip", "deflate"):
            self.assertEqual(post(address, body, encoding=encoding)[0], 200)
        self.assertEqual(self.post_bad_gzip(), 400)
        self.assert_still_serves()

    def post_bad_gzip(self):
        connection = http.client.HTTPConnection(self.sp.http_address, timeout=10)
        packed = gzip.compress(sender.request_of(1)[0])[:-10] + b"0123456789"
        connection.request("POST", "/v1/traces", packed, {"Content-Type": "application/x-protobuf",
                                                          "Content-Encoding": "gzip"})
        status = connection.getresponse().status
        connection.close()
        return status

    def test_grpc_doors(self):
        channel = self.grpc.channel
        for method in ("/opentelemetry.proto.collector.trace.v1.TraceService/Other", "/no.Such/Thing",
                       "/opentelemetry.proto.collector.logs.v1.LogsService/Export"):
            with self.assertRaises(grpc.RpcError) as raised:
                channel.unary_unary(method)(b"", timeout=10)
            self.assertEqual(raised.exception.code().name, "UNIMPLEMENTED", method)
        self.assert_still_serves()

    def test_raw_bytes_on_either_port(self):
        preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
        for port in (self.sp.grpc_port, self.sp.http_port):
            for data in (b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01" + os.urandom(200), preface +
                         os.urandom(500), preface + b"\x00" * 5000, b"\r\n" * 20000,
                         b"POST /v1/traces HTTP/1.1\r\n" + b"a: b\r\n" * 20000):
                with socket.create_connection(("127.0.0.1", port), 5) as connection:
                    try:
                        connection.sendall(data)
                        connection.settimeout(0.2)
                        connection.recv(4096)
                    except OSError:
                        pass
        self.assert_still_serves()

    def test_many_connections(self):
        """More than there may be: the others are served again once these are gone."""
        opened = []
        try:
            for _ in range(400):
                opened.append(socket.create_connection(("127.0.0.1", self.sp.grpc_port), 5))
                opened.append(socket.create_connection(("127.0.0.1", self.sp.http_port), 5))
            self.assert_still_serves()
        finally:
            for connection in opened:
                connection.close()
        self.assert_still_serves()


if __name__ == "__main__":
    harness.main()

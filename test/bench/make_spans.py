#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Writes spans_330.bin and spans_800.bin beside itself: each an ExportTraceServiceRequest of 100 spans
of about that many bytes, as instrumentation of HTTP and SQL would send them. Nothing in them is random.
"""
import pathlib
import struct

SPANS = 100
HERE = pathlib.Path(__file__).resolve().parent


def varint(number):
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes(out + bytes([number]))


def field(number, body):
    return varint(number << 3 | 2) + varint(len(body)) + body


def number(field_number, value):
    return varint(field_number << 3) + varint(value)


def fixed64(field_number, value):
    return varint(field_number << 3 | 1) + struct.pack("<Q", value)


def text(field_number, key, value):
    return field(field_number, field(1, key.encode()) + field(2, field(1, value.encode())))


def integer(field_number, key, value):
    return field(field_number, field(1, key.encode()) + field(2, number(3, value)))


def identifier(index, size):
    """Spread like random ids, the same each time."""
    out = b""
    while len(out) < size:
        index = (index * 6364136223846793005 + 1442695040888963407) % 2**64
        out += struct.pack("<Q", index)
    return out[:size]


def head(index, name):
    start = 1700000000000000000 + index * 1000000
    return (field(1, identifier(index // 10, 16)) + field(2, identifier(1000 + index, 8))
            + (field(4, identifier(1000 + index - 1, 8)) if index % 10 else b"")
            + field(5, name.encode()) + number(6, 2 if index % 10 == 0 else 3)
            + fixed64(7, start) + fixed64(8, start + 750000 + index))


def tail():
    return varint(16 << 3 | 5) + struct.pack("<I", 0x101)


def small(index):
    """A span of an HTTP server: about 330 bytes."""
    return (head(index, "GET /cart/{id}") + text(9, "http.request.method", "GET")
            + text(9, "http.route", "/cart/{id}") + text(9, "url.scheme", "https")
            + text(9, "url.path", f"/cart/{index:06d}")
            + text(9, "server.address", "shop.example.net")
            + text(9, "user_agent.original", "okhttp/5.1.0")
            + integer(9, "http.response.status_code", 200)
            + integer(9, "server.port", 8443) + field(15, number(3, 1)) + tail())


def large(index):
    """A span of a database client, with an event: about 800 bytes."""
    start = 1700000000000000000 + index * 1000000
    event = fixed64(1, start + 1000) + field(2, b"rows fetched") + integer(3, "rows", index) \
        + text(3, "cursor", "server side")
    return (head(index, "SELECT shop.orders") + text(9, "db.system.name", "postgresql")
            + text(9, "db.namespace", "shop") + text(9, "db.collection.name", "orders")
            + text(9, "db.operation.name", "SELECT")
            + text(9, "db.query.text", "SELECT o.id, o.state, o.total, c.name FROM orders o "
                   "JOIN customers c ON c.id = o.customer WHERE o.state = $1 AND o.day >= $2 "
                   "ORDER BY o.day DESC LIMIT $3")
            + text(9, "server.address", "db-primary.shop.svc.cluster.local")
            + integer(9, "server.port", 5432) + text(9, "network.peer.address", "10.42.17.9")
            + text(9, "network.protocol.name", "postgresql") + text(9, "db.client.pool", "main")
            + text(9, "code.function.name", "net.example.shop.orders.OrderStore.recent")
            + text(9, "code.file.path", "src/orders/OrderStore.java")
            + integer(9, "code.line.number", 217) + text(9, "thread.name", f"worker-{index % 8}")
            + integer(9, "thread.id", 40 + index % 8) + field(11, event) + tail())


def request(span):
    resource = text(1, "service.name", "shop") + text(1, "service.version", "4.2.0") \
        + text(1, "service.instance.id", "shop-7d9c5b-x2x4q") \
        + text(1, "telemetry.sdk.language", "java") + integer(1, "process.pid", 4711)
    scope = field(1, b"net.example.instrumentation") + field(2, b"2.8.0")
    spans = b"".join(field(2, span(index)) for index in range(SPANS))
    return field(1, field(1, resource) + field(2, field(1, scope) + spans))


for size, span in ((330, small), (800, large)):
    body = request(span)
    (HERE / f"spans_{size}.bin").write_bytes(body)
    print(f"spans_{size}.bin: {len(span(5))} bytes a span, {len(body)} in all")

# SPDX-License-Identifier: Apache-2.0
"""An OTLP client for tests: requests of made-up or given spans, over gRPC and HTTP."""
import gzip
import http.client
import os
import sys
import threading
import time
import zlib

import grpc

TEST = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(TEST, "support", "python"))
import receiver_schema  # noqa: E402
from receiver import SLOWNESS  # noqa: E402

METHODS = {"traces": "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
           "metrics": "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
           "logs": "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
           "profiles": "/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export"}
PATHS = {"traces": "/v1/traces", "metrics": "/v1/metrics", "logs": "/v1/logs",
         "profiles": "/v1development/profiles"}
METHOD = METHODS["traces"]


def set_attribute(owner, key, value):
    pair = owner.attributes.add()
    pair.key = key
    if isinstance(value, bool):
        pair.value.bool_value = value
    elif isinstance(value, int):
        pair.value.int_value = value
    elif isinstance(value, bytes):
        pair.value.bytes_value = value
    else:
        pair.value.string_value = value


def new_request(resource=None, scope="sender"):
    """(request, list to add spans to)."""
    request = receiver_schema.message(receiver_schema.TRACE_REQUEST)()
    resource_spans = request.resource_spans.add()
    for key, value in (resource or {"service.name": "sender"}).items():
        set_attribute(resource_spans.resource, key, value)
    scope_spans = resource_spans.scope_spans.add()
    scope_spans.scope.name = scope
    return request, scope_spans.spans


def add_span(spans, name="made up", trace_id=None, span_id=None, parent_id=None, start=None,
             end=None, attributes=None, kind=1):
    span = spans.add()
    now = time.time_ns()
    span.trace_id = trace_id or os.urandom(16)
    span.span_id = span_id or os.urandom(8)
    if parent_id:
        span.parent_span_id = parent_id
    span.name = name
    span.kind = kind
    span.start_time_unix_nano = start or now - 1000000
    span.end_time_unix_nano = end or now
    for key, value in (attributes or {}).items():
        set_attribute(span, key, value)
    return span


def request_of(n_spans, padding=0, resource=None):
    """A serialized request of made-up spans, and their span ids in hex."""
    request, spans = new_request(resource)
    for _ in range(n_spans):
        add_span(spans, attributes={"padding": "x" * padding} if padding else None)
    return request.SerializeToString(), [span.span_id.hex() for span in spans]


def request_of_truth(process, records, attributes=None):
    """The request that the SDK of a workload would send: records are of type "span"."""
    request, spans = new_request({"service.name": process["service"],
                                  "service.instance.id": process["instance"],
                                  "process.pid": process["pid"]}, "spanprof.test")
    for record in records:
        parent = record.get("parent_id")
        span = add_span(spans, record["name"], bytes.fromhex(record["trace_id"]),
                        bytes.fromhex(record["span_id"]), bytes.fromhex(parent) if parent else None,
                        record["start"], record["end"], attributes)
        span.flags = 0x101
    return request.SerializeToString()


class GrpcSender:
    """Export of serialized requests. Raises grpc.RpcError."""

    def __init__(self, address, compression=None, signal="traces", credentials=None):
        options = [("grpc.max_send_message_length", -1), ("grpc.initial_reconnect_backoff_ms", 100),
                   ("grpc.max_reconnect_backoff_ms", 500)]
        if credentials:
            options.append(("grpc.use_local_subchannel_pool", 1))  # a connection of its own
            self.channel = grpc.secure_channel(address, credentials, options, compression)
        else:
            self.channel = grpc.insecure_channel(address, options, compression)
        self.call = self.channel.unary_unary(METHODS[signal])

    def send(self, body, timeout=10, **options):
        return self.call(body, timeout=timeout, **options)

    def status(self, body, timeout=10):
        """(name of the status code, trailing metadata)."""
        try:
            _, call = self.call.with_call(body, timeout=timeout)
        except grpc.RpcError as error:
            call = error
        return call.code().name, dict(call.trailing_metadata() or ())

    def close(self):
        self.channel.close()


def post(address, body, content_type="application/x-protobuf", encoding=None, path="/v1/traces",
         method="POST", chunked=False, timeout=10, tls=None):
    """(HTTP status, headers, body). tls: an ssl.SSLContext."""
    connection = http.client.HTTPSConnection(address, timeout=timeout, context=tls) if tls \
        else http.client.HTTPConnection(address, timeout=timeout)
    headers = {"Content-Type": content_type} if content_type else {}
    if encoding == "gzip":
        body = gzip.compress(body)
    if encoding == "deflate":
        body = zlib.compress(body)
    if encoding:
        headers["Content-Encoding"] = encoding
    try:
        if chunked:
            pieces = (body[i:i + 1000] for i in range(0, len(body), 1000))
            connection.request(method, path, pieces, headers, encode_chunked=True)
        else:
            connection.request(method, path, body, headers)
        answer = connection.getresponse()
        return answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read()
    finally:
        connection.close()


class Load:
    """Senders that go on through refusals and restarts, and know what was acknowledged.

    As an SDK does, a request that was not answered OK in 10 s is sent again, the same bytes, until it is. pause_s:
    seconds from one answer to the next request.
    """

    def __init__(self, address, senders=4, spans=20, padding=100, credentials=None, pause_s=0):
        self.address = address
        self.credentials = credentials
        self.acknowledged = set()
        self.sent = set()
        self.refused = 0
        self._spans, self._padding, self._pause_s = spans, padding, pause_s
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._run, daemon=True) for _ in range(senders)]
        for thread in self._threads:
            thread.start()

    def _run(self):
        sender = GrpcSender(self.address, credentials=self.credentials)
        while not self._stop.is_set():
            body, ids = request_of(self._spans, self._padding)
            with self._lock:
                self.sent.update(ids)
            while not self._send(sender, body, ids):
                if self._stop.wait(0.05):
                    break
            if self._pause_s:
                self._stop.wait(self._pause_s)
        sender.close()

    def _send(self, sender, body, ids):
        try:
            sender.send(body, timeout=10 * SLOWNESS)
        except grpc.RpcError:
            with self._lock:
                self.refused += 1
            return False
        with self._lock:
            self.acknowledged.update(ids)
        return True

    def count(self):
        with self._lock:
            return len(self.acknowledged)

    def stop(self):
        self._stop.set()
        for thread in self._threads:
            thread.join(15 * SLOWNESS)

# SPDX-License-Identifier: Apache-2.0
"""Sends the spans of sdk_spans.py; prints each one's ids. OTEL_EXPORTER_OTLP_PROTOCOL chooses the exporter."""
import importlib
import os
import sys
import time

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags, TraceState

SPANS = 1000
SPANS_OF_TRACE = 10
TEXT = "größe 漢字 🚀 \"\\\t\n\x01"
KINDS = [SpanKind.INTERNAL, SpanKind.SERVER, SpanKind.CLIENT, SpanKind.PRODUCER, SpanKind.CONSUMER]
EXPORTERS = {"grpc": "proto.grpc", "http/protobuf": "proto.http", "http/json": "json.http"}
BASE, PAUSE_MS = map(int, sys.argv[1:])


def link_of(i):
    state = TraceState([("vendor", "x")])
    return Link(SpanContext(i + 1, i + 1, False, TraceFlags(TraceFlags.SAMPLED), state), {"link": i})


def attributes_of(i):
    attributes = {"index": i, "negative": -i - 1, "large": 2 ** 53 - 1, "ratio": i + 0.5, "even": i % 2 == 0,
                  "text": TEXT, "empty": "", "words": ["a", "ß", ""], "numbers": [1, -2, i]}
    if i == 100:
        attributes["long"] = "é漢" * 20000
    return attributes


def make_span(tracer, parent, i):
    start = BASE + i * 1000000
    span = tracer.start_span("span %d größe 漢字 🚀" % i, parent, KINDS[i % 5], attributes_of(i),
                             [link_of(i)] if i % 4 == 0 else [], start)
    for j in range(i % 3):
        span.add_event("event %d ✓" % j, {"n": j, "why": TEXT}, start + j + 1)
    if i == 500:
        span.set_status(Status(StatusCode.ERROR, "it failed: größe"))
    if i == 501:
        span.set_status(Status(StatusCode.OK))
    span.end(start + 456789 + i)
    own = span.get_span_context()
    print(i, "%032x" % own.trace_id, "%016x" % own.span_id)
    return span


def main():
    exporters = EXPORTERS[os.environ["OTEL_EXPORTER_OTLP_PROTOCOL"]]
    module = importlib.import_module("opentelemetry.exporter.otlp.%s.trace_exporter" % exporters)
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(module.OTLPSpanExporter()))
    tracer = provider.get_tracer("spanprof.peer", "1.2.3", "https://opentelemetry.io/schemas/1.30.0")
    parent = None
    for i in range(SPANS):
        if i % SPANS_OF_TRACE == 0:
            parent = trace.set_span_in_context(make_span(tracer, trace.Context(), i))
            time.sleep(PAUSE_MS / 1000)
        else:
            make_span(tracer, parent, i)
    provider.force_flush()
    provider.shutdown()


if __name__ == "__main__":
    main()

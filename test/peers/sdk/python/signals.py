# SPDX-License-Identifier: Apache-2.0
"""Sends a thousand log records and the points of three instruments, as test_sdk_clients.py expects them.
OTEL_EXPORTER_OTLP_PROTOCOL chooses the exporters."""
import importlib
import os
import sys

from opentelemetry import trace
from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.metrics import Observation
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags

ITEMS = 1000
HOUR_MS = 3600000  # never, but at the end
TEXT = "größe 漢字 🚀 \"\\\t\n\x01"
EXPORTERS = {"grpc": "proto.grpc", "http/protobuf": "proto.http", "http/json": "json.http"}
BASE = int(sys.argv[1])


def exporter(module, name):
    chosen = EXPORTERS[os.environ["OTEL_EXPORTER_OTLP_PROTOCOL"]]
    return getattr(importlib.import_module("opentelemetry.exporter.otlp.%s.%s" % (chosen, module)), name)()


def record_of(i):
    span = SpanContext(i + 1, i + 1, False, TraceFlags(TraceFlags.SAMPLED))
    body = {"number": i, "list": [True, 0.5, "ß"], "bytes": b"\x00\xff"} if i % 10 == 0 else "log %d %s" % (i, TEXT)
    return LogRecord(timestamp=BASE + i, observed_timestamp=BASE + i + 1, severity_text="WARN",
                     severity_number=SeverityNumber.WARN, body=body, attributes={"index": i, "text": TEXT},
                     context=trace.set_span_in_context(NonRecordingSpan(span)), event_name="event.%d" % i)


def main():
    logs = LoggerProvider()
    logs.add_log_record_processor(BatchLogRecordProcessor(exporter("_log_exporter", "OTLPLogExporter")))
    reader = PeriodicExportingMetricReader(exporter("metric_exporter", "OTLPMetricExporter"), HOUR_MS)
    metrics = MeterProvider([reader])
    logger = logs.get_logger("spanprof.peer", "1.2.3", "https://opentelemetry.io/schemas/1.30.0")
    meter = metrics.get_meter("spanprof.peer", "1.2.3", "https://opentelemetry.io/schemas/1.30.0")
    counter, duration = meter.create_counter("requests", "1", TEXT), meter.create_histogram("duration", "s")
    meter.create_observable_gauge("level", [lambda _: [Observation(-7.25, {"text": TEXT})]])
    for i in range(ITEMS):
        logger.emit(record_of(i))
        counter.add(i + 1, {"index": i})
        duration.record(i + 0.5)
    logs.shutdown()
    metrics.shutdown()


if __name__ == "__main__":
    main()

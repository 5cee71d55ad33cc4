# SPDX-License-Identifier: Apache-2.0
"""One span after the other, each of SECONDS of CPU time, by the SDK as it is; prints their ids. As long as the
SDK does not say itself which span a thread works for, SPANPROF_CONTEXT_LIBRARY does."""
import ctypes
import importlib
import os
import sys
import time

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

EXPORTERS = {"grpc": "proto.grpc", "http/protobuf": "proto.http"}
SPANS, SECONDS = int(sys.argv[1]), float(sys.argv[2])


class Attribute(ctypes.Structure):
    _fields_ = [("key", ctypes.c_char_p), ("value", ctypes.c_char_p)]


def publish(context, resource):
    """The SDK's own Resource, as a publisher does."""
    attributes = [Attribute(key.encode(), str(value).encode()) for key, value in resource.attributes.items()]
    error = context.spanprof_context_publish((Attribute * len(attributes))(*attributes), len(attributes))
    assert error == 0, error


def main():
    context = ctypes.CDLL(os.environ["SPANPROF_CONTEXT_LIBRARY"])
    exporter = importlib.import_module("opentelemetry.exporter.otlp.%s.trace_exporter"
                                       % EXPORTERS[os.environ["OTEL_EXPORTER_OTLP_PROTOCOL"]])
    provider = TracerProvider()
    publish(context, provider.resource)
    provider.add_span_processor(BatchSpanProcessor(exporter.OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
    tracer = trace.get_tracer("burns")
    print("ready", os.getpid(), flush=True)
    sys.stdin.readline()
    for i in range(SPANS):
        with tracer.start_as_current_span("burn") as span:
            ids = span.get_span_context()
            context.spanprof_context_set(ids.trace_id.to_bytes(16, "big"), ids.span_id.to_bytes(8, "big"), 1)
            until = time.thread_time() + SECONDS
            while time.thread_time() < until:
                pass
            context.spanprof_context_clear()
        print("%032x" % ids.trace_id, "%016x" % ids.span_id, flush=True)
    provider.shutdown()


main()

# SPDX-License-Identifier: Apache-2.0
"""What a process publishes, as a line of JSON, after each step that is named: `span`: a span of OpenTelemetry's SDK,
`ddtrace`: Datadog's tracer is imported and has made a span.

    python report.py STEP ..."""
import json
import sys


def contexts():
    """Process contexts in this process."""
    with open("/proc/self/maps") as maps:
        return sum("OTEL_CTX" in line for line in maps)


def copies():
    """Of the publisher's library in this process."""
    with open("/proc/self/maps") as maps:
        return len({line.split()[-1] for line in maps if "spanprof_otel/_native" in line})


def current():
    """The span id that this thread publishes through the publisher; None: it is not loaded."""
    module = sys.modules.get("spanprof_otel._native")
    return int.from_bytes(module.current()[1], "big") if module else None


def span():
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    tracer = TracerProvider().get_tracer("report")
    with tracer.start_as_current_span("outer"):
        with tracer.start_as_current_span("inner"):
            inside = current(), trace.get_current_span().get_span_context().span_id
        between = current(), trace.get_current_span().get_span_context().span_id
    published = [got for got, _ in (inside, between)]
    return {"right": all(got == want for got, want in (inside, between)), "none": not any(published),
            "after": current()}


def ddtrace():
    from ddtrace.trace import tracer
    with tracer.trace("datadog"):
        return {"none": not current()}


for step in sys.argv[1:]:
    print(json.dumps({"step": step, **globals()[step](), "contexts": contexts(), "copies": copies()}), flush=True)

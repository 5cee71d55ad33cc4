# SPDX-License-Identifier: Apache-2.0
"""Spans and Resources that a publisher must survive. Ends with 1 and says which case was wrong.

    PYTHONPATH=TREE OTEL_PYTHON_CONTEXT=spanprof python failures.py CASE"""
import sys

from opentelemetry import context as api
from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider

import spanprof_otel


def published():
    trace_id, span_id, _ = spanprof_otel._native.current()
    return int.from_bytes(trace_id, "big"), int.from_bytes(span_id, "big")


def process_context():
    """Its bytes; empty: none."""
    with open("/proc/self/maps") as maps:
        for line in maps:
            if "OTEL_CTX" in line:
                start, end = (int(address, 16) for address in line.split()[0].split("-"))
                with open("/proc/self/mem", "rb") as memory:
                    memory.seek(start)
                    return memory.read(end - start)
    return b""


def tracer(**resource):
    return TracerProvider(resource=Resource(resource)).get_tracer("failures")


def inside(span):
    """What is published while that span is current."""
    token = api.attach(trace.set_span_in_context(span))
    try:
        return published()
    finally:
        api.detach(token)


def case_span_with_slots():
    class Slots:
        __slots__ = ("context",)

        def get_span_context(self):
            return self.context
    span = Slots()
    span.context = trace.SpanContext(1 << 127 | 5, 7, False)
    with tracer().start_as_current_span("outer") as outer:
        assert [inside(span) for _ in range(3)] == [(1 << 127 | 5, 7)] * 3
        assert published() == (outer.get_span_context().trace_id, outer.get_span_context().span_id)


def case_spans_that_raise():
    class Raises:
        def __getattr__(self, name):
            raise ValueError(name)

    class WrongTypes:
        _context = ("a", None, False, object())

    class Short(tuple):
        _context = (1,)
    with tracer().start_as_current_span("outer"):
        for span in (Raises(), WrongTypes(), Short(), object(), None, 5):
            assert inside(span) == (0, 0), span


def case_remote_and_invalid_spans():
    with tracer().start_as_current_span("outer"):
        for context in (trace.SpanContext(1, 2, True), trace.SpanContext(0, 2, False), trace.SpanContext(1, 0, False)):
            assert inside(trace.NonRecordingSpan(context)) == (0, 0), context


def case_resource_that_does_not_fit():
    many = {"key%03d" % i: "v" * 3000 for i in range(200)}
    work = tracer(**{**many, "surrogate": "a\ud800b", "nul": "a\0b", "k" * 300: "key too long",
                     "long": "v" * 5000, "service.name": "caf\xe9"})
    with work.start_as_current_span("outer") as outer:
        assert published()[1] == outer.get_span_context().span_id
    text = process_context()
    assert b"service.name" in text and "caf\xe9".encode() in text
    for unwanted in (b"surrogate", b"nul", b"key too long"):
        assert unwanted not in text, unwanted


def case_resource_of_all_types():
    work = tracer(**{"list": ("a", 1.5, True), "flag": True, "number": 12})
    with work.start_as_current_span("outer"):
        text = process_context()
    for wanted in (b'["a", 1.5, true]', b"flag", b"true", b"12"):
        assert wanted in text, wanted


class Interrupted:
    """A span whose Resource is read as ctrl-C is pressed."""
    _context = trace.SpanContext(1, 2, False)
    error = KeyboardInterrupt

    @property
    def resource(self):
        return self

    @property
    def attributes(self):
        raise self.error


def case_interrupt_at_the_first_span():
    before = api.get_current()
    try:
        inside(Interrupted())
        raise AssertionError("the interrupt is lost")
    except KeyboardInterrupt:
        assert api.get_current() == before
    with tracer().start_as_current_span("outer"):
        assert published() == (0, 0) and not process_context()


def case_error_at_the_first_span():
    Interrupted.error = ValueError
    assert inside(Interrupted()) == (0, 0)
    with tracer().start_as_current_span("outer"):
        assert published() == (0, 0) and not process_context()


def case_end():
    """Spans at the interpreter's end are not published."""
    import atexit
    work = tracer()

    def last():
        with work.start_as_current_span("last"):
            assert published() == (0, 0)
    atexit.register(last)  # it runs after the publisher's own, which is registered later
    with work.start_as_current_span("outer"):
        pass


globals()["case_" + sys.argv[1]]()

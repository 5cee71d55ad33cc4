# SPDX-License-Identifier: Apache-2.0
"""Raw protobuf fields, for what a decoder would hide: byte comparison, unknown fields, RetryInfo."""

ADDED_KEYS = {b"spanprof.cpu.time_ns", b"spanprof.samples", b"spanprof.stack_ids"}


def read_varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7f) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def varint(value):
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7f | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def field(number, payload):
    """A length-delimited field."""
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def number_field(number, value):
    return varint(number << 3) + varint(value)


def fields(data):
    """Yields (number, wire type, value, whole field as bytes)."""
    at = 0
    while at < len(data):
        start = at
        tag, at = read_varint(data, at)
        kind = tag & 7
        if kind == 0:
            value, at = read_varint(data, at)
        elif kind == 1:
            value, at = data[at:at + 8], at + 8
        elif kind == 5:
            value, at = data[at:at + 4], at + 4
        elif kind == 2:
            length, at = read_varint(data, at)
            value, at = data[at:at + length], at + length
        else:
            raise ValueError("wire type %d" % kind)
        if at > len(data):
            raise ValueError("field past the end")
        yield tag >> 3, kind, value, data[start:at]


def first(data, number):
    return next((value for n, _, value, _ in fields(data) if n == number), b"")


class RawSpan:
    """A span of a request with all that surrounds it, as bytes."""

    def __init__(self, span, around_resource, around_scope):
        self.span = span
        self.resource_spans = around_resource  # the fields of its ResourceSpans but scope_spans
        self.scope_spans = around_scope        # the fields of its ScopeSpans but spans
        self.span_id = first(span, 2)
        self.trace_id = first(span, 1)

    def key(self):
        return self.trace_id.hex(), self.span_id.hex()

    def without_added(self):
        return strip_added(self.span)


def raw_spans(request):
    spans = []
    for number, _, resource_spans, _ in fields(request):
        if number != 1:
            continue
        outer = b"".join(raw for n, _, _, raw in fields(resource_spans) if n != 2)
        for inner_number, _, scope_spans, _ in fields(resource_spans):
            if inner_number != 2:
                continue
            scope = b"".join(raw for n, _, _, raw in fields(scope_spans) if n != 2)
            spans += [RawSpan(value, outer, scope)
                      for n, _, value, _ in fields(scope_spans) if n == 2]
    return spans


def strip_added(span):
    """The span without the attributes that spanprof appends; they must be its last fields."""
    kept, tail = [], False
    for number, kind, value, raw in fields(span):
        added = number == 9 and kind == 2 and first(value, 1) in ADDED_KEYS
        if tail and not added:
            raise ValueError("a field follows the appended attributes")
        tail = tail or added
        if not added:
            kept.append(raw)
    return b"".join(kept)


def status_details(code, message, retry_delay_s):
    """google.rpc.Status with a RetryInfo, as grpc-status-details-bin carries it."""
    seconds, nanos = int(retry_delay_s), int(retry_delay_s % 1 * 1e9)
    duration = (number_field(1, seconds) if seconds else b"") + \
        (number_field(2, nanos) if nanos else b"")
    packed = field(1, b"type.googleapis.com/google.rpc.RetryInfo") + field(2, field(1, duration))
    return number_field(1, code) + field(2, message.encode()) + field(3, packed)


def retry_delay(details):
    """Seconds of the RetryInfo in grpc-status-details-bin; None if there is none."""
    for number, _, value, _ in fields(details):
        if number == 3 and first(value, 1).endswith(b"google.rpc.RetryInfo"):
            duration = first(first(value, 2), 1)
            parts = {n: v for n, _, v, _ in fields(duration)}
            return parts.get(1, 0) + parts.get(2, 0) / 1e9
    return None

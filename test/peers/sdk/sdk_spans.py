# SPDX-License-Identifier: Apache-2.0
"""The thousand spans that each program in this folder makes with its SDK: what is to arrive of them.

A program is given the time of the first span in ns since 1970, and how many ms it is to wait in each trace; it prints a line `INDEX TRACE_ID SPAN_ID` for each.
"""
SPANS = 1000
SPANS_OF_TRACE = 10
TEXT = "größe 漢字 🚀 \"\\\t\n\x01"
KINDS = [1, 2, 3, 4, 5]  # internal, server, client, producer, consumer
UNSET, OK, ERROR = range(3)
SAMPLED = 1
STATUS = {500: (ERROR, "it failed: größe"), 501: (OK, "")}
SCOPE = ("spanprof.peer", "1.2.3", "https://opentelemetry.io/schemas/1.30.0")
SERVICE, TEAM = "shop größe", "blue"
ENVIRONMENT = {"OTEL_SERVICE_NAME": SERVICE, "OTEL_RESOURCE_ATTRIBUTES": "team=%s,service.instance.id=one" % TEAM}
RESOURCE = {"service.name": SERVICE, "team": TEAM, "service.instance.id": "one"}


def name_of(i):
    return "span %d größe 漢字 🚀" % i


def attributes_of(i):
    attributes = {"index": i, "negative": -i - 1, "large": 2 ** 53 - 1, "ratio": i + 0.5, "even": i % 2 == 0,
                  "text": TEXT, "empty": "", "words": ["a", "ß", ""], "numbers": [1, -2, i]}
    if i == 100:
        attributes["long"] = "é漢" * 20000
    return attributes


def expected(base, ids, omits=()):
    """By name. ids: (trace id, span id) of each span, as the program printed them. omits: as Client.omits."""
    spans = {}
    flags = 0 if "flags" in omits else SAMPLED
    state = "" if "trace_state" in omits else "vendor=x"
    for i, (trace_id, span_id) in enumerate(ids):
        start, root = base + i * 1000000, i - i % SPANS_OF_TRACE
        spans[name_of(i)] = {
            "scope": SCOPE, "trace": ids[root][0], "span": span_id, "parent": "" if i == root else ids[root][1],
            "kind": KINDS[i % 5], "start": start, "end": start + 456789 + i, "attributes": attributes_of(i),
            "events": [("event %d ✓" % j, start + j + 1, {"n": j, "why": TEXT}) for j in range(i % 3)],
            "links": [("%032x" % (i + 1), "%016x" % (i + 1), state, {"link": i})] if i % 4 == 0 else [],
            "status": STATUS.get(i, (UNSET, "")), "flags": flags, "dropped": 0}
        if trace_id != ids[root][0]:
            raise ValueError("span %d is not of its root's trace" % i)
    return spans


def typed(value):
    """With the kinds of numbers: 1, 1.0 and True are equal in Python, and not in OTLP."""
    if isinstance(value, (list, tuple)):
        return [typed(element) for element in value]
    if isinstance(value, dict):
        return {key: typed(element) for key, element in value.items()}
    return type(value).__name__, value


def seen(scope_spans, span, attributes):
    """The same of a span as it arrived. attributes: what makes a dict of key values."""
    scope = scope_spans.scope
    return {
        "scope": (scope.name, scope.version, scope_spans.schema_url), "trace": span.trace_id.hex(),
        "span": span.span_id.hex(), "parent": span.parent_span_id.hex(), "kind": span.kind,
        "start": span.start_time_unix_nano, "end": span.end_time_unix_nano, "attributes": attributes(span.attributes),
        "events": [(event.name, event.time_unix_nano, attributes(event.attributes)) for event in span.events],
        "links": [(link.trace_id.hex(), link.span_id.hex(), link.trace_state, attributes(link.attributes))
                  for link in span.links],
        "status": (span.status.code, span.status.message), "flags": span.flags & SAMPLED,
        "dropped": span.dropped_attributes_count + span.dropped_events_count + span.dropped_links_count}

#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""An OTLP/gRPC backend for tests and the demo: every signal, with faults on demand.

As a module: Backend(). As a program: prints what it gets as JSON lines.
    receiver.py --listen 127.0.0.1:14317 [--no-profiles] [--fault traces:UNAVAILABLE:5]
"""
import argparse
import json
import os
import sys
import tempfile
import threading
import time
from concurrent import futures

import grpc

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import receiver_check  # noqa: E402
import receiver_schema  # noqa: E402
import receiver_wire  # noqa: E402

SERVICES = {
    "traces": "opentelemetry.proto.collector.trace.v1.TraceService",
    "profiles": "opentelemetry.proto.collector.profiles.v1development.ProfilesService",
    "metrics": "opentelemetry.proto.collector.metrics.v1.MetricsService",
    "logs": "opentelemetry.proto.collector.logs.v1.LogsService",
}
SLOWNESS = 3 if os.environ.get("SPANPROF_SANITIZE") else 1  # factor on deadlines
KEEP_PROFILES = os.environ.get("SPANPROF_KEEP_PROFILES")  # a directory: each request of profiles into a file
SPANS_SHOWN = 200000
REQUESTS = {"traces": receiver_schema.TRACE_REQUEST, "profiles": receiver_schema.PROFILES_REQUEST,
            "metrics": receiver_schema.METRICS_REQUEST, "logs": receiver_schema.LOGS_REQUEST}


class Received:
    """One request as it came."""

    def __init__(self, signal, body, metadata, status):
        self.signal = signal
        self.body = body
        self.metadata = metadata
        self.status = status  # None = taken, else the name of the status it was answered with
        self.time = time.time()
        self._message = None

    @property
    def message(self):
        if self._message is None:
            self._message = receiver_schema.message(REQUESTS[self.signal]).FromString(self.body)
        return self._message

    def forget_message(self):
        """It is decoded again when it is asked for."""
        self._message = None


class Fault:
    """Answers of a signal until it is used up: by number of requests or by time."""

    def __init__(self, code, count=None, seconds=None, retry_info_s=None, delay_s=0):
        self.code = code  # a grpc.StatusCode name, or None for a slow but good answer
        self.count = count
        self.until = time.monotonic() + seconds if seconds else None
        self.retry_info_s = retry_info_s
        self.delay_s = delay_s

    def active(self):
        if self.until is not None and time.monotonic() > self.until:
            return False
        return self.count is None or self.count > 0


class Span:
    def __init__(self, resource, scope, span):
        self.resource = resource
        self.scope = scope
        self.trace_id = span.trace_id.hex()
        self.span_id = span.span_id.hex()
        self.parent_id = span.parent_span_id.hex()
        self.name = span.name
        self.kind = span.kind
        self.start = span.start_time_unix_nano
        self.end = span.end_time_unix_nano
        self.attributes = attributes_of(span.attributes)
        self.cpu_ns = self.attributes.get("spanprof.cpu.time_ns")
        self.samples = self.attributes.get("spanprof.samples")
        self.stack_ids = self.attributes.get("spanprof.stack_ids", [])

    def key(self):
        return self.trace_id, self.span_id


class Frame:
    """function, file: of the function that was compiled; lines: [(function, file, line)], those inlined into it
    before it, innermost first."""
    __slots__ = ("function", "file", "lines", "address", "kind", "mapping", "mapping_attributes",
                 "attributes")

    def __init__(self, lines, address, attributes, mapping, mapping_attributes):
        self.lines = lines
        self.function, self.file, _ = lines[-1] if lines else ("", "", 0)
        self.address = address
        self.attributes = attributes
        self.kind = attributes.get("profile.frame.type")
        self.mapping = mapping
        self.mapping_attributes = mapping_attributes

    def name(self):
        return self.function or "%s+%#x" % (os.path.basename(self.mapping) or "?", self.address)


class Sample:
    """A sample with its dictionary references resolved."""
    __slots__ = ("resource", "type", "unit", "period", "times", "values", "attributes", "trace_id",
                 "span_id", "frames")

    def key(self):
        return self.trace_id, self.span_id

    def count(self):
        return len(self.times) or sum(self.values)

    def functions(self):
        return [frame.function for frame in self.frames]


def value_of(value, strings=None):
    kind = value.WhichOneof("value")
    if kind is None:
        return None
    if kind == "array_value":
        return [value_of(element, strings) for element in value.array_value.values]
    if kind == "kvlist_value":
        return attributes_of(value.kvlist_value.values, strings)
    if kind == "string_value_strindex":
        return strings[value.string_value_strindex] if strings else None
    return getattr(value, kind)


def attributes_of(pairs, strings=None):
    return {pair.key or (strings[pair.key_strindex] if strings else ""):
            value_of(pair.value, strings) for pair in pairs}


def spans_of(message, most=SPANS_SHOWN):
    """But for scopes that have more spans."""
    spans = []
    for resource_spans in message.resource_spans:
        resource = attributes_of(resource_spans.resource.attributes)
        for scope_spans in resource_spans.scope_spans:
            if len(scope_spans.spans) <= most:
                spans += [Span(resource, scope_spans.scope.name, span) for span in scope_spans.spans]
    return spans


class Resolver:
    """Dictionary references of one profiles request, each resolved once."""

    def __init__(self, message):
        self.message = message
        self.dictionary = message.dictionary
        self.strings = message.dictionary.string_table
        self.stacks = {}
        self.locations = {}

    def attributes(self, indices):
        table = self.dictionary.attribute_table
        return {self.strings[table[i].key_strindex]: value_of(table[i].value, self.strings)
                for i in indices}

    def line(self, line):
        function = self.dictionary.function_table[line.function_index]
        return (self.strings[function.name_strindex] or self.strings[function.system_name_strindex],
                self.strings[function.filename_strindex], line.line)

    def location(self, index):
        if index not in self.locations:
            location = self.dictionary.location_table[index]
            mapping = self.dictionary.mapping_table[location.mapping_index]
            self.locations[index] = Frame(
                [self.line(line) for line in location.lines], location.address,
                self.attributes(location.attribute_indices),
                self.strings[mapping.filename_strindex], self.attributes(mapping.attribute_indices))
        return self.locations[index]

    def stack(self, index):
        if index not in self.stacks:
            self.stacks[index] = [self.location(i) for i in
                                  self.dictionary.stack_table[index].location_indices]
        return self.stacks[index]

    def sample(self, resource, profile, raw):
        sample = Sample()
        link = self.dictionary.link_table[raw.link_index]
        sample.resource = resource
        sample.type = self.strings[profile.sample_type.type_strindex]
        sample.unit = self.strings[profile.sample_type.unit_strindex]
        sample.period = profile.period
        sample.times = list(raw.timestamps_unix_nano)
        sample.values = list(raw.values)
        sample.attributes = self.attributes(raw.attribute_indices)
        sample.trace_id = link.trace_id.hex() if raw.link_index else None
        sample.span_id = link.span_id.hex() if raw.link_index else None
        sample.frames = self.stack(raw.stack_index)
        return sample

    def samples(self):
        for resource_profiles in self.message.resource_profiles:
            resource = attributes_of(resource_profiles.resource.attributes, self.strings)
            for scope in resource_profiles.scope_profiles:
                for profile in scope.profiles:
                    for raw in profile.samples:
                        yield self.sample(resource, profile, raw)


def samples_of(message):
    return list(Resolver(message).samples())


class Backend:
    """Keeps what it receives. All queries are safe while it runs.

    received: every request, also refused ones; spans() and samples() tell of those taken.
    violations: what receiver_check found in profiles requests.
    spans_shown: of a scope in a request; one with more is not looked at.
    """

    def __init__(self, address="127.0.0.1:0", profiles=True, on_receive=None, credentials=None,
                 spans_shown=SPANS_SHOWN):
        self.address = address
        self.profiles = profiles
        self.credentials = credentials  # of grpc; None: plain text
        self.received = []
        self.violations = []
        self.changed = threading.Condition()
        self.faults = {}
        self.spans_shown = spans_shown
        self._on_receive = on_receive
        self._server = None
        self._spans, self._samples = [], []
        for name in REQUESTS.values():
            receiver_schema.message(name)  # generate now, not within the first request
        self.start()

    @property
    def port(self):
        return int(self.address.rsplit(":", 1)[1])

    def start(self):
        """Also again after stop(), on the same port."""
        server = grpc.server(futures.ThreadPoolExecutor(4), options=[("grpc.so_reuseport", 0)])
        for signal, service in SERVICES.items():
            if signal == "profiles" and not self.profiles:
                continue
            handler = grpc.unary_unary_rpc_method_handler(self._export(signal))
            server.add_generic_rpc_handlers(
                (grpc.method_handlers_generic_handler(service, {"Export": handler}),))
        port = server.add_secure_port(self.address, self.credentials) if self.credentials \
            else server.add_insecure_port(self.address)
        if port == 0:
            raise RuntimeError("cannot listen on " + self.address)
        if not self.address.startswith("unix:"):
            self.address = "%s:%d" % (self.address.rsplit(":", 1)[0], port)
        server.start()
        self._server = server

    def stop(self):
        if self._server:
            self._server.stop(0).wait()
            self._server = None

    def fault(self, signal, code, **how):
        with self.changed:
            self.faults[signal] = Fault(code, **how)

    def clear_faults(self):
        with self.changed:
            self.faults.clear()

    def _export(self, signal):
        def export(body, context):
            metadata = [(key, value) for key, value in context.invocation_metadata()]
            fault = self._take_fault(signal)
            if fault and fault.delay_s:
                time.sleep(fault.delay_s)
            request = Received(signal, body, metadata, fault.code if fault else None)
            self._keep(request)
            if fault and fault.code:
                self._refuse(context, fault)
            return b""
        return export

    def _take_fault(self, signal):
        with self.changed:
            fault = self.faults.get(signal)
            if not fault or not fault.active():
                return None
            if fault.count is not None:
                fault.count -= 1
            return fault

    def _refuse(self, context, fault):
        code = grpc.StatusCode[fault.code]
        if fault.retry_info_s is not None:
            details = receiver_wire.status_details(code.value[0], "scripted", fault.retry_info_s)
            context.set_trailing_metadata((("grpc-status-details-bin", details),))
        context.abort(code, "scripted fault")

    def _keep(self, request):
        if KEEP_PROFILES and request.signal == "profiles":
            with tempfile.NamedTemporaryFile(dir=KEEP_PROFILES, suffix=".otlp", delete=False) as file:
                file.write(request.body)
        spans, samples, errors = [], [], []
        if request.status is None:
            try:
                if request.signal == "traces":
                    spans = spans_of(request.message, self.spans_shown)
                elif request.signal == "profiles":
                    errors = receiver_check.check(request.message, request.metadata,
                                                  len(request.body))
                    samples = samples_of(request.message)
                else:
                    request.message  # decodes
            except Exception as error:  # an undecodable request is a finding, not our end
                errors.append("%s request of %d bytes: %r" % (request.signal, len(request.body),
                                                              error))
        request.forget_message()
        with self.changed:
            self.received.append(request)
            self._spans += spans
            self._samples += samples
            self.violations += errors
            self.changed.notify_all()
        if self._on_receive:
            self._on_receive(request, spans, samples, errors)

    def requests(self, signal, taken=True):
        with self.changed:
            return [r for r in self.received if r.signal == signal and (not taken or not r.status)]

    def spans(self, name=None):
        with self.changed:
            return [s for s in self._spans if name is None or s.name == name]

    def span(self, span_id):
        """The span as it was forwarded last; None if it never was."""
        with self.changed:
            return next((s for s in reversed(self._spans) if s.span_id == span_id), None)

    def samples(self, pid=None):
        with self.changed:
            return [s for s in self._samples if pid is None or s.resource.get("process.pid") == pid]

    def forget(self):
        """What has come so far, but not the violations."""
        with self.changed:
            self.received, self._spans, self._samples = [], [], []

    def raw_spans(self):
        return [raw for request in self.requests("traces")
                for raw in receiver_wire.raw_spans(request.body)]

    def wait(self, condition, timeout, what="the condition"):
        """Waits until condition() is true; looks again whenever a request came. In a sanitizer's build
        for SLOWNESS times as long."""
        deadline = time.monotonic() + timeout * SLOWNESS
        while not condition():
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError("%s: not within %.0f s" % (what, timeout * SLOWNESS))
            with self.changed:
                self.changed.wait(min(left, 0.2))


def to_json(spans, samples):
    for span in spans:
        yield {"span": span.name, "trace_id": span.trace_id, "span_id": span.span_id,
               "parent_id": span.parent_id, "start": span.start, "end": span.end,
               "attributes": span.attributes, "resource": span.resource}
    for sample in samples:
        yield {"sample": sample.type, "trace_id": sample.trace_id, "span_id": sample.span_id,
               "times": sample.times, "values": sample.values, "attributes": sample.attributes,
               "resource": sample.resource, "stack": [frame.name() for frame in sample.frames]}


def parse_fault(text):
    signal, code, *rest = text.split(":")
    return signal, Fault(None if code == "SLOW" else code,
                         seconds=float(rest[0]) if rest else None,
                         retry_info_s=float(rest[1]) if len(rest) > 1 else None,
                         delay_s=2 if code == "SLOW" else 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--listen", default="127.0.0.1:14317")
    parser.add_argument("--no-profiles", action="store_true", help="as a Collector without its gate")
    parser.add_argument("--fault", action="append", default=[], type=parse_fault,
                        metavar="SIGNAL:CODE[:SECONDS[:RETRY_INFO_S]]")
    options = parser.parse_args()
    output = threading.Lock()

    def show(request, spans, samples, errors):
        with output:
            for record in to_json(spans, samples):
                print(json.dumps(record, default=bytes.hex), flush=True)
            for error in errors:
                print("not conforming: " + error, file=sys.stderr, flush=True)

    backend = Backend(options.listen, not options.no_profiles, show)
    backend.faults.update(dict(options.fault))
    print("listening on " + backend.address, file=sys.stderr, flush=True)
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        backend.stop()


if __name__ == "__main__":
    main()

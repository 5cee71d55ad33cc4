# SPDX-License-Identifier: Apache-2.0
"""OTLP/JSON against Google's protobuf: random requests of each signal, both ways. Google's JSON has ids in
base64 where OTLP has hex: that is the one thing which is changed here."""
import base64
import gzip
import json
import math
import os
import random
import struct
import subprocess
import sys
import unittest
import urllib.error
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))
import harness  # noqa: E402
import receiver_schema  # noqa: E402
from google.protobuf import json_format

REQUESTS = {"traces": receiver_schema.TRACE_REQUEST, "profiles": receiver_schema.PROFILES_REQUEST,
            "metrics": receiver_schema.METRICS_REQUEST, "logs": receiver_schema.LOGS_REQUEST}
HEX = {"traceId", "spanId", "parentSpanId", "profileId", "trace_id", "span_id", "parent_span_id",
       "profile_id"}
LENGTHS = {"trace_id": 16, "profile_id": 16, "span_id": 8, "parent_span_id": 8}
ROUNDS = 150
TEXTS = ("", "a", "GET /", "\"quoted\" \\ back/slash", "\0\x01\x1f\x7f\t\r\n\b\f", "äöü€ \U0001f600",
         "\ufffe\uffff\ud7ff\ue000", "x" * 300, "\u2028 \u00a0")
SEED = int(os.environ.get("SPANPROF_SEED", "20261121"))


def number(rng, low, high):
    return rng.choice((0, 1, low, high, rng.randint(low, high), rng.randint(low, high) >> 20))


def scalar(rng, field):
    kinds = {
        field.TYPE_STRING: lambda: rng.choice(TEXTS),
        field.TYPE_BYTES: lambda: rng.randbytes(LENGTHS.get(field.name, rng.randint(0, 40))),
        field.TYPE_BOOL: lambda: rng.random() < .5,
        field.TYPE_DOUBLE: lambda: rng.choice((
            0.0, -0.0, 1.0, 0.1, -1e300, 5e-324, 1.7976931348623157e308, 2.0 ** 53 + 2, math.inf,
            -math.inf, math.nan, rng.random(), rng.uniform(-1e9, 1e9),
            struct.unpack("d", rng.randbytes(8))[0])),
        field.TYPE_ENUM: lambda: rng.choice([v.number for v in field.enum_type.values] + [77, -1]),
    }
    if field.type in kinds:
        return kinds[field.type]()
    signed = field.type in (field.TYPE_INT32, field.TYPE_SINT32, field.TYPE_SFIXED32,
                            field.TYPE_INT64, field.TYPE_SINT64, field.TYPE_SFIXED64)
    wide = field.type in (field.TYPE_INT64, field.TYPE_SINT64, field.TYPE_SFIXED64,
                          field.TYPE_UINT64, field.TYPE_FIXED64)
    bits = 64 if wide else 32
    return number(rng, -2 ** (bits - 1), 2 ** (bits - 1) - 1) if signed else number(
        rng, 0, 2 ** bits - 1)


def fill(rng, message, depth):
    """About half of the fields; lists of few; what nests without end ends early."""
    for field in message.DESCRIPTOR.fields:
        if rng.random() < (.5 if depth > 3 else .15):
            continue
        repeated = field.label == field.LABEL_REPEATED
        if field.message_type is None:
            if repeated:
                getattr(message, field.name).extend(
                    scalar(rng, field) for _ in range(rng.randint(0, 4)))
            else:
                setattr(message, field.name, scalar(rng, field))
        elif depth < 12:
            for _ in range(rng.randint(0, 2) if repeated else 1):
                inner = getattr(message, field.name)
                inner = inner.add() if repeated else inner
                inner.SetInParent()
                fill(rng, inner, depth + 1)
    return message


def with_ids(value, change):
    if isinstance(value, list):
        return [with_ids(item, change) for item in value]
    if not isinstance(value, dict):
        return value
    return {key: change(item) if key in HEX else with_ids(item, change)
            for key, item in value.items()}


def to_hex(text):
    return base64.b64decode(text).hex()


def from_hex(text):
    return base64.b64encode(bytes.fromhex(text)).decode()


def as_otlp(message, rng, names_of_proto):
    """As any writer may put it: spaces or none, escapes or none, 64-bit integers as numbers."""
    tree = with_ids(json_format.MessageToDict(
        message, use_integers_for_enums=True, preserving_proto_field_name=names_of_proto), to_hex)
    if rng.random() < .3:
        tree = with_ids(tree, str.upper)
    text = json.dumps(tree, indent=rng.choice((None, 1)), ensure_ascii=rng.random() < .5,
                      separators=rng.choice(((",", ":"), (" , ", " : "))))
    if rng.random() < .3:
        text = text.replace("/", "\\/")
    return text


def convert(signal, verb, bodies):
    program = os.path.join(harness.BUILD, "test", "json_convert")
    got = subprocess.run([program, signal, verb], check=True, stdout=subprocess.PIPE,
                         input=b"".join(struct.pack("<I", len(b)) + b for b in bodies)).stdout
    answers, at = [], 0
    while at < len(got):
        outcome, size = struct.unpack_from("<BI", got, at)
        answers.append((outcome, got[at + 5:at + 5 + size]))
        at += 5 + size
    return answers


class Json(unittest.TestCase):
    maxDiff = 4000

    def requests(self, signal):
        rng = random.Random("%s %d" % (signal, SEED))
        make = receiver_schema.message(REQUESTS[signal])
        return rng, [fill(rng, make(), 0) for _ in range(ROUNDS)]

    def each_signal(self, check):
        for signal in REQUESTS:
            with self.subTest(signal, seed=SEED):
                check(signal, *self.requests(signal))

    def test_written_as_google_does(self):
        def check(signal, rng, messages):
            answers = convert(signal, "write", [m.SerializeToString() for m in messages])
            self.assertEqual(len(answers), len(messages))
            for message, (outcome, text) in zip(messages, answers):
                self.assertEqual(outcome, 0)
                self.assertNotIn(b"\n", text)
                expected = json_format.MessageToDict(message, use_integers_for_enums=True)
                self.assertEqual(with_ids(json.loads(text), from_hex), expected)
        self.each_signal(check)

    def test_read_as_google_does(self):
        def check(signal, rng, messages):
            texts = [as_otlp(m, rng, rng.random() < .3).encode() for m in messages]
            answers = convert(signal, "read", texts)
            self.assertEqual(len(answers), len(messages))
            for message, text, (outcome, body) in zip(messages, texts, answers):
                self.assertEqual(outcome, 0, (body, text[:1000]))
                got = type(message).FromString(body)
                self.assertEqual(got.SerializeToString(deterministic=True),
                                 message.SerializeToString(deterministic=True))
        self.each_signal(check)

    def test_numbers_of_64_bits_without_quotes(self):
        messages = ('{"resourceSpans":[{"scopeSpans":[{"spans":[{"startTimeUnixNano":%d}]}]}]}' % n
                    for n in (0, 1, 2 ** 53 + 1, 2 ** 63, 2 ** 64 - 1))
        make = receiver_schema.message(REQUESTS["traces"])
        texts = list(messages)
        for text, (outcome, body) in zip(texts, convert("traces", "read",
                                                        [t.encode() for t in texts])):
            self.assertEqual(outcome, 0, body)
            self.assertEqual(make.FromString(body), json_format.Parse(text, make()))

    def test_what_is_broken_is_refused_by_both(self):
        """One byte changed or cut: never a fault, and never taken where Google refuses, unless it is
        what OTLP allows and Google does not (hex ids, which are taken out here)."""
        rng = random.Random(SEED)
        make = receiver_schema.message(REQUESTS["metrics"])
        texts = []
        for _ in range(400):
            message = fill(rng, make(), 1)
            for field in ("trace_id", "span_id"):
                self.clear(message, field)
            text = bytearray(json_format.MessageToJson(
                message, indent=0, use_integers_for_enums=True).encode())
            at = rng.randrange(len(text))
            text[at:at + 1] = rng.choice((b"", b"\"", b"}", b"]", b",", b"0", b"\\", b"\xff", b"{"))
            texts.append(bytes(text))
        refused = 0
        for text, (outcome, body) in zip(texts, convert("metrics", "read", texts)):
            try:
                expected = json_format.Parse(text, make(), ignore_unknown_fields=True)
            except (json_format.ParseError, UnicodeDecodeError):
                refused += 1
                self.assertIn(outcome, (0, 2))
                if outcome == 0:
                    self.assertTrue(self.is_lenient(text), text[:2000])
                continue
            self.assertEqual(outcome, 0, (body, text[:2000]))
            self.assertEqual(make.FromString(body).SerializeToString(deterministic=True),
                             expected.SerializeToString(deterministic=True))
        self.assertGreater(refused, 100)

    @staticmethod
    def is_lenient(text):
        """Python's json refuses nothing that is JSON: what it takes was refused for its fields."""
        try:
            json.loads(text)
            return True
        except ValueError:
            return False

    def clear(self, message, name):
        for field, value in message.ListFields():
            if field.name == name:
                message.ClearField(name)
            elif field.message_type is not None:
                for inner in value if field.label == field.LABEL_REPEATED else (value,):
                    self.clear(inner, name)


class Door(harness.IntegrationTest):
    """Through the HTTP port: what was said in JSON reaches a gRPC backend as protobuf."""
    PATHS = {"traces": "/v1/traces", "metrics": "/v1/metrics", "logs": "/v1/logs",
             "profiles": "/v1development/profiles"}
    IDS = '"traceId":"5B8EFFF798038103D269B633813FC60C","spanId":"EEE19B7EC3C1B174"'
    TEXTS = {
        "traces": '{"resourceSpans":[{"scopeSpans":[{"spans":[{%s,"name":"a","kind":2,'
                  '"startTimeUnixNano":"1544712660000000000","endTimeUnixNano":1544712661000000000}]}]}]}',
        "metrics": '{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"name":"m","gauge":{"dataPoints":'
                   '[{"asDouble":"NaN","exemplars":[{%s}]}]}}]}]}]}',
        "logs": '{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"severityNumber":9,%s,'
                '"body":{"bytesValue":"AAEC/w=="}}]}]}]}',
        # What in protobuf would be taken for the numbers that samples had before OTLP 1.10.
        "profiles": '{"resourceProfiles":[{"scopeProfiles":[{"profiles":[{"sampleType":'
                    '{"typeStrindex":1,"unitStrindex":2},"samples":[{"stackIndex":1,"attributeIndices":'
                    '[1]}]}]}]}],"dictionary":{"linkTable":[{},{%s}],"stringTable":["","samples","count"],'
                    '"stackTable":[{},{}],"attributeTable":[{}],"mappingTable":[{}],"locationTable":[{}],'
                    '"functionTable":[{}]}}',
    }

    def post(self, path, body, headers=None):
        request = urllib.request.Request(
            "http://%s%s" % (self.instance.http_address, path), body,
            {"Content-Type": "application/json", **(headers or {})})
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return answer.status, answer.headers["Content-Type"], answer.read()
        except urllib.error.HTTPError as answer:
            return answer.code, answer.headers["Content-Type"], answer.read()

    def pipelines(self):
        one = {"receivers": ["otlp"], "exporters": ["otlp_grpc"]}
        return {"service": {"pipelines": {"metrics": dict(one), "logs": dict(one),
                                          "profiles": dict(one)}}}

    def test_each_signal(self):
        self.instance = self.spanprof(sampler=False, over=self.pipelines())
        for signal, path in self.PATHS.items():
            text = (self.TEXTS[signal] % self.IDS).encode()
            for body, headers in ((text, None), (gzip.compress(text), {"Content-Encoding": "gzip"})):
                self.assertEqual(self.post(path, body, headers), (200, "application/json", b"{}"))
            expected = receiver_schema.message(REQUESTS[signal])()
            json_format.ParseDict(with_ids(json.loads(text), from_hex), expected)
            want = expected.SerializeToString(deterministic=True)

            def bodies():
                return b"".join(r.body for r in self.backend.requests(signal))
            self.backend.wait(lambda: len(bodies()) >= 2 * len(want), 15, signal + " are forwarded")
            twice = type(expected).FromString(bodies())
            expected.MergeFrom(type(expected).FromString(want))
            self.assertEqual(twice.SerializeToString(deterministic=True),
                             expected.SerializeToString(deterministic=True))

    def test_what_is_wrong_is_said_in_json(self):
        self.instance = self.spanprof(sampler=False)
        status, kind, body = self.post("/v1/traces", b'{"resourceSpans":[{"scopeSpans":{}}]}')
        self.assertEqual((status, kind), (400, "application/json"))
        self.assertEqual(json.loads(body), {
            "code": 3, "message": "not OTLP/JSON: an array is missing at byte 32"})
        status, kind, body = self.post("/v1/traces", b"\x0a\x00")
        self.assertEqual((status, json.loads(body)["code"]), (400, 3))
        self.assertEqual(self.post("/v1/nothing", b"{}")[0], 404)
        self.assertEqual(self.post("/v1/traces", b"{}"), (200, "application/json", b"{}"))
        self.assertEqual(self.instance.metric("spanprof_requests_refused_total",
                                              'signal="traces",reason="malformed"'), 2)
        self.stop_spanprof(self.instance)
        self.assertEqual(self.backend.requests("traces"), [])


if __name__ == "__main__":
    harness.main()

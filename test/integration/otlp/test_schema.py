# SPDX-License-Identifier: Apache-2.0
"""Our wording of the OTLP schema against the one that opentelemetry-proto publishes on PyPI: each of our
messages and enumerations has the same fields, numbers and types."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))
import harness  # noqa: E402, F401  (finds test/support/python)
import receiver_schema  # noqa: E402

ROOTS = (receiver_schema.TRACE_REQUEST, receiver_schema.TRACE_RESPONSE,
         receiver_schema.PROFILES_REQUEST, receiver_schema.PROFILES_RESPONSE,
         receiver_schema.METRICS_REQUEST, receiver_schema.METRICS_RESPONSE,
         receiver_schema.LOGS_REQUEST, receiver_schema.LOGS_RESPONSE)


def shape(field):
    target = field.message_type or field.enum_type
    repeated = field.label == field.LABEL_REPEATED if hasattr(field, "label") else field.is_repeated
    return field.name, field.type, repeated, target.full_name if target else None


def walk(descriptor, found):
    if descriptor.full_name in found:
        return
    found[descriptor.full_name] = descriptor
    for field in descriptor.fields:
        if field.message_type:
            walk(field.message_type, found)


class Schema(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        try:
            self.theirs = receiver_schema.Schema(package=True).pool
        except ImportError:
            self.skipTest("the package opentelemetry-proto is not installed (./dev test peers)")
        self.ours = receiver_schema.Schema(package=False).pool

    def test_every_message(self):
        found = {}
        for root in ROOTS:
            walk(self.ours.FindMessageTypeByName(root), found)
        self.assertGreater(len(found), 20)
        for name, ours in sorted(found.items()):
            theirs = self.theirs.FindMessageTypeByName(name)
            with self.subTest(name):
                expected = {f.number: shape(f) for f in theirs.fields}
                self.assertEqual({f.number: shape(f) for f in ours.fields},
                                 {number: expected.get(number) for number in
                                  [f.number for f in ours.fields]})
                self.assertEqual({f.number for f in ours.fields}, set(expected), "all fields")


if __name__ == "__main__":
    harness.main()

# SPDX-License-Identifier: Apache-2.0
"""The judges themselves: the conformance check finds each kind of fault, the truth is told from lies."""
import unittest

import harness  # noqa: F401  (finds test/support/python)
import receiver
import receiver_check
import receiver_schema
import receiver_wire as wire
import truth

VERSION = [(receiver_check.VERSION_KEY, "1")]


def good_request():
    request = receiver_schema.message(receiver_schema.PROFILES_REQUEST)()
    dictionary = request.dictionary
    dictionary.string_table.extend(["", "samples", "count", "cpu", "nanoseconds", "main", "thread.id",
                                    "/bin/x"])
    for table in ("mapping", "location", "function", "link", "attribute", "stack"):
        getattr(dictionary, table + "_table").add()
    dictionary.mapping_table.add(memory_start=0x1000, memory_limit=0x2000, filename_strindex=7)
    dictionary.function_table.add(name_strindex=5)
    dictionary.location_table.add(mapping_index=1, address=0x1800).lines.add(function_index=1)
    dictionary.stack_table.add(location_indices=[1])
    dictionary.link_table.add(trace_id=b"t" * 16, span_id=b"s" * 8)
    dictionary.attribute_table.add(key_strindex=6).value.int_value = 7
    scope = request.resource_profiles.add().scope_profiles.add()
    profile = scope.profiles.add(time_unix_nano=1000, duration_nano=100, period=10)
    profile.sample_type.type_strindex, profile.sample_type.unit_strindex = 1, 2
    profile.period_type.type_strindex, profile.period_type.unit_strindex = 3, 4
    profile.samples.add(stack_index=1, link_index=1, attribute_indices=[1],
                        timestamps_unix_nano=[1000, 1099])
    return request


def profile_of(request):
    return request.resource_profiles[0].scope_profiles[0].profiles[0]


def sample_of(request):
    return profile_of(request).samples[0]


def repeat(request, table):
    entries = getattr(request.dictionary, table)
    entries.append(entries[1]) if table == "string_table" else entries.add().CopyFrom(entries[1])


FAULTS = {
    "no zero string": lambda r: r.dictionary.string_table.__setitem__(0, "x"),
    "no zero link": lambda r: setattr(r.dictionary.link_table[0], "trace_id", bytes(16)),
    "empty table": lambda r: r.dictionary.ClearField("mapping_table"),
    "string twice": lambda r: repeat(r, "string_table"),
    "location twice": lambda r: repeat(r, "location_table"),
    "orphaned string": lambda r: r.dictionary.string_table.append("unused"),
    "orphaned link": lambda r: r.dictionary.link_table.add(trace_id=b"u" * 16, span_id=b"u" * 8),
    "stack out of range": lambda r: setattr(sample_of(r), "stack_index", 2),
    "negative link": lambda r: setattr(sample_of(r), "link_index", -1),
    "attribute out of range": lambda r: sample_of(r).attribute_indices.append(9),
    "key twice": lambda r: sample_of(r).attribute_indices.append(1),
    "short trace id": lambda r: setattr(r.dictionary.link_table[1], "trace_id", b"t"),
    "time before the window": lambda r: sample_of(r).timestamps_unix_nano.append(999),
    "time at the end": lambda r: sample_of(r).timestamps_unix_nano.append(1100),
    "values of another number": lambda r: sample_of(r).values.extend([1]),
    "no values and no times": lambda r: sample_of(r).ClearField("timestamps_unix_nano"),
    "two shapes": lambda r: profile_of(r).samples.add(stack_index=1, values=[1]),
    "not merged": lambda r: profile_of(r).samples.add().CopyFrom(sample_of(r)),
    "negative line": lambda r: setattr(r.dictionary.location_table[1].lines[0], "line", -1),
    "nameless function": lambda r: r.dictionary.function_table[1].Clear(),
    "mapping upside down": lambda r: setattr(r.dictionary.mapping_table[1], "memory_start", 0x3000),
    "no samples": lambda r: profile_of(r).ClearField("samples"),
    "no profiles": lambda r: r.resource_profiles[0].scope_profiles[0].ClearField("profiles"),
    "no resources": lambda r: r.ClearField("resource_profiles"),
    "payload without format": lambda r: setattr(profile_of(r), "original_payload", b"x"),
    "odd profile id": lambda r: setattr(profile_of(r), "profile_id", b"x"),
}


class Check(unittest.TestCase):
    def test_a_good_request_conforms(self):
        request = good_request()
        self.assertEqual(receiver_check.check(request, VERSION, 100), [])
        sample, = receiver.samples_of(request)
        self.assertEqual(sample.functions(), ["main"])
        self.assertEqual(sample.attributes, {"thread.id": 7})
        self.assertEqual(sample.trace_id, (b"t" * 16).hex())

    def test_each_fault_is_found(self):
        for name, spoil in FAULTS.items():
            with self.subTest(name):
                request = good_request()
                spoil(request)
                self.assertNotEqual(receiver_check.check(request, VERSION, 100), [])

    def test_metadata_and_size(self):
        for metadata in ([("a", "b")], VERSION * 2, [(receiver_check.VERSION_KEY, "01")]):
            self.assertNotEqual(receiver_check.check(good_request(), metadata, 100), [])
        self.assertNotEqual(receiver_check.check(good_request(), VERSION, 4 << 20), [])


class Wire(unittest.TestCase):
    def test_added_attributes_are_stripped(self):
        span = wire.field(1, b"t" * 16) + wire.number_field(6, 300) + wire.field(200, b"?")
        added = wire.field(9, wire.field(1, b"spanprof.samples") +
                           wire.field(2, wire.number_field(3, 5)))
        self.assertEqual(wire.strip_added(span + added), span)
        with self.assertRaises(ValueError):
            wire.strip_added(span + added + wire.field(200, b"?"))

    def test_retry_info(self):
        self.assertEqual(wire.retry_delay(wire.status_details(14, "later", 2.5)), 2.5)
        self.assertIsNone(wire.retry_delay(wire.number_field(1, 14)))


class Judge(unittest.TestCase):
    RECORDS = [{"type": "on", "tid": 1, "trace_id": "a", "span_id": "b", "from": 10**9, "to": 2 * 10**9},
               {"type": "off", "tid": 1, "from": 2 * 10**9, "to": 3 * 10**9}]

    def sample(self, time, key, tid=1):
        sample = receiver.Sample()
        sample.trace_id, sample.span_id = key
        sample.times, sample.values, sample.attributes = [time], [], {"thread.id": tid}
        return sample

    def test_links(self):
        none = (None, None)
        verdict = truth.judge(self.RECORDS, [
            self.sample(15 * 10**8, ("a", "b")), self.sample(15 * 10**8, none),
            self.sample(15 * 10**8, ("a", "c")), self.sample(25 * 10**8, none),
            self.sample(25 * 10**8, ("a", "b")), self.sample(10**9, none),
            self.sample(10**9, ("a", "b")), self.sample(10**9, ("a", "c")),
            self.sample(5 * 10**9, none), self.sample(15 * 10**8, none, tid=2)])
        self.assertEqual((verdict.right, verdict.missing, verdict.wrong), (1, 1, 1))
        self.assertEqual(verdict.at_edges, 1)
        self.assertEqual((verdict.outside, verdict.outside_linked), (2, 1))

    def test_tolerance(self):
        self.assertAlmostEqual(truth.tolerance(1, 1000), 0.01)
        self.assertAlmostEqual(truth.tolerance(0.5, 900), 0.11)


if __name__ == "__main__":
    harness.main()

# SPDX-License-Identifier: Apache-2.0
"""What `spanprof limits` promises: the sums of the default configuration, and that each store has its row."""
import os
import re
import subprocess
import tempfile
import unittest

BINARY = os.environ["SPANPROF_BINARY"]
SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
SHIPPED = os.path.join(SOURCE, "config", "spanprof.yaml")
MIB = 1 << 20
SERVICE_MAX, MEMORY_MAX = 512 * MIB, 768 * MIB
# Keys of memory or disk that bound no store: sizes of one message, a file that is rotated.
NO_STORE = {"otlp::protocols.grpc.max_recv_msg_size_mib",  # in the request at work
            "history::max_size_mib",                       # a part of sqlite_storage::max_size_mib
            "file::rotation.max_megabytes"}


def limits(*flags):
    """{group: {what: (bytes, key)}}; the sums stand under "= ..."."""
    text = subprocess.run([BINARY, "limits", *flags], check=True, capture_output=True, text=True).stdout
    groups, group = {}, None
    for line in text.splitlines():
        row = re.match(r" *(\d+)  (.*?) {2,}(\S*)$", line)
        if row:
            groups[group][row[2]] = (int(row[1]), row[3])
        elif line:
            group = line
            groups[group] = {}
        else:
            group = "sum"
            groups.setdefault(group, {})
    return groups


def memory_keys():
    """type::key of each key that is given in MiB, from docs/configuration.md."""
    keys, component = set(), None
    with open(os.path.join(SOURCE, "docs", "configuration.md")) as file:
        for line in file:
            heading = re.match(r"### (\w+)", line)
            row = re.match(r"\| `([\w.]+)` \| MiB", line)
            component = heading[1] if heading else component
            if row:
                keys.add("%s::%s" % (component, row[1]))
    return keys


class Limits(unittest.TestCase):
    def test_sums_of_the_default(self):
        groups = limits("--config", SHIPPED)
        service = groups["service"]
        total = sum(size for what, (size, _) in service.items() if not what.startswith("="))
        self.assertEqual(service["= service"][0], total)
        self.assertLessEqual(total, SERVICE_MAX)
        memory = groups["sum"]["= memory of all processes and the kernel"][0]
        self.assertLessEqual(memory, MEMORY_MAX)
        self.assertGreater(memory, total + 100 * MIB)

    def test_each_key_has_its_row(self):
        keys = memory_keys()
        self.assertIn("join::max_recent_mib", keys)
        declared = {key for group in limits("--config", SHIPPED).values() for _, key in group.values()}
        self.assertEqual(keys - NO_STORE - declared, set())
        self.assertEqual(declared - keys - {""}, set())

    def test_follows_the_configuration(self):
        before = limits("--config", SHIPPED)["service"]
        after = limits("--config", SHIPPED, "--set", "processors.join.max_recent_mib=100", "--set",
                       "receivers.otlp.protocols.http.max_request_body_size=104857600")["service"]
        what = "spans that have samples"
        self.assertEqual(after[what][0], 100 * MIB)
        self.assertNotEqual(before[what][0], 100 * MIB)
        self.assertEqual(after["the request at work"][0], 300 * MIB)

    def test_what_is_not_used_takes_nothing(self):
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            file.write("receivers: {otlp: {protocols: {grpc: }}}\nexporters: {nop: }\n"
                       "service: {pipelines: {traces: {receivers: [otlp], exporters: [nop]}}}\n")
            file.flush()
            groups = limits("--config", file.name)
        self.assertNotIn("pages: a flame graph", groups["service"])
        self.assertNotIn("requests being sent", groups["service"])
        self.assertNotIn("samples that are not read yet", groups["BPF maps and perf buffers"])

    def test_profiles_of_others(self):
        self.assertIn("profiles of others that wait for spans, recent spans",
                      limits("--config", SHIPPED, "--set", "service.pipelines.profiles.receivers=[otlp, sampler]")
                      ["service"])


if __name__ == "__main__":
    unittest.main()

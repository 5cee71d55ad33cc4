# SPDX-License-Identifier: Apache-2.0
"""Every published context, by every TLS model and libc: all samples in spans carry what was published."""
import unittest

import harness
import publishing

LIBCS = [libc for libc in ("glibc", "musl") if not publishing.why_not(libc)]
LINKED = ("local_exec", "linked_initial_exec", "linked_general_dynamic", "linked_tlsdesc")
LATE = ("general_dynamic", "tlsdesc", "tlsdesc_large")


@harness.needs_sampling
@unittest.skipUnless(LIBCS, "no compiler for the publishers")
class Matrix(publishing.PublishersTest):
    def setUp(self):
        super().setUp()
        self.sp = self.spanprof(over=publishing.OVER)
        self.sp.wait_sampling()

    def run_all(self):
        publishing.run(self.publishers)
        self.stop_spanprof(self.sp)
        self.assert_conforming()

    def check_all(self, expected):
        self.run_all()
        for publisher in self.publishers:
            with self.subTest(publisher.label):
                self.assert_all_right(publisher, expected)

    def test_otel_thread_context(self):
        for libc in LIBCS:
            for name in LINKED:
                self.publish(publishing.Publisher(libc, name, ["otel"]))
            for model in LATE:
                self.publish(publishing.late(libc, "otel_" + model))
        self.check_all(lambda record: record["attributes"])

    def test_otel_variants(self):
        libc = LIBCS[0]
        for options in (("--schema", "tls_v1"), ("--mapping", "memfd"), ("--mapping", "anon"),
                        ("--late-keys",), ("--then", "fork"), ("--then", "exec")):
            self.publish(publishing.Publisher(libc, "local_exec", ["otel"], *options))
        self.publish(publishing.late(libc, "otel_tlsdesc_large", "--late-keys"))
        self.check_all(lambda record: record["attributes"])


if __name__ == "__main__":
    harness.main()

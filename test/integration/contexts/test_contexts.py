# SPDX-License-Identifier: Apache-2.0
"""Every published context, by every TLS model and libc: all samples in spans carry what was published."""
import collections
import os
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))
import harness  # noqa: E402
import publishing  # noqa: E402

LIBCS = [libc for libc in ("glibc", "musl") if not publishing.why_not(libc)]
LINKED = ("local_exec", "static", "static_pie", "linked_initial_exec", "linked_general_dynamic",
          "linked_tlsdesc")
LATE = ("general_dynamic", "tlsdesc", "tlsdesc_large")


@harness.needs_sampling
@unittest.skipUnless(LIBCS, "no compiler for the publishers")
class Matrix(publishing.PublishersTest):
    def setUp(self):
        super().setUp()
        self.sp = self.spanprof(over=publishing.OVER)
        self.sp.wait_sampling()
        self.senders = set()

    def run_all(self):
        self.senders.add(self.sp.service)
        publishing.run(self.publishers)
        self.stop_when_delivered(self.sp)
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
            self.publish(publishing.late(libc, "otel_tlsdesc_large", program="late_no_pie"))
        self.check_all(lambda record: record["attributes"])

    def test_otel_variants(self):
        libc = LIBCS[0]
        for options in (("--schema", "tls_v1"), ("--mapping", "memfd"), ("--mapping", "anon"),
                        ("--late-keys",), ("--then", "fork"), ("--then", "exec")):
            self.publish(publishing.Publisher(libc, "local_exec", ["otel"], *options))
        self.publish(publishing.late(libc, "otel_tlsdesc_large", "--late-keys"))
        self.check_all(lambda record: record["attributes"])


    def test_elastic(self):
        for libc in LIBCS:
            for model in LATE:
                self.publish(self.elastic(libc, model))
        self.run_all()
        for publisher in self.publishers:
            with self.subTest(publisher.label):
                self.assert_all_right(publisher, of_elastic)
                self.assert_told(publisher)
                self.assert_service(publisher, "elastic-service", "elastic")
                registration, = self.heard(publisher, "registration")
                self.assertTrue(20 <= registration["delay_ms"] <= 10000, registration)
                self.assertEqual(publisher.of("strange"), [])

    def heard(self, publisher, kind):
        """From our spanprof: others may run here and tell it too."""
        self.senders.add(self.sp.service)
        return [record for record in publisher.of(kind) if record["sender"] in self.senders]

    def elastic(self, libc, model, *options):
        socket = os.path.join(self.directory, "%s-%s.sock" % (libc, model))
        return publishing.late(libc, "elastic_" + model, "--service", "elastic-service", "--socket",
                               socket, "--linger-ms", int(1000 * publishing.SETTLE_S), *options)

    def assert_told(self, publisher, deaf=(0, 0)):
        """The agent has heard of the very samples that were exported; but for some of those taken while it
        could not be told: deaf, seconds since the epoch."""
        told, exported, must = collections.Counter(), collections.Counter(), collections.Counter()
        for message in self.heard(publisher, "cpu"):
            told[message["trace_id"], message["root_id"], message["stack_id"]] += message["count"]
        for sample in publishing.own_samples(publisher, self.backend.samples()):
            if sample.attributes.get("spanprof.context.source") == "elastic":
                key = (sample.trace_id, sample.attributes["spanprof.local_root.span_id"],
                       sample.attributes["spanprof.stack.id"])
                exported[key] += sample.count()
                must[key] += sum(not deaf[0] <= moment / 1e9 <= deaf[1] for moment in sample.times)
        print("%s: told of %d samples, exported %d, of these while deaf %d" % (
            publisher.label, told.total(), exported.total(), (exported - must).total()))
        self.assertGreater(must.total(), 20)
        self.assertEqual(must - told, collections.Counter())
        self.assertEqual(told - exported, collections.Counter())

    def assert_service(self, publisher, name, source):
        resources = [s.resource for s in publishing.own_samples(publisher, self.backend.samples())
                     if s.key() != (None, None)]
        self.assertEqual({r.get("service.name") for r in resources}, {name})
        self.assertEqual({r.get("spanprof.service.name.source") for r in resources}, {source})

    def test_elastic_is_registered_with_again_after_a_restart(self):
        cpu_ms = 12000 if harness.SANITIZE else 8000
        publisher = self.publish(self.elastic(LIBCS[0], "tlsdesc", "--cpu-ms", cpu_ms, "--threads", 1))
        harness.wait_until(lambda: self.heard(self.go_on(publisher), "cpu"), 20, "the agent hears of samples")
        self.assertEqual(len(self.heard(publisher, "registration")), 1)
        deaf_from = time.time()
        self.stop_spanprof(self.sp)
        before = self.heard(publisher, "cpu")
        self.sp.start()
        harness.wait_until(lambda: len(self.heard(publisher, "registration")) > 1,
                           20, "registered with again")
        deaf_to = time.time()
        harness.wait_until(lambda: len(self.heard(publisher, "cpu")) > len(before),
                           10, "the agent hears of samples again")
        self.run_all()
        self.assertEqual(len(self.heard(publisher, "registration")), 2)
        self.assert_told(publisher, (deaf_from, deaf_to))

    def go_on(self, publisher):
        publisher.release_next(time.monotonic())
        return publisher

    def test_custom_labels(self):
        for libc in LIBCS:
            self.publish(publishing.Publisher(libc, "labels_local_exec", ["labels"]))
            self.publish(publishing.Publisher(libc, "labels_symtab", ["labels"]))
            self.publish(publishing.Publisher(libc, "linked_labels", ["labels"]))
            self.publish(publishing.late(libc, "libcustomlabels_tlsdesc"))
        self.check_all(of_labels)


def of_elastic(record):
    return {"spanprof.context.source": "elastic", "spanprof.local_root.span_id": record["root_id"]}


def of_labels(record):
    return {"spanprof.context.source": "custom_labels",
            "process.context.label.route": record["attributes"]["route"]}


def of_obi(_):
    return {"spanprof.context.source": "obi"}


def of_otel(record):
    return dict(record["attributes"], **{"spanprof.context.source": "otel_thread"})


def in_root_pid_namespace():
    return os.readlink("/proc/self/ns/pid") == "pid:[4026531836]"


@harness.needs_sampling
@unittest.skipUnless(LIBCS, "no compiler for the publishers")
@unittest.skipUnless(in_root_pid_namespace(), "OBI's map is keyed by ids of the root PID namespace")
class Precedence(publishing.PublishersTest):
    """With OBI's map in a bpffs of its own, there before spanprof."""

    def setUp(self):
        super().setUp()
        self.bpffs = os.path.join(self.directory, "bpf")
        os.mkdir(self.bpffs)
        if subprocess.run(["mount", "-t", "bpf", "none", self.bpffs]).returncode:
            self.skipTest("cannot mount a bpffs")
        self.addCleanup(subprocess.run, ["umount", "-l", self.bpffs])
        self.map = os.path.join(self.bpffs, "traces_ctx_v1")

    def publish_all(self, sources, expected, *options):
        known = {"otel": publishing.source_of(LIBCS[0], "otel_tlsdesc"),
                 "elastic": publishing.source_of(LIBCS[0], "elastic_tlsdesc"),
                 "labels": publishing.source_of(LIBCS[0], "libcustomlabels_tlsdesc"),
                 "obi": "obi=" + self.map}
        publisher = publishing.Publisher(LIBCS[0], "late", [known[source] for source in sources],
                                         *options, label=" ".join([*sources, *options]))
        self.publish(publisher).expected = expected

    def test_first_that_gives_ids(self):
        self.publish_all(["otel", "elastic", "labels", "obi"], of_otel)
        self.publish_all(["otel", "elastic", "labels", "obi"], of_elastic, "--silent")
        self.publish_all(["elastic", "labels", "obi"], of_elastic)
        self.publish_all(["elastic", "labels", "obi"], of_labels, "--silent")
        self.publish_all(["labels", "obi"], of_labels)
        self.publish_all(["labels", "obi"], of_obi, "--silent")
        self.publish_all(["obi"], of_obi)
        for publisher in self.publishers:
            publisher.first("ready")
        over = harness.merge({"receivers": {"sampler": {"contexts": {"obi_map": self.map}}}},
                             publishing.OVER)
        spanprof = self.spanprof(over=over)
        spanprof.wait_sampling()
        publishing.run(self.publishers)
        self.stop_when_delivered(spanprof)
        self.assert_conforming()
        for publisher in self.publishers:
            with self.subTest(publisher.label):
                self.assert_all_right(publisher, publisher.expected)


if __name__ == "__main__":
    harness.main()

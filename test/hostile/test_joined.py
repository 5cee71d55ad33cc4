# SPDX-License-Identifier: Apache-2.0
"""What is remembered of spans that have samples: neither many processes of one span nor many spans with large Resources
cost the others anything."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
import neighbour  # noqa: E402
from neighbour import harness  # noqa: E402
import traced  # noqa: E402
import tracing  # noqa: E402

MIB = 1 << 20
SECONDS = 60 if neighbour.FULL else 3
ALONE_SECONDS = 15 if neighbour.FULL else 2
PROCESSES = 24  # more than a span may have
MAX_RECENT_MIB = 1
MAX_STORE_MIB = 64
WORK_S = 0.5


@harness.needs_sampling
class Joined(tracing.TracingTest):
    def setUp(self):
        super().setUp()
        self.node = self.spanprof(over={
            "processors": {"join": {"wait": "%ds" % tracing.WAIT_S, "max_recent_mib": MAX_RECENT_MIB}}})
        self.node.wait_sampling()

    def assert_harmless(self, tenant, alone_s, victim, ids):
        """The tenant's requests are as fast as before. The victim's span is looked at in the end."""
        times = victim.work(ids, WORK_S)
        victim.send(self.node.http_address, ids, tracing.PAYMENTS, times)
        self.sent.append(ids)
        self.assert_unharmed(tenant, alone_s, tenant.run(SECONDS))

    def large_resources_of_many_spans(self, tenant, alone_s, victim):
        attacker = self.attack("rotate", self.node.http_address)
        harness.wait_until(lambda: self.node.metric("spanprof_join_recent_spans_evicted_total"), 60,
                           "its share is full")
        self.assert_harmless(tenant, alone_s, victim, traced.new_ids())
        metrics = self.node.metrics()
        attacker.stop()
        self.assertLess(metrics["spanprof_join_recent_spans_bytes"], MAX_RECENT_MIB * MIB)
        self.assertLess(metrics["spanprof_store_size_bytes"], MAX_STORE_MIB * MIB)

    def many_processes_of_one_span(self, tenant, alone_s, victim):
        """They all work on the span that they were sent, and name it in one request after the other."""
        ids = traced.new_ids()
        attacker = self.attack("claims", self.node.http_address, PROCESSES, ids["trace"], ids["span"])
        harness.wait_until(lambda: self.node.metric("spanprof_join_samples_total", 'result="too_many_processes"'), 30,
                           "more processes than a span may have")
        self.assert_harmless(tenant, alone_s, victim, ids)
        self.assertIsNone(attacker.processes[0].poll())
        attacker.stop()
        self.assertGreater(self.node.metric("spanprof_join_spans_matched_total"), 10000)

    def test_attacks(self):
        """One after the other, beside one tenant and one victim."""
        victim, tenant, self.sent = self.victim(), self.tenant(self.node), []
        alone_s = tenant.run(ALONE_SECONDS)
        for attack in (self.large_resources_of_many_spans, self.many_processes_of_one_span):
            with self.subTest(attack.__name__):
                attack(tenant, alone_s, victim)
        tenant.stop()
        for ids in self.sent:
            self.assert_joined(ids, WORK_S, tracing.PAYMENTS)
        self.assert_arrived(tenant)


if __name__ == "__main__":
    harness.main()

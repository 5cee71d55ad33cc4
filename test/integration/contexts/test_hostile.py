# SPDX-License-Identifier: Apache-2.0
"""Programs that publish garbage, or what belongs to others: no wrong ids, no harm."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))
import harness  # noqa: E402
import sender  # noqa: E402
import truth  # noqa: E402
from harness import FREQUENCY  # noqa: E402

SECONDS = 12


@harness.needs_sampling
class Hostile(harness.IntegrationTest):
    def setUp(self):
        super().setUp()
        self.sp = self.spanprof(over={"processors": {"join": {"wait": "3s"}}})
        self.sp.wait_sampling()

    def links_by_mode(self, hostile, samples):
        """mode -> (samples, links that the thread never had)."""
        found = {}
        for thread in hostile.of("thread"):
            allowed = {tuple(ids) for ids in thread["allowed"]} | {(None, None)}
            own = [s for s in samples if s.attributes.get("thread.id") == thread["tid"]]
            wrong = {s.key() for s in own} - allowed
            right = {s.key() for s in own} & allowed - {(None, None)}
            found[thread["mode"]] = (truth.count(own), wrong, right)
        return found

    def assert_unharmed(self):
        self.assertEqual(self.sp.metric("spanprof_process_restarts_total"), 0,
                         "nothing had to be started again")
        sender.GrpcSender(self.sp.grpc_address).send(sender.request_of(3)[0])

    def test_garbage_in_threads(self):
        good = self.read_workload(self.sp, "--duty", "50", "--seconds", SECONDS - 3,
                                  endpoint=self.sp.http_address)
        hostile = self.workload(SECONDS, program="workload_hostile").wait()
        good.wait()
        self.assert_unharmed()
        (span_id, record), = good.spans().items()
        self.backend.wait(lambda: self.backend.span(span_id), 15, "the good span is forwarded")
        self.stop_spanprof(self.sp, 10)
        found = self.links_by_mode(hostile, self.backend.samples())
        print({mode: (n, len(right)) for mode, (n, _, right) in found.items()})
        for mode, (n, wrong, _) in found.items():
            self.assertGreater(n, 50, mode)
            self.assertEqual(wrong, set(), mode)
        self.assertEqual(len(found["changing"][2]), 2)
        self.assertEqual(len(found["whole"][2]), 1)
        self.assert_cpu_of(record, self.backend.span(span_id))
        self.assert_conforming()

    def assert_cpu_of(self, record, span):
        wall_s = (record["end"] - record["start"]) / 1e9
        duty = record["cpu_ns"] / 1e9 / wall_s
        limit = truth.tolerance(duty, FREQUENCY * wall_s)
        self.assertLessEqual(abs(span.cpu_ns / record["cpu_ns"] - 1), limit)

    def test_garbage_in_the_process_context(self):
        hostile = self.workload("--process", SECONDS - 4, program="workload_hostile").wait()
        self.assert_unharmed()
        body, ids = sender.request_of(3)
        sender.GrpcSender(self.sp.grpc_address).send(body)
        self.backend.wait(lambda: set(ids) <= {s.span_id for s in self.backend.spans()}, 10,
                          "spans are forwarded")
        self.stop_spanprof(self.sp)
        (n, wrong, _), = self.links_by_mode(hostile, self.backend.samples()).values()
        self.assertGreater(n, 50)
        self.assertEqual(wrong, set())
        self.assert_conforming()

    def test_an_impostor_is_not_joined(self):
        victim = self.read_workload(self.sp, "--duty", "40", "--seconds", SECONDS,
                                    endpoint=self.sp.http_address)
        start = victim.first("start")
        impostor = self.workload("--mode", "claim", "--claim", "%s:%s" % (
            start["trace_id"], start["span_id"]), "--duty", "80", "--service", "impostor",
            "--seconds", SECONDS - 4)
        impostor.wait()
        victim.wait()
        (span_id, record), = victim.spans().items()
        self.backend.wait(lambda: self.backend.span(span_id), 15, "the victim's span is forwarded")
        self.backend.wait(lambda: any(s.span_id == span_id and s.resource.get("service.name") !=
                                      "workload" for s in self.backend.samples()), 15,
                          "the impostor's samples are exported with their Link")
        self.assert_cpu_of(record, self.backend.span(span_id))
        self.stop_spanprof(self.sp)
        tids = {r["tid"] for r in victim.of("on")}
        claimed = [s for s in self.backend.samples() if s.span_id == span_id and
                   s.attributes.get("thread.id") not in tids]
        self.assertGreater(truth.count(claimed), 100)
        for sample in claimed:
            self.assertNotIn("span.name", sample.attributes)
            self.assertNotEqual(sample.resource.get("service.instance.id"),
                                victim.first("process")["instance"])
        self.assert_conforming()


if __name__ == "__main__":
    harness.main()

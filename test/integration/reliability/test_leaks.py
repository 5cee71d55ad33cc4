# SPDX-License-Identifier: Apache-2.0
"""A minute of everything; then no process has leaked, by LeakSanitizer in a sanitized build and by the
size of the processes in any."""
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))
import harness  # noqa: E402
import sender  # noqa: E402


class Leaks(harness.IntegrationTest):
    def memory(self, spanprof):
        return {harness.comm_of(pid): harness.pss_kib(pid)
                for pid in [spanprof.supervisor, *harness.children_of(spanprof.supervisor)]}

    def go_away_and_come_back(self):
        self.backend.stop()
        time.sleep(2)
        self.backend.start()
        time.sleep(5)

    def test_a_minute_under_load(self):
        sampler = harness.why_no_sampling() is None
        over = {"processors": {"join": {"wait": "2s", "span_totals_ttl": "5s"}}}
        if sampler and not harness.SANITIZE:  # what else runs here must not fill caches meanwhile
            over["receivers"] = {"sampler": {"include": {"executables": ["workload"]}}}
        spanprof = self.spanprof(sampler=sampler, over=over)
        load = sender.Load(spanprof.grpc_address, senders=2, spans=20)
        workloads = [self.workload("--duty", "30,30", "--span-ms", 5, "--seconds", 55,
                                   endpoint=spanprof.http_address) for _ in range(2)]
        time.sleep(18)
        self.go_away_and_come_back()  # once before: a backlog going out takes memory of its own
        before = self.memory(spanprof)
        for _ in range(3):
            self.go_away_and_come_back()
        sender.GrpcSender(spanprof.grpc_address).status(b"\xff" * 100)
        for workload in workloads:
            workload.wait()
        after = self.memory(spanprof)
        load.stop()
        print("KiB: %s -> %s" % (before, after))
        if not harness.SANITIZE:
            for name, kib in after.items():
                self.assertLess(kib, before.get(name, kib) + 8192, name)
        self.stop_spanprof(spanprof)
        self.assertEqual(spanprof.reports(), [])
        self.assertEqual(self.backend.violations, [])


if __name__ == "__main__":
    harness.main()

# SPDX-License-Identifier: Apache-2.0
"""Spans that outlive join.wait, a request sent again, and restarts in the middle of a span: the full CPU
time each time."""
import os
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))
import harness  # noqa: E402
import sender  # noqa: E402
import truth  # noqa: E402
from harness import FREQUENCY  # noqa: E402

WAIT = {"processors": {"join": {"wait": "3s"}}}
SECONDS = 300 if harness.SOAK else 20
RESTARTED_SECONDS = 45


@harness.needs_sampling
class LongSpans(harness.IntegrationTest):
    def setUp(self):
        super().setUp()
        self.stolen_s = truth.stolen_s()
        self.sp = self.spanprof(over=WAIT)
        self.sp.wait_sampling()

    def run_span(self, seconds, duty="100"):
        """A workload whose spans this test sends itself."""
        return self.read_workload(self.sp, "--seconds", seconds, "--duty", duty)

    def send(self, workload):
        body = sender.request_of_truth(workload.first("process"), workload.of("span"))
        client = sender.GrpcSender(self.sp.grpc_address)
        client.send(body, timeout=20, wait_for_ready=True)
        client.close()

    def copies(self, record):
        return [s for s in self.backend.spans() if s.span_id == record["span_id"]]

    def wait_copies(self, record, n):
        self.backend.wait(lambda: len(self.copies(record)) >= n, 20, "the span is forwarded")
        return self.copies(record)

    def assert_full(self, record, span, lost_s=0.0):
        self.assertIsNotNone(span.cpu_ns, "the span was not annotated")
        wall_s = (record["end"] - record["start"]) / 1e9
        duty = record["cpu_ns"] / 1e9 / wall_s
        limit = truth.tolerance(duty, FREQUENCY * wall_s) * record["cpu_ns"]
        stolen_s = truth.stolen_s() - self.stolen_s
        print("%.3f s sampled, %.3f s true, %.2f s stolen" % (span.cpu_ns / 1e9, record["cpu_ns"] / 1e9, stolen_s))
        self.assertLessEqual(span.cpu_ns, record["cpu_ns"] + limit + stolen_s * 1e9)
        self.assertGreaterEqual(span.cpu_ns, record["cpu_ns"] - limit - lost_s * 1e9)

    def test_longer_than_the_wait(self):
        workload = self.run_span(SECONDS, "100,40").wait(SECONDS + 30)
        self.send(workload)
        for record in workload.of("span"):
            span = self.wait_copies(record, 1)[0]
            self.assert_full(record, span)
        self.stop_spanprof(self.sp)
        for record in workload.of("span"):
            own = truth.samples_of_span(self.backend.samples(), record["span_id"])
            self.assertEqual(truth.count(own), self.backend.span(record["span_id"]).samples,
                             "each sample is exported once, early ones with their Link alone")
        self.assert_conforming()

    def test_sent_twice(self):
        workload = self.run_span(8).wait()
        record, = workload.of("span")
        self.send(workload)
        self.wait_copies(record, 1)
        time.sleep(6)  # the samples have gone out by now
        self.send(workload)
        first, second = self.wait_copies(record, 2)[:2]
        self.assert_full(record, first)
        self.assertEqual((second.cpu_ns, second.samples, second.stack_ids),
                         (first.cpu_ns, first.samples, first.stack_ids))
        self.stop_spanprof(self.sp)
        own = truth.samples_of_span(self.backend.samples(), record["span_id"])
        self.assertEqual(truth.count(own), first.samples, "no sample is exported twice")

    def test_sent_again_after_restart(self):
        workload = self.run_span(6).wait()
        record, = workload.of("span")
        self.send(workload)
        self.wait_copies(record, 1)
        self.sp.kill_all()
        self.sp.start()
        self.send(workload)
        first, second = self.wait_copies(record, 2)[:2]
        self.assert_full(record, first)
        self.assertEqual((second.cpu_ns, second.samples), (first.cpu_ns, first.samples))

    def test_service_killed_in_mid_span(self):
        workload = self.run_span(16)
        workload.first("start")
        time.sleep(7)
        self.sp.kill_service()
        workload.wait(40)
        record, = workload.of("span")
        self.send(workload)
        # The ring outlives the service; what was taken from it and not yet committed does not.
        self.assert_full(record, self.wait_copies(record, 1)[0], lost_s=0.3 * harness.SLOWNESS)

    def test_restarted_in_mid_span(self):
        """What is not sampled between the end of one and the start of the next fits into the tolerance."""
        workload = self.run_span(RESTARTED_SECONDS)
        workload.first("start")
        time.sleep(RESTARTED_SECONDS / 2)
        self.stop_spanprof(self.sp)
        self.sp.start()
        workload.wait(RESTARTED_SECONDS + 30)
        record, = workload.of("span")
        self.send(workload)
        span = self.wait_copies(record, 1)[0]
        self.stop_spanprof(self.sp)
        times = sorted(time for sample in truth.samples_of_span(self.backend.samples(), record["span_id"])
                       for time in sample.times)
        print("longest time without a sample: %.0f ms" % (
            max(later - earlier for earlier, later in zip(times, times[1:])) / 1e6))
        self.assert_full(record, span)

    def test_killed_whole_in_mid_span(self):
        workload = self.run_span(18)
        workload.first("start")
        time.sleep(7)
        down = time.monotonic()
        self.sp.may_end = True
        os.kill(self.sp.supervisor, signal.SIGKILL)
        self.sp.process.wait()
        harness.wait_until(lambda: not harness.is_listening(self.sp.grpc_port), 10,
                           "the children end with the supervisor")
        self.sp.start()
        self.sp.wait_sampling()
        time.sleep(1)
        lost_s = time.monotonic() - down
        workload.wait(40)
        record, = workload.of("span")
        self.send(workload)
        self.assert_full(record, self.wait_copies(record, 1)[0],
                         lost_s=lost_s + 0.3 * harness.SLOWNESS)


if __name__ == "__main__":
    harness.main()

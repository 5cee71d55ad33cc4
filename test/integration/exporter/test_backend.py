# SPDX-License-Identifier: Apache-2.0
"""A backend that is away, slow, refusing, or without profiles."""
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))
import harness  # noqa: E402
import sender  # noqa: E402
import truth  # noqa: E402


class Faults(harness.IntegrationTest):
    def send(self, spanprof, n=10):
        body, ids = sender.request_of(n)
        sender.GrpcSender(spanprof.grpc_address).send(body)
        return set(ids)

    def wait_forwarded(self, ids, timeout=20):
        self.backend.wait(lambda: ids <= {s.span_id for s in self.backend.spans()}, timeout,
                          "the spans are forwarded")

    def test_away_and_back(self):
        spanprof = self.spanprof(sampler=False)
        ids = self.send(spanprof)
        self.wait_forwarded(ids)
        self.backend.stop()
        for _ in range(20):
            ids |= self.send(spanprof)
            time.sleep(0.1)
        self.backend.start()
        self.wait_forwarded(ids)
        self.assertEqual(len(self.backend.spans()), len(ids), "each once")

    def test_unavailable_is_tried_again_with_growing_pauses(self):
        spanprof = self.spanprof(sampler=False, over={"exporters": {"otlp_grpc": {
            "retry_on_failure": {"initial_interval": "200ms", "max_interval": "2s",
                                 "multiplier": 2, "randomization_factor": 0.2}}}})
        self.backend.fault("traces", "UNAVAILABLE", count=4)
        ids = self.send(spanprof)
        self.wait_forwarded(ids)
        times = [request.time for request in self.backend.requests("traces", taken=False)]
        self.assertEqual(len(times), 5)
        pauses = [later - earlier for earlier, later in zip(times, times[1:])]
        for pause, expected in zip(pauses, (0.2, 0.4, 0.8, 1.6)):
            self.assertGreater(pause, expected * 0.75, pauses)
            self.assertLess(pause, expected * 1.25 + 0.3 * harness.SLOWNESS, pauses)

    def test_the_servers_delay_is_kept(self):
        spanprof = self.spanprof(sampler=False)
        self.backend.fault("traces", "RESOURCE_EXHAUSTED", count=1, retry_info_s=3)
        self.wait_forwarded(self.send(spanprof))
        refused, taken = self.backend.requests("traces", taken=False)
        self.assertGreaterEqual(taken.time - refused.time, 2.9)

    def test_what_is_final_is_given_up(self):
        spanprof = self.spanprof(sampler=False)
        for code in ("RESOURCE_EXHAUSTED", "INVALID_ARGUMENT", "PERMISSION_DENIED"):
            self.backend.fault("traces", code, count=1)
            self.send(spanprof)
            self.backend.wait(lambda: self.backend.received[-1:] and
                              self.backend.received[-1].status == code, 10, code)
        self.backend.clear_faults()
        ids = self.send(spanprof)
        self.wait_forwarded(ids)
        time.sleep(2)
        self.assertEqual({s.span_id for s in self.backend.spans()}, ids)
        self.assertEqual(len(self.backend.requests("traces", taken=False)), 4)

    def test_a_slow_backend_is_waited_for(self):
        spanprof = self.spanprof(sampler=False)
        self.backend.fault("traces", None, seconds=4, delay_s=1.5)
        ids = self.send(spanprof) | self.send(spanprof)
        self.wait_forwarded(ids)
        self.assertEqual(len(self.backend.spans()), len(ids), "each once")

    def test_no_answer_within_the_timeout_is_tried_again(self):
        spanprof = self.spanprof(sampler=False, over={"exporters": {"otlp_grpc": {
            "timeout": "500ms"}}})
        self.backend.fault("traces", "UNAVAILABLE", count=1, delay_s=3)
        ids = self.send(spanprof)
        self.wait_forwarded(ids)

    @harness.needs_sampling
    def test_a_backend_without_profiles(self):
        """Traces go on; one line says what to do about it."""
        self.start_backend(profiles=False)
        spanprof = self.spanprof()
        spanprof.wait_sampling()
        workload = self.read_workload(spanprof, "--duty", "100", "--seconds", 12, "--span-ms", 3000,
                                      endpoint=spanprof.http_address).wait()
        self.wait_forwarded(set(workload.spans()))
        time.sleep(6)
        lines = [line for line in spanprof.log().splitlines() if "service.profilesSupport" in line]
        self.assertEqual(len(lines), 1, lines)
        for span_id, record in workload.spans().items():
            duration_ns = record["end"] - record["start"]
            missing = truth.tolerance(record["cpu_ns"] / duration_ns, harness.FREQUENCY * duration_ns / 1e9)
            self.assertGreater(self.backend.span(span_id).cpu_ns, (1 - missing) * record["cpu_ns"])
        more = self.send(spanprof)
        self.wait_forwarded(more)

    @harness.needs_sampling
    def test_profiles_wait_for_the_backend(self):
        spanprof = self.spanprof()
        spanprof.wait_sampling()
        self.backend.stop()
        workload = self.read_workload(spanprof, "--duty", "100", "--seconds", 4,
                                      endpoint=spanprof.http_address).wait()
        time.sleep(8)
        self.backend.start()
        record, = workload.of("span")
        self.wait_forwarded({record["span_id"]})
        expected = self.backend.span(record["span_id"]).samples
        self.backend.wait(lambda: truth.count(truth.samples_of_span(
            self.backend.samples(), record["span_id"])) >= expected, 15, "the samples come too")
        self.assert_conforming()


if __name__ == "__main__":
    harness.main()

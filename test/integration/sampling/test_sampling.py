# SPDX-License-Identifier: Apache-2.0
"""Less is more: filters, sampling by chance, and a rate that keeps within a budget of CPU time."""
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))
import harness  # noqa: E402
import truth  # noqa: E402

FILTERED = "spanprof_samples_filtered_total"
FREQUENCY = "spanprof_sampling_frequency_hz"


@harness.needs_sampling
class Sampling(harness.IntegrationTest):
    def start(self, **sampler):
        self.sp = self.spanprof(over={"receivers": {"sampler": sampler}})
        return self.sp

    def run_span(self, seconds):
        """One span over all the time of a busy thread: its truth, and as it came out."""
        program = self.read_workload(self.sp, "--seconds", seconds, "--duty", 100, "--span-ms", 0,
                                     "duty", endpoint=self.sp.http_address)
        program.wait()
        (span_id, record), = program.spans().items()
        self.backend.wait(lambda: self.backend.span(span_id), 20, "the span is forwarded")
        return program, record, self.backend.span(span_id)

    def assert_cpu_time(self, record, span, frequency, lost_ns=0):
        wall_s = (record["end"] - record["start"]) / 1e9
        duty = record["cpu_ns"] / 1e9 / wall_s
        self.assertIsNotNone(span.cpu_ns, record)
        self.assertLessEqual(abs(span.cpu_ns / record["cpu_ns"] - 1),
                             truth.tolerance(duty, frequency * wall_s) + lost_ns / record["cpu_ns"], record)

    def test_filters(self):
        self.start(include={"executables": ["workload", "workload_labels"]},
                   exclude={"executables": ["workload_labels"], "pids": [1]})
        out = self.workload(60000, "colour=blue", program="workload_labels")
        out.first("ready")
        out.process.send_signal(10)  # SIGUSR1: go
        program, record, span = self.run_span(2)
        self.assert_cpu_time(record, span, harness.FREQUENCY)
        harness.wait_until(lambda: self.sp.metric(FILTERED, 'by="executable"') > 0, 10,
                           "samples are filtered by executable")
        self.assertGreater(self.sp.metric(FILTERED, 'by="not_included"'), 0)
        self.assertEqual(self.sp.metric(FILTERED, 'by="pid"'), 0)
        self.assertEqual(self.sp.metric("spanprof_samples_lost_total"), 0)
        self.stop_spanprof(self.sp)
        self.assertGreater(len(self.backend.samples(program.pid)), 0)
        self.assertEqual({sample.resource["process.executable.name"]
                          for sample in self.backend.samples()}, {"workload"})
        self.assert_conforming()

    def test_probability(self):
        self.start(probability=0.0001)  # a node in ten thousand
        self.assertEqual(self.sp.metric("spanprof_sampling_active"), 0)
        self.assertEqual(self.sp.metric("spanprof_sampling_intervals_total", "off"), 1)
        record, span = self.run_span(1.5)[1:]
        self.assertGreater(record["cpu_ns"], 0)
        self.assertIsNone(span.cpu_ns)
        self.assertEqual(self.sp.metric("spanprof_samples_total"), 0)

    def test_budget(self):
        """Far too much at first: the rate goes down, and CPU time stays true on the way."""
        self.start(frequency=997, max_cpu_percent=0.01)
        harness.wait_until(lambda: self.sp.metric(FREQUENCY) < 997, 15, "the rate is lowered")
        record, span = self.run_span(5)[1:]
        lowest = self.sp.metric(FREQUENCY)
        self.assertGreater(self.sp.metric("spanprof_tick_nanoseconds_total"), 100000)
        self.assertGreaterEqual(self.sp.metric("spanprof_sampling_frequency_reductions_total"), 2)
        self.assertIn("max_cpu_percent is 0.01: sampling less often", self.sp.log())  # that is: not at 997 Hz
        self.stop_spanprof(self.sp)
        periods = {sample.period for sample in self.backend.samples() if min(sample.times) <= record["end"]}
        self.assertGreaterEqual(len(periods), 3)
        self.assertLessEqual(max(periods), int(1e9 / lowest))
        # A period that has begun is lost when the rate changes, and the last one when the span ends.
        self.assert_cpu_time(record, span, lowest, lost_ns=sum(periods))
        self.assert_conforming()

    def test_all_by_default(self):
        self.start()
        self.sp.wait_sampling()
        time.sleep(1)
        self.assertEqual(self.sp.metric(FILTERED), 0)
        self.assertEqual(self.sp.metric("spanprof_sampling_active"), 1)
        self.assertEqual(self.sp.metric(FREQUENCY), harness.FREQUENCY)
        self.assertEqual(self.sp.metric("spanprof_tick_nanoseconds_total"), 0)


if __name__ == "__main__":
    harness.main()

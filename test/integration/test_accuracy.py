# SPDX-License-Identifier: Apache-2.0
"""Every sample at the right span, and CPU time that is true: known work on a real kernel."""
import time

import harness
import truth
from harness import FREQUENCY

SECONDS = 30
SUM_LIMIT = 0.03 if harness.SANITIZE else 0.01  # sanitizers' own work crowds the workload out
LEAD_MS = 1500  # a new process is known to the sampler after this


@harness.needs_sampling
class Accuracy(harness.IntegrationTest):
    def run_workload(self, spanprof, *arguments, seconds, **options):
        return self.workload("--lead-ms", LEAD_MS, "--seconds", seconds, *arguments,
                             endpoint=spanprof.http_address, **options)

    def all_forwarded(self, workload):
        """What came out of spanprof for the workload's spans, once all are there."""
        wanted = set(workload.spans())
        self.assertTrue(wanted, "the workload had no spans")
        self.backend.wait(lambda: wanted <= {s.span_id for s in self.backend.spans()}, 20,
                          "all spans of the workload are forwarded")
        return {span.span_id: span for span in self.backend.spans() if span.span_id in wanted}

    def assert_links(self, workload):
        least = 0.9 * FREQUENCY * sum(r["cpu_ns"] for r in workload.spans().values()) / 1e9
        verdict = truth.judge(workload.records, self.backend.samples())
        print("links: %s" % verdict)
        self.assertGreater(verdict.published(), least, verdict)
        self.assertGreaterEqual(verdict.share(), 0.99, verdict)
        self.assertEqual(verdict.outside_linked, 0, verdict)
        return verdict

    def assert_cpu_time(self, record, span):
        wall_s = (record["end"] - record["start"]) / 1e9
        duty = record["cpu_ns"] / 1e9 / wall_s
        limit = truth.tolerance(duty, FREQUENCY * wall_s)
        self.assertIsNotNone(span.cpu_ns, "span %s has no CPU time" % record)
        error = span.cpu_ns / record["cpu_ns"] - 1
        self.assertLessEqual(abs(error), limit, "CPU %.1f ms instead of %.1f ms, duty %.2f" % (
            span.cpu_ns / 1e6, record["cpu_ns"] / 1e6, duty))

    def test_cpu_time_of_spans_and_in_sum(self):
        spanprof = self.spanprof()
        spanprof.wait_sampling()
        workload = self.run_workload(spanprof, "--duty", "100,50,30", "--span-ms", 5000,
                                     seconds=SECONDS).wait(SECONDS + 30)
        forwarded = self.all_forwarded(workload)
        self.stop_spanprof(spanprof)
        for span_id, record in workload.spans().items():
            if record["end"] - record["start"] > 4e9:
                self.assert_cpu_time(record, forwarded[span_id])
        true_ns = sum(record["cpu_ns"] for record in workload.spans().values())
        sampled_ns = sum(span.cpu_ns or 0 for span in forwarded.values())
        print("sum: %.3f s sampled, %.3f s true" % (sampled_ns / 1e9, true_ns / 1e9))
        self.assertLessEqual(abs(sampled_ns / true_ns - 1), SUM_LIMIT)
        self.assert_links(workload)
        self.assert_samples(workload, forwarded)
        self.assert_windows()
        self.assert_conforming()

    def assert_samples(self, workload, forwarded):
        """What samples say of themselves, of their span and of their process."""
        process = workload.first("process")
        samples = self.backend.samples()
        by_function = {}
        for span_id, record in workload.spans().items():
            own = truth.samples_of_span(samples, span_id)
            by_function.setdefault(record["function"], []).extend(own)
            self.assertEqual(truth.count(own), forwarded[span_id].samples or 0)
            ids = {sample.attributes.get("spanprof.stack.id") for sample in own}
            for stack_id in forwarded[span_id].stack_ids:
                self.assertRegex(stack_id, "^[0-9a-f]{32}$")
                self.assertIn(stack_id, ids)
            for sample in own:
                self.assert_sample(sample, record, process)
        for function, own in by_function.items():
            share = truth.share_with_function(own, function)
            print("%s: in %.1f %% of its samples" % (function, 100 * share))
            self.assertGreaterEqual(share, 0.95, function)

    def assert_sample(self, sample, record, process):
        self.assertEqual((sample.type, sample.unit), ("samples", "count"))
        self.assertEqual(sample.period, 1000000000 // FREQUENCY)
        attributes = sample.attributes
        self.assertEqual(attributes["span.name"], record["name"])
        self.assertEqual(attributes["http.route"], "/workload")
        self.assertIn("span.kind", attributes)
        self.assertIn("spanprof.context.source", attributes)
        self.assertEqual(attributes["thread.id"], record["tid"])
        self.assertEqual(attributes["thread.name"], "workload")
        self.assertGreaterEqual(attributes["cpu.logical_number"], 0)
        self.assertEqual(sample.resource["service.name"], process["service"])
        self.assertEqual(sample.resource["service.instance.id"], process["instance"])
        self.assertEqual(sample.resource["process.pid"], process["pid"])

    def assert_windows(self):
        times = [request.time for request in self.backend.requests("profiles")]
        self.assertGreaterEqual(len(times), SECONDS // 5 - 1)
        gaps = [later - earlier for earlier, later in zip(times, times[1:])]
        self.assertLess(max(gaps), 7 * harness.SLOWNESS, "profiles go out every 5 s")

    def test_many_short_spans_with_gaps(self):
        spanprof = self.spanprof()
        spanprof.wait_sampling()
        workload = self.run_workload(spanprof, "--duty", "100,100", "--span-ms", 2, "--gap-ms", 1,
                                     seconds=8).wait()
        self.all_forwarded(workload)
        self.stop_spanprof(spanprof)
        verdict = self.assert_links(workload)
        self.assertGreater(verdict.outside, 50, "samples between spans are exported too")
        self.assert_conforming()

    def test_nested_spans_and_pool(self):
        spanprof = self.spanprof()
        spanprof.wait_sampling()
        nested = self.run_workload(spanprof, "--mode", "nested", "--duty", "100", "--span-ms", 3000,
                                   seconds=9).wait()
        pool = self.run_workload(spanprof, "--mode", "pool", "--duty", "90,90", seconds=6).wait()
        forwarded = {**self.all_forwarded(nested), **self.all_forwarded(pool)}
        self.stop_spanprof(spanprof)
        self.assert_links(nested)
        self.assert_links(pool)
        for span_id, record in {**nested.spans(), **pool.spans()}.items():
            if record["cpu_ns"] > 0.8e9:
                wall = max(record["cpu_ns"], 1)
                error = abs(forwarded[span_id].cpu_ns / record["cpu_ns"] - 1)
                self.assertLessEqual(error, truth.tolerance(0.9, FREQUENCY * wall / 1e9), record)
        parent = next(r for r in pool.spans().values() if r["name"] == "parent")
        self.assertLess(forwarded[parent["span_id"]].cpu_ns or 0, 50e6,
                        "what children used is not their parent's")
        self.assert_conforming()

    def test_without_context(self):
        spanprof = self.spanprof(over={"processors": {"join": {"wait": "60s"}}})
        spanprof.wait_sampling()
        workload = self.workload("--mode", "none", "--duty", "100", "--seconds", 4)
        tid = workload.first("off", 20)["tid"]
        self.backend.wait(lambda: truth.count(
            s for s in self.backend.samples() if s.attributes.get("thread.id") == tid) > 100, 15,
            "samples without context do not wait for a span")
        verdict = truth.judge(workload.records, self.backend.samples())
        self.assertEqual(verdict.outside_linked, 0, verdict)
        own = [s for s in self.backend.samples() if s.attributes.get("thread.id") == tid]
        self.assertGreaterEqual(truth.share_with_function(own, "burn_alpha"), 0.95)
        self.assert_conforming()

    def test_a_new_process_is_known_soon(self):
        """The first span of a process has all but the time in which the process was found."""
        spanprof = self.spanprof()
        spanprof.wait_sampling()
        time.sleep(2)
        workload = self.workload("--seconds", 4, endpoint=spanprof.http_address).wait()
        forwarded = self.all_forwarded(workload)
        (span_id, record), = workload.spans().items()
        missing_s = (record["cpu_ns"] - (forwarded[span_id].cpu_ns or 0)) / 1e9
        print("not known for %.3f s" % missing_s)
        self.assertLess(missing_s, 1.0 * harness.SLOWNESS)


if __name__ == "__main__":
    harness.main()

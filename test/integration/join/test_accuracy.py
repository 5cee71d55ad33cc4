# SPDX-License-Identifier: Apache-2.0
"""Every sample at the right span, and CPU time that is true: known work on a real kernel."""
import os
import resource
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))
import harness  # noqa: E402
import truth  # noqa: E402
from harness import FREQUENCY  # noqa: E402

SECONDS = 30
DUTIES = (100, 30, 20)  # together less than two CPUs: spanprof and the backend need some of them too
SUM_LIMIT = 0.01
SECONDS_WITHOUT = 4
MISSING_WITHOUT = 0.227  # 300 samples in 4 s
FED = 0.95  # a workload that got less of the CPU time that it asked for was crowded out


def ended_children_cpu_s():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@harness.needs_sampling
class Accuracy(harness.IntegrationTest):
    def run_workload(self, spanprof, *arguments, seconds, **options):
        return self.read_workload(spanprof, "--seconds", seconds, *arguments,
                                  endpoint=spanprof.http_address, **options)

    def all_forwarded(self, workload):
        """What came out of spanprof for the workload's spans, once all are there."""
        wanted = set(workload.spans())
        self.assertTrue(wanted, "the workload had no spans")
        self.backend.wait(lambda: wanted <= {s.span_id for s in self.backend.spans()}, 20,
                          "all spans of the workload are forwarded")
        return {span.span_id: span for span in self.backend.spans() if span.span_id in wanted}

    def assert_links(self, workload):
        spans = workload.spans().values()
        cpu_s = sum(r["cpu_ns"] for r in spans) / 1e9
        wall_s = sum(r["end"] - r["start"] for r in spans) / 1e9
        missing = max(0.1, truth.tolerance(cpu_s / wall_s, FREQUENCY * wall_s))
        verdict = truth.judge(workload.records, self.backend.samples())
        print("links: %s" % verdict)
        self.assertGreater(verdict.published() + verdict.at_edges,
                           (1 - missing) * FREQUENCY * cpu_s, verdict)
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
        workload = self.run_workload(spanprof, "--duty", ",".join(map(str, DUTIES)), "--span-ms", 5000,
                                     seconds=SECONDS).wait(SECONDS + 30)
        forwarded = self.all_forwarded(workload)
        self.stop_spanprof(spanprof)
        for span_id, record in workload.spans().items():
            if record["end"] - record["start"] > 4e9:
                self.assert_cpu_time(record, forwarded[span_id])
        self.assert_sum(workload, forwarded)
        self.assert_links(workload)
        self.assert_samples(workload, forwarded)
        self.assert_windows()
        self.assert_conforming()

    def share_got(self, workload, asked_s):
        """Of the CPU time that the workload's spans asked for."""
        return min(sum(r["cpu_ns"] for r in workload.spans().values()) / 1e9 / asked_s, 1)

    def assert_sum(self, workload, forwarded):
        """Where other programs crowd the workload out, each time it is put off counts as an end of its duty."""
        share = self.share_got(workload, SECONDS * sum(DUTIES) / 100)
        true_ns = sum(record["cpu_ns"] for record in workload.spans().values())
        sampled_ns = sum(span.cpu_ns or 0 for span in forwarded.values())
        print("sum: %.3f s sampled, %.3f s true, %.0f %% of what was asked for" % (
            sampled_ns / 1e9, true_ns / 1e9, 100 * share))
        limit = SUM_LIMIT if share >= FED else truth.tolerance(share, FREQUENCY * true_ns / 1e9 / share)
        self.assertLessEqual(abs(sampled_ns / true_ns - 1), limit)

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
        self.assert_near(nested, forwarded, self.share_got(nested, 9))
        self.assert_near(pool, forwarded, self.share_got(pool, 2 * 0.9 * 6))
        parent = next(r for r in pool.spans().values() if r["name"] == "parent")
        self.assertLess(forwarded[parent["span_id"]].cpu_ns or 0, 50e6,
                        "what children used is not their parent's")
        self.assert_conforming()

    def assert_near(self, workload, forwarded, share):
        """At a duty of 90 %, or less where the workload was crowded out."""
        for span_id, record in workload.spans().items():
            if record["cpu_ns"] > 0.8e9:
                error = abs(forwarded[span_id].cpu_ns / record["cpu_ns"] - 1)
                ticks = FREQUENCY * record["cpu_ns"] / 1e9 / share
                self.assertLessEqual(error, truth.tolerance(0.9 * share, ticks), record)

    def test_without_context(self):
        spanprof = self.spanprof(over={"processors": {"join": {"wait": "60s"}}})
        spanprof.wait_sampling()
        before_s = ended_children_cpu_s()
        workload = self.workload("--mode", "none", "--duty", "100", "--seconds", SECONDS_WITHOUT)
        tid = workload.first("off", 20)["tid"]
        workload.wait()
        cpu_s = min(ended_children_cpu_s() - before_s, SECONDS_WITHOUT)
        missing = max(MISSING_WITHOUT, truth.tolerance(cpu_s / SECONDS_WITHOUT,
                                                       FREQUENCY * SECONDS_WITHOUT))
        least = (1 - missing) * FREQUENCY * cpu_s
        self.backend.wait(lambda: truth.count(
            s for s in self.backend.samples() if s.attributes.get("thread.id") == tid) > least, 15,
            "%.0f samples without context, which do not wait for a span" % least)
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

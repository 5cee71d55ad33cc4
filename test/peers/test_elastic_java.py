# SPDX-License-Identifier: Apache-2.0
"""Elastic's own Java agents: what they write on their spans (`elastic.profiler_stack_trace_ids`) against
the samples that spanprof exports."""
import base64
import collections
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "integration", "support"))
import harness  # noqa: E402
import apm_server  # noqa: E402
import elastic_agents  # noqa: E402

FREQUENCY = 97
ATTRIBUTE = "elastic.profiler_stack_trace_ids"
WINDOW_S = 7  # exported samples come each 5 s
OFF = 0.02  # of the samples, between what agent and spanprof say


def stack_ids(values):
    """As exported samples have them, each as often as the agent has it."""
    return collections.Counter(base64.urlsafe_b64decode(value + "==").hex() for value in values)


class ElasticJava(harness.IntegrationTest):
    def setUp(self):
        super().setUp()
        if harness.why_no_sampling():
            self.skipTest(harness.why_no_sampling())
        self.java = None
        self.addCleanup(lambda: self.java and self.java.close())

    def command(self, what):
        """What it gives; skips without."""
        try:
            return what()
        except elastic_agents.Missing as reason:
            self.skipTest(str(reason))

    def start(self, command, environment, join_wait="10s", java=None):
        self.profiler = self.spanprof(over={
            "receivers": {"sampler": {"frequency": FREQUENCY}}, "processors": {"join": {"wait": join_wait}}})
        if environment.get("OTEL_EXPORTER_OTLP_ENDPOINT") == "":
            environment["OTEL_EXPORTER_OTLP_ENDPOINT"] = "http://" + self.profiler.grpc_address
        self.java = elastic_agents.Java(command, environment, self.directory, java)
        self.meet()

    def elastic_samples(self):
        return self.profiler.metric("spanprof_intake_samples_total", 'context="elastic"')

    def meet(self):
        """Until the agent is known, and its threads' spans as well."""
        before = self.elastic_samples()
        harness.wait_until(lambda: self.java.serve(2, 1, 100) and self.elastic_samples() > before and
                           self.profiler.metric("spanprof_elastic_sockets") > 0, 60,
                           "samples with Elastic's context, and a socket of the agent")

    def samples_of(self, requests):
        """By (trace, local root), those of these requests."""
        roots = {(request.trace_id, request.root): [] for request in requests}
        for sample in self.backend.samples():
            key = sample.trace_id, sample.attributes.get("spanprof.local_root.span_id")
            if key in roots:
                roots[key].append(sample)
        return roots

    def strangers(self):
        """Others that profile this node: they would tell the agent of its samples, too."""
        ours = harness.children_of(self.profiler.supervisor)
        return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc")))
                if pid not in ours and harness.comm_of(pid) == "spanprof-svc"]

    def serve_alone(self, *how):
        for _ in range(20):
            try:
                harness.wait_until(lambda: not self.strangers(), 120, "others end")
            except TimeoutError:
                break
            served = self.java.serve(*how)
            if not self.strangers():
                return served
        self.skipTest("another spanprof runs on this node")

    def serve(self, requests=8, milliseconds=500, threads=1, virtual=False):
        served = self.serve_alone(threads, requests, milliseconds, virtual)
        ticks = sum(request.cpu_ns for request in served) * FREQUENCY / 1e9
        least = 0.9 * ticks if not virtual else (
            0.2 * threads * requests * milliseconds * FREQUENCY / 1000)  # CPU time is not known
        self.backend.wait(lambda: self.count(served) >= least, 60, "%d samples" % least)
        count = 0
        while count < self.count(served):  # the last of them come with a later window
            count = self.count(served)
            time.sleep(WINDOW_S)
        return served

    def count(self, served):
        return sum(sample.count() for samples in self.samples_of(served).values() for sample in samples)

    def check(self, served, written):
        """written: root's span id -> the agent's stack ids on it."""
        exported = {sample.attributes.get("spanprof.stack.id") for sample in self.backend.samples()}
        total = off = children = 0
        for request in served:
            samples = self.samples_of([request])[request.trace_id, request.root]
            ours = collections.Counter()
            for sample in samples:
                self.assertEqual(sample.attributes["spanprof.context.source"], "elastic")
                self.assertIn(sample.span_id, (request.root, request.child))
                children += sample.count() * (sample.span_id == request.child)
                ours[sample.attributes["spanprof.stack.id"]] += sample.count()
            theirs = stack_ids(written(request.root))
            self.assertEqual(set(theirs) - exported, set(), "not ids of exported stacks")
            total += sum(ours.values())
            off += sum(((ours - theirs) + (theirs - ours)).values())
        print("%d requests, %d samples, %d of the child spans, off by %d; lost: %s" % (
            len(served), total, children, off, {
                key: value for key, value in self.profiler.metrics().items()
                if "elastic_samples_lost" in key and value}))
        self.assertGreater(total, 0)
        self.assertLessEqual(off, OFF * total)
        self.assertAlmostEqual(children / total, 0.25, delta=0.12)
        self.assert_conforming()


class OtelAgent(ElasticJava):
    """The agent's spans come to us, and go on to the backend."""

    def start_mode(self, mode, java=None):
        command = self.command(elastic_agents.otel_command)
        self.start(command, {
            "OTEL_EXPORTER_OTLP_ENDPOINT": "", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
            "OTEL_METRICS_EXPORTER": "none", "OTEL_LOGS_EXPORTER": "none", "OTEL_SERVICE_NAME": "shop",
            "OTEL_BSP_SCHEDULE_DELAY": "200",
            "ELASTIC_OTEL_UNIVERSAL_PROFILING_INTEGRATION_ENABLED": mode}, java=java)

    def written(self, root):
        return self.backend.span(root).attributes.get(ATTRIBUTE, [])

    def serve_and_check(self, **how):
        served = self.serve(**how)
        self.backend.wait(lambda: all(self.backend.span(request.root) for request in served), 30,
                          "the requests' spans")
        self.check(served, self.written)
        for request in served:
            root = self.backend.span(request.root)
            samples = self.samples_of([request])[request.trace_id, request.root]
            own = sum(sample.count() for sample in samples if sample.span_id == request.root)
            self.assertEqual(root.samples or 0, own)
            self.assertTrue(all(sample.resource.get("service.name") == "shop" for sample in samples))

    def test_switched_on(self):
        self.start_mode("true")
        self.serve_and_check()

    def test_auto(self):
        """It writes ids only after our registration."""
        self.start_mode("auto")
        self.serve_and_check()

    def test_restarts(self):
        self.start_mode("auto")
        self.serve_and_check()
        before = self.profiler.metric("spanprof_elastic_registrations_total")
        self.profiler.kill_service()
        harness.wait_until(lambda: self.profiler.metric("spanprof_elastic_registrations_total") > before,
                           30, "a registration by the next service")
        self.meet()
        self.serve_and_check()
        self.stop_spanprof(self.profiler)
        self.profiler.start()
        self.meet()
        self.serve_and_check()

    def test_virtual_threads(self):
        self.start_mode("true", self.command(elastic_agents.java_with_virtual_threads))
        self.serve_and_check(requests=6, milliseconds=300, threads=2, virtual=True)


class ApmAgent(ElasticJava):
    """The classic agent sends its spans to an APM server, so there the two sides meet in this test."""

    def setUp(self):
        super().setUp()
        self.server = apm_server.ApmServer()
        self.addCleanup(self.server.stop)

    def written(self, root):
        return self.server.transaction(root).get("otel", {}).get("attributes", {}).get(ATTRIBUTE, [])

    def test_switched_on(self):
        command = self.command(elastic_agents.apm_command)
        self.start(command, {
            "ELASTIC_APM_SERVER_URL": self.server.url, "ELASTIC_APM_SERVICE_NAME": "shop",
            "ELASTIC_APM_UNIVERSAL_PROFILING_INTEGRATION_ENABLED": "true",
            "ELASTIC_APM_API_REQUEST_TIME": "1s", "ELASTIC_APM_CLOUD_PROVIDER": "NONE",
            "ELASTIC_APM_METRICS_INTERVAL": "0s", "ELASTIC_APM_SPAN_COMPRESSION_ENABLED": "false",
            "ELASTIC_APM_BREAKDOWN_METRICS": "false"}, join_wait="3s")
        served = self.serve()
        self.backend.wait(lambda: all(self.server.transaction(request.root) and
                                      self.server.span(request.child) for request in served), 30,
                          "the requests' transactions and spans")
        self.check(served, self.written)


if __name__ == "__main__":
    harness.main()

# SPDX-License-Identifier: Apache-2.0
"""Datadog's tracer for Node.js, as it is on npm, and the writers of contexts that it had before: tasks that take turns,
on a main thread and on a worker, against what they did."""
import os
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(os.path.dirname(HERE), "integration", "support"), os.path.join(HERE, "sdk")]
import harness  # noqa: E402
import publishing  # noqa: E402
import sdk_clients  # noqa: E402
import stacks  # noqa: E402

SOURCES = os.path.join(HERE, "datadog", "node")
FOLDER = os.path.join(harness.SOURCE, "build", "peers", "datadog_node")
FREQUENCY = 997
SAMPLES = 5000  # in spans, of each version at the least
REQUESTS = 60
ROOT_KEY = "datadog.local_root_span_id"
# Node.js 22 keeps contexts where they can be read if it is asked to.
FLAGS = {"node22": ["--experimental-async-context-frame"]}
ENVIRONMENT = {"DD_TRACE_OTEL_CTX_ENABLED": "true", "DD_SERVICE": "dd-shop", "DD_TRACE_STARTUP_LOGS": "false",
               "DD_INSTRUMENTATION_TELEMETRY_ENABLED": "false", "DD_REMOTE_CONFIGURATION_ENABLED": "false",
               "DD_TRACE_AGENT_URL": "http://127.0.0.1:1", "OTEL_TRACES_EXPORTER": "otlp",
               "DD_TRACE_RATE_LIMIT": "100000"} # it would not send more than 100 traces a second


def install():
    """Raises sdk_clients.Missing."""
    sdk_clients.need("npm")
    os.makedirs(FOLDER, exist_ok=True)
    for name in ("package.json", "package-lock.json", "spans.js"):
        with open(os.path.join(SOURCES, name), "rb") as source, open(os.path.join(FOLDER, name), "wb") as copy:
            copy.write(source.read())
    if not os.path.exists(os.path.join(FOLDER, "node_modules", "dd-trace")):
        sdk_clients.run(["npm", "ci", "--no-audit", "--no-fund"], cwd=FOLDER)


def unix_offset_ns():
    """Of the wall clock from the monotonic one, by the reading that took least."""
    readings = []
    for _ in range(1000):
        before, unix, after = time.monotonic_ns(), time.time_ns(), time.monotonic_ns()
        readings.append((after - before, unix - (before + after) // 2))
    return min(readings)[1]


@harness.needs_sampling
class Datadog(publishing.PublishersTest):
    def setUp(self):
        super().setUp()
        try:
            install()
        except sdk_clients.Missing as reason:
            self.skipTest(str(reason))

    def judge(self, node, publisher):
        spanprof = self.spanprof(over={"receivers": {"sampler": {"frequency": FREQUENCY,
                                                                         "include": {"executables": ["node"]}}},
                                       "processors": {"join": {"wait": "4s"}}})
        program = os.path.join(FOLDER, "node_modules", node, "bin", "node")
        stacks.wait_sampling(spanprof, lambda: subprocess.run(
            [program, "-e", "for (const end = Date.now() + 200; Date.now() < end;);"], check=True))
        peer = self.publish(publishing.Peer(
            "%s, %s" % (node, publisher),
            [program, *FLAGS.get(node, []),
             os.path.join(FOLDER, "spans.js"), str(REQUESTS), publisher],
            OTEL_EXPORTER_OTLP_TRACES_ENDPOINT="http://%s/v1/traces" % spanprof.http_address, **ENVIRONMENT))
        offset_ns = unix_offset_ns()
        publishing.run([peer], 120)
        for record in peer.of("on") + peer.of("off"):
            record["from"], record["to"] = record["from"] + offset_ns, record["to"] + offset_ns
        self.stop_when_delivered(spanprof)
        verdict = publishing.judge(peer, self.backend.samples(), self.expected)
        print("%s: %s; early %d, spoilt %d" % (peer.label, verdict, verdict.early, verdict.spoilt), flush=True)
        self.assertGreater(verdict.published(), SAMPLES)
        self.assertGreaterEqual(verdict.share(), 0.99)
        self.assertEqual(verdict.wrong, 0)
        self.assertEqual(verdict.outside_linked, 0)
        self.assertGreater(verdict.outside, 500)
        self.assertEqual(len({record["tid"] for record in peer.of("on")}), 2)
        in_spans = [s for s in publishing.own_samples(peer, self.backend.samples()) if s.key() != (None, None)]
        self.assertEqual({s.resource.get("service.name") for s in in_spans}, {"dd-shop"})
        return peer

    def expected(self, record):
        return {"spanprof.context.source": "otel_nodejs", ROOT_KEY: record["root_id"]}

    def assert_spans(self, peer):
        """Each span that was sent has the CPU time that it burned, on the whole."""
        burned = {}
        for record in peer.of("on"):
            burned[record["span_id"]] = burned.get(record["span_id"], 0) + record["to"] - record["from"]
        spans = {span.span_id: span.cpu_ns or 0 for span in self.backend.spans()}
        joined = sum(spans.get(span_id, 0) for span_id in burned)
        print("%d spans, %d of them did not come; they took %.2f s, and have %.2f s of CPU" % (
            len(burned), len(set(burned) - set(spans)), sum(burned.values()) / 1e9, joined / 1e9), flush=True)
        self.assertLessEqual(set(burned), set(spans))
        self.assertGreater(joined, 0.9 * SAMPLES / FREQUENCY * 1e9)

    def test_node_22(self):
        self.assert_spans(self.judge("node22", "dd-trace"))

    def test_node_24(self):
        self.assert_spans(self.judge("node24", "dd-trace"))

    def test_node_26(self):
        self.assert_spans(self.judge("node26", "dd-trace"))

    def test_a_writer_that_publishes_the_slot(self):
        for node in ("node22", "node24"):
            self.judge(node, "pprof-5.19")

    def test_a_writer_whose_record_has_an_owner(self):
        for node in ("node22", "node24"):
            self.judge(node, "pprof-5.18")


if __name__ == "__main__":
    harness.main()

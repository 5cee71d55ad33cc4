# SPDX-License-Identifier: Apache-2.0
"""Pyroscope is given what is scraped, by itself and by Alloy, and has what the pages have.

SPANPROF_PYROSCOPE names it, SPANPROF_ALLOY an Alloy; else they are pyroscope and alloy in build/peers/go/bin or in
PATH; without, it is not asked.
"""
import base64
import json
import os
import subprocess
import sys
import time
import unittest
import urllib.error
import urllib.parse
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "integration", "support")]
import go_toolchain  # noqa: E402
import harness  # noqa: E402
import test_pprof  # noqa: E402

ALLOY = go_toolchain.program("alloy", "SPANPROF_ALLOY")
PYROSCOPE = go_toolchain.program("pyroscope", "SPANPROF_PYROSCOPE")
ALLOY_ASKS_EACH_S = 15  # by default, for 14 seconds
ALLOY_CONFIG = """
pyroscope.scrape "spanprof" {
  targets    = [{"__address__" = "localhost:%(port)d", "service_name" = "scraped"}]
  params     = {"service" = ["%(service)s"]}
  forward_to = [pyroscope.write.pyroscope.receiver]
  profiling_config {
%(none)s  }
}
pyroscope.write "pyroscope" {
  endpoint { url = "http://localhost:%(pyroscope_port)d" }
}
"""


@unittest.skipUnless(PYROSCOPE, "no pyroscope")
class Pyroscope(test_pprof.Peer):
    """The server itself is given what is scraped, in both ways that its users have, and has what the pages have."""
    QUERIER = "/querier.v1.QuerierService/"
    CPU, SAMPLES = "process_cpu:cpu:nanoseconds:cpu:nanoseconds", "process_cpu:samples:count:cpu:nanoseconds"
    NODES_MAX = 1 << 20  # so that it leaves nothing out

    def options(self):
        """All in self.directory and on the loopback."""
        self.pyroscope_port, rpc, raft = harness.free_port(), harness.free_port(), harness.free_port()
        at = "127.0.0.1:%d"
        return {"server.http-listen-address": "127.0.0.1", "server.http-listen-port": self.pyroscope_port,
                "server.grpc-listen-address": "127.0.0.1", "server.grpc-listen-port": rpc,
                "memberlist.bind-addr": "127.0.0.1", "memberlist.bind-port": harness.free_port(),
                "memberlist.advertise-addr": "127.0.0.1", "architecture.storage": "v2",
                "metastore.address": at % rpc, "query-backend.address": at % rpc,
                "metastore.raft.bind-address": at % raft, "metastore.raft.advertise-address": at % raft,
                "metastore.raft.server-id": at % raft, "segment-writer.lifecycler.addr": "127.0.0.1",
                "segment-writer.lifecycler.port": rpc, "query-frontend.instance-addr": "127.0.0.1",
                "self-profiling.disable-push": "true", "usage-stats.enabled": "false", "tracing.enabled": "false"}

    def start_pyroscope(self):
        with open(os.path.join(self.directory, "pyroscope.log"), "wb") as log:
            process = subprocess.Popen([PYROSCOPE] + ["-%s=%s" % option for option in self.options().items()],
                                       cwd=self.directory, stdout=log, stderr=log)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)

    def is_ready(self):
        try:
            return self.call("/ready")
        except (urllib.error.URLError, ConnectionError):
            return False

    def call(self, path, body=None, kind="application/json", **parameters):
        """POST if there is a body."""
        url = "http://127.0.0.1:%d%s?%s" % (self.pyroscope_port, path, urllib.parse.urlencode(parameters))
        request = urllib.request.Request(url, data=body, headers={"Content-Type": kind} if body else {})
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.read()

    def query(self, method, **message):
        """Of all times."""
        message.update(start=int(self.range["from_"]) - 60000, end=int(self.range["to"]) + 60000)
        return json.loads(self.call(self.QUERIER + method, json.dumps(message).encode()))

    def merged(self, method="SelectMergeStacktraces", kind=CPU, selector="{}", **more):
        """(all, own by function) of its flame graph: nodes of four numbers, the third their own, the last the name."""
        graph = self.query(method, profileTypeID=kind, labelSelector=selector, maxNodes=str(self.NODES_MAX),
                           **more)["flamegraph"]
        own = {}
        for level in graph.get("levels", []):
            values = [int(value) for value in level["values"]]
            for self_ns, name in zip(values[2::4], values[3::4]):
                if self_ns:
                    own[graph["names"][name]] = own.get(graph["names"][name], 0) + self_ns
        return int(graph.get("total", 0)), own

    def ingest(self, name, pprof):
        """Its older way."""
        self.call("/ingest", pprof, "application/octet-stream", name=name, format="pprof", spyName="spanprof")

    def push(self, name, pprof):
        """That which its agents have."""
        labels = {"__name__": "process_cpu", "service_name": name}
        series = {"labels": [{"name": key, "value": value} for key, value in labels.items()],
                  "samples": [{"rawProfile": base64.b64encode(pprof).decode()}]}
        self.call("/push.v1.PusherService/Push", json.dumps({"series": [series]}).encode())

    def pprof(self, **filters):
        status, _, body = self.ask(test_pprof.PPROF, **filters)
        self.assertEqual(status, 200, body)
        return body

    def test_given(self):
        self.start_pyroscope()
        self.settle()
        harness.wait_until(self.is_ready, 120 * harness.SLOWNESS, "Pyroscope is ready")
        filters = dict(self.range, service=test_pprof.SERVICE)
        self.ingest("ingested", self.pprof(**filters))
        self.push("pushed", self.pprof(**filters))
        for name in ("ingested", "pushed"):
            with self.subTest(name):
                self.check(name, filters)
        self.check_node()

    def check(self, name, filters):
        selector = '{service_name="%s"}' % name
        answer, own = self.functions(**filters)
        self.assertGreater(own[test_pprof.CULPRIT], 0)
        harness.wait_until(lambda: self.merged(selector=selector)[0], 60, "Pyroscope has it")
        total, seen = self.merged(selector=selector)
        self.assertEqual((total, seen[test_pprof.CULPRIT]), (answer["cpu_ns"], own[test_pprof.CULPRIT]))
        if sum(test_pprof.named(own).values()) == total:
            self.assertEqual(seen, test_pprof.named(own))
        self.assertEqual(self.merged(kind=self.SAMPLES, selector=selector)[0],
                         self.json("/api/flame", **filters)["samples"])
        self.check_labels(name, filters)
        self.check_spans(selector)
        print("%s: %.1f s of CPU time, %d functions, most in %s" % (
            name, answer["cpu_ns"] / 1e9, len(own), max(own, key=own.get)), flush=True)

    def check_node(self):
        """It passes over a frame without function, whose time its caller has then, and cuts the type parameters off
        Go's names; so only the sum is the same."""
        self.ingest("node", self.pprof(**self.range))
        selector = '{service_name="node"}'
        harness.wait_until(lambda: self.merged(selector=selector)[0], 60, "Pyroscope has the node")
        self.assertEqual(self.merged(selector=selector)[0], self.json("/api/flame", **self.range)["cpu_ns"])

    def check_labels(self, name, filters):
        """What is no id is a label of its series."""
        for span, ns in self.spans(**filters).items():
            self.assertEqual(self.merged(selector='{service_name="%s", span_name="%s"}' % (name, span))[0], ns)
        both = (name, test_pprof.SERVICE)
        self.assertGreater(self.merged(selector='{service_name="%s", service="%s"}' % both)[0], 0)

    def check_spans(self, selector):
        """Those of one trace, each by its id."""
        slowest = self.json("/api/trace", trace_id=self.traces()[0]["trace_id"])
        self.assertEqual(self.merged(selector=selector, traceIdSelector=[slowest["trace_id"]])[0], slowest["cpu_ns"])
        spans = {span["span_id"]: span["cpu_ns"] for span in slowest["spans"]}
        seen = {span: self.merged("SelectMergeSpanProfile", selector=selector, spanSelector=[span])[0]
                for span in spans}
        self.assertEqual(seen, spans)
        self.assertGreater(max(seen.values()), 0)

    def start_alloy(self):
        """Its pyroscope.scrape as it is by default, but for what only Go programs have."""
        none = "".join("    profile.%s { enabled = false }\n" % kind
                       for kind in ("memory", "block", "goroutine", "mutex"))
        path = os.path.join(self.directory, "config.alloy")
        with open(path, "w") as file:
            file.write(ALLOY_CONFIG % {"port": self.port, "service": test_pprof.SERVICE, "none": none,
                                       "pyroscope_port": self.pyroscope_port})
        with open(os.path.join(self.directory, "alloy.log"), "wb") as log:
            process = subprocess.Popen(
                [ALLOY, "run", "--server.http.listen-addr=127.0.0.1:%d" % harness.free_port(), "--disable-reporting",
                 "--storage.path=" + os.path.join(self.directory, "alloy"), path], stdout=log, stderr=log)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    @unittest.skipUnless(ALLOY, "no alloy")
    def test_scraped_by_alloy(self):
        """Of each trace all or, at the edges of what it asks for, a part."""
        self.start_pyroscope()
        harness.wait_until(self.is_ready, 120 * harness.SLOWNESS, "Pyroscope is ready")
        self.begun = "%d" % (time.time() * 1000)
        alloy = self.start_alloy()
        with self.working():
            time.sleep(4 * ALLOY_ASKS_EACH_S)
        self.settle()
        alloy.kill()  # nothing more comes between the questions
        alloy.wait()
        total, own = self.merged(selector='{service_name="scraped"}')
        self.assertEqual(max(own, key=own.get), test_pprof.CULPRIT)
        kept = {trace["trace_id"]: trace["cpu_ns"] for trace in self.traces(limit=1000)}
        seen = {trace: self.merged(selector='{service_name="scraped"}', traceIdSelector=[trace])[0] for trace in kept}
        self.assertEqual({trace: ns for trace, ns in seen.items() if ns > kept[trace]}, {})
        whole = sum(ns for trace, ns in seen.items() if ns == kept[trace])
        print("%.1f s of CPU time, of %d traces of %.1f s %.1f s, whole ones %.1f s" % (
            total / 1e9, len(kept), sum(kept.values()) / 1e9, sum(seen.values()) / 1e9, whole / 1e9), flush=True)
        self.assertGreater(total, 5 * 10 ** 9)
        self.assertLessEqual(sum(seen.values()), total)
        self.assertGreater(whole, 0.8 * sum(seen.values()))


if __name__ == "__main__":
    harness.main()

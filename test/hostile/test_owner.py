# SPDX-License-Identifier: Apache-2.0
"""Another tenant's spans, and its CPU: a neighbour publishes ids that it was sent, or sends spans with them."""
import concurrent.futures
import json
import os
import sys
import urllib.error
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
import neighbour  # noqa: E402
from neighbour import harness  # noqa: E402
import traced  # noqa: E402
import tracing  # noqa: E402

OWN_PROCESSES = ("--map-root-user", "--pid", "--fork", "--kill-child")
TOKEN = "0123456789abcdef"
SECONDS = 2 if neighbour.FULL else 0.8


def resource_of(service, **more):
    return dict(tracing.PAYMENTS, **{"service.name": service}, **more)


# name -> what the victim says of itself, what the attacker publishes, its namespaces
THEFTS = {
    "publishes ids it was sent": (resource_of("payments"), None, ()),
    "has the same number in a namespace of its own":
        (resource_of("orders", **{"process.pid": 1}), {"service.name": "other"}, OWN_PROCESSES),
    "the Resource names another process": (resource_of("stock", **{"process.pid": 4242}), None, ()),
}


@harness.needs_sampling
class Owner(tracing.TracingTest):
    def setUp(self):
        super().setUp()
        self.pages_port = harness.free_port()
        self.node = self.spanprof(over={
            "processors": {"join": {"wait": "%ds" % tracing.WAIT_S}},
            "extensions": {"pages": {"endpoint": "127.0.0.1:%d" % self.pages_port, "auth": {"token": TOKEN}},
                           "history": {}},
            "service": {"extensions": ["sqlite_storage", "pages", "history"]}})
        self.node.wait_sampling()

    def ask(self, path):
        request = urllib.request.Request("http://127.0.0.1:%d/api/%s" % (self.pages_port, path),
                                         headers={"Authorization": "Bearer " + TOKEN})
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            if error.code != 404:  # a trace that is not kept yet
                raise
            return None

    def shown(self, ids):
        """The span of the trace as the pages show it. Before it is in the history, samples whose wait has ended
        stand in its place (`known` is false)."""
        def known():
            spans = (self.ask("trace?trace_id=" + ids["trace"]) or {"spans": []})["spans"]
            return next((span for span in spans if span["span_id"] == ids["span"] and span["known"]), None)
        return harness.wait_until(known, 15, "the span is shown")

    def assert_not_stolen(self, ids, resource):
        """Nothing of the attacker's is in the span, on the wire or on the pages; its samples have their Link alone."""
        self.assert_not_joined(ids, resource)
        shown = self.shown(ids)
        self.assertEqual((shown["cpu_ns"], shown["samples"]), (0, 0))
        self.assertFalse(shown.get("top_function"))
        for query in ("service=" + resource["service.name"], "trace_id=" + ids["trace"],
                      "trace_id=%(trace)s&span_id=%(span)s" % ids):
            self.assertEqual(self.ask("flame?" + query)["samples"], 0, query)

    def steal_time(self, name):
        """The victim asks the attacker and waits: its span has no CPU time of its own."""
        resource, publish, unshare = THEFTS[name]
        victim = self.victim()
        attacker = self.program(self.neighbour(), publish, unshare)
        ids = traced.new_ids()
        times = attacker.work(ids, SECONDS)
        victim.send(self.node.http_address, ids, resource, times)
        return lambda: self.assert_not_stolen(ids, resource)

    def steal_span(self, _):
        """It was sent the ids and answers with a span of them, before and after the victim's."""
        victim, honest = self.victim(), resource_of("honest")
        attacker = self.program(self.neighbour(), reads=False)
        ids = traced.new_ids()
        times = victim.work(ids, SECONDS)
        fake = dict(honest, **{"process.pid": victim.pid, "service.name": "stolen"})
        attacker.send(self.node.http_address, ids, fake, times, "fake")
        victim.send(self.node.http_address, ids, honest, times)
        attacker.send(self.node.http_address, ids, fake, times, "fake again")
        return lambda: self.assert_kept(ids, honest)

    def assert_kept(self, ids, resource):
        self.assert_joined(ids, SECONDS, resource)
        self.assertIsNone(self.span_of(ids, "fake").cpu_ns)
        self.assertIsNone(self.span_of(ids, "fake again").cpu_ns)
        self.assertEqual({sample.attributes.get("span.name") for sample in self.samples_of(ids)}, {"charge"})
        shown = self.shown(ids)
        self.assertEqual(shown["name"], "charge")
        self.assertGreater(shown["cpu_ns"], 0)
        self.assertEqual(self.ask("flame?service=stolen")["samples"], 0)

    def test_thefts(self):
        """At once, each of a victim of its own."""
        thefts = {**dict.fromkeys(THEFTS, self.steal_time), "sends spans of others": self.steal_span}
        with concurrent.futures.ThreadPoolExecutor(len(thefts)) as pool:
            checks = list(pool.map(lambda name: thefts[name](name), thefts))
        for name, check in zip(thefts, checks):
            with self.subTest(name):
                check()


if __name__ == "__main__":
    harness.main()

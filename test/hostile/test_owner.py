# SPDX-License-Identifier: Apache-2.0
"""Another tenant's spans, and its CPU: a neighbour publishes ids that it was sent, or sends spans with them."""
import json
import os
import sys
import urllib.error
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
import neighbour  # noqa: E402
from neighbour import harness  # noqa: E402
import traced  # noqa: E402

WAIT_S = 3
OWN_PROCESSES = ("--map-root-user", "--pid", "--fork", "--kill-child")
PAYMENTS = {"service.name": "payments", "service.instance.id": "b7c9ab2c-93d3-4f6d-9bd7-0f2ac1d1a001"}
TOKEN = "0123456789abcdef"
SECONDS = 2 if neighbour.FULL else 0.8


@harness.needs_sampling
class Owner(neighbour.HostileTest):
    def setUp(self):
        super().setUp()
        self.pages_port = harness.free_port()
        self.node = self.spanprof(over={
            "processors": {"join": {"wait": "%ds" % WAIT_S}},
            "extensions": {"pages": {"endpoint": "127.0.0.1:%d" % self.pages_port, "auth": {"token": TOKEN}},
                           "history": {}},
            "service": {"extensions": ["sqlite_storage", "pages", "history"]}})
        self.node.wait_sampling()

    def program(self, who, publish=None, unshare=(), reads=True):
        program = traced.Traced(start=lambda command, **options: who.start(*command, unshare=unshare, **options),
                                publish=publish)
        self.addCleanup(program.stop)
        if reads:
            harness.wait_until(lambda: self.node.reads(program.pid), 20, "its context is read")
        return program

    def victim(self, publish=None):
        return self.program(self.neighbour(uid=65531, cpus=os.cpu_count()), publish)

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

    def span_of(self, ids, name="charge"):
        return harness.wait_until(lambda: next((span for span in self.backend.spans()
                                                if span.span_id == ids["span"] and span.name == name), None), 20,
                                  "the span arrives")

    def samples_of(self, ids):
        return harness.wait_until(lambda: [sample for sample in self.backend.samples()
                                           if sample.span_id == ids["span"]], WAIT_S + 12, "its samples arrive")

    def shown(self, ids):
        """The span of the trace as the pages show it. Before it is in the history, samples whose wait has ended
        stand in its place (`known` is false)."""
        def known():
            spans = (self.ask("trace?trace_id=" + ids["trace"]) or {"spans": []})["spans"]
            return next((span for span in spans if span["span_id"] == ids["span"] and span["known"]), None)
        return harness.wait_until(known, 15, "the span is shown")

    def assert_not_stolen(self, ids, resource):
        """Nothing of the attacker's is in the span, on the wire or on the pages; its samples have their Link alone."""
        self.assertIsNone(self.span_of(ids).cpu_ns)
        samples = self.samples_of(ids)
        self.assertEqual({sample.attributes.get("span.name") for sample in samples}, {None})
        self.assertNotIn(resource["service.name"], {sample.resource.get("service.name") for sample in samples})
        shown = self.shown(ids)
        self.assertEqual((shown["cpu_ns"], shown["samples"]), (0, 0))
        self.assertFalse(shown.get("top_function"))
        for query in ("service=" + resource["service.name"], "trace_id=" + ids["trace"],
                      "trace_id=%(trace)s&span_id=%(span)s" % ids):
            self.assertEqual(self.ask("flame?" + query)["samples"], 0, query)

    def attack(self, resource, publish=None, unshare=()):
        """The victim asks the attacker and waits: its span has no CPU time of its own."""
        victim = self.victim()
        attacker = self.program(self.neighbour(), publish, unshare)
        ids = traced.new_ids()
        times = attacker.work(ids, SECONDS)
        victim.send(self.node.http_address, ids, resource, times)
        self.assert_not_stolen(ids, resource)

    def test_publishes_ids_it_was_sent(self):
        self.attack(PAYMENTS)

    def test_has_the_same_number_in_a_namespace_of_its_own(self):
        self.attack(dict(PAYMENTS, **{"process.pid": 1}), {"service.name": "other"}, OWN_PROCESSES)

    def test_the_resource_names_another_process(self):
        self.attack(dict(PAYMENTS, **{"process.pid": 4242}))

    def test_sends_spans_of_others(self):
        """It was sent the ids and answers with a span of them, before and after the victim's."""
        victim = self.victim()
        attacker = self.program(self.neighbour(), reads=False)
        ids = traced.new_ids()
        times = victim.work(ids, SECONDS)
        fake = dict(PAYMENTS, **{"process.pid": victim.pid, "service.name": "stolen"})
        attacker.send(self.node.http_address, ids, fake, times, "fake")
        victim.send(self.node.http_address, ids, PAYMENTS, times)
        attacker.send(self.node.http_address, ids, fake, times, "fake again")
        self.assertGreater(self.span_of(ids).cpu_ns or 0, 0)
        self.assertIsNone(self.span_of(ids, "fake").cpu_ns)
        self.assertIsNone(self.span_of(ids, "fake again").cpu_ns)
        samples = self.samples_of(ids)
        self.assertEqual({sample.attributes.get("span.name") for sample in samples}, {"charge"})
        self.assertEqual({sample.resource.get("service.name") for sample in samples}, {"payments"})
        shown = self.shown(ids)
        self.assertEqual(shown["name"], "charge")
        self.assertGreater(shown["cpu_ns"], 0)
        self.assertEqual(self.ask("flame?service=stolen")["samples"], 0)


if __name__ == "__main__":
    harness.main()

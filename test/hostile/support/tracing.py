# SPDX-License-Identifier: Apache-2.0
"""Programs of a neighbour and of an honest tenant that work on spans, and what became of their spans. A test sets self.node:
a spanprof that samples."""
import os

import neighbour
from neighbour import harness
import traced

WAIT_S = 8  # of the join: by then the victim has sent its span
VICTIM = 65531
PAYMENTS = {"service.name": "payments", "service.instance.id": "b7c9ab2c-93d3-4f6d-9bd7-0f2ac1d1a001"}


class TracingTest(neighbour.HostileTest):
    def program(self, who, publish=None, unshare=(), reads=True):
        program = traced.Traced(start=lambda command, **options: who.start(*command, unshare=unshare, **options),
                                publish=publish)
        self.addCleanup(program.stop)
        if reads:
            harness.wait_until(lambda: self.node.reads(program.pid), 20, "its context is read")
        return program

    def victim(self, publish=None):
        return self.program(self.neighbour(uid=VICTIM, cpus=os.cpu_count()), publish)

    def span_of(self, ids, name="charge"):
        return harness.wait_until(lambda: next((span for span in self.backend.spans()
                                                if span.span_id == ids["span"] and span.name == name), None), 20,
                                  "the span arrives")

    def samples_of(self, ids):
        return harness.wait_until(lambda: [sample for sample in self.backend.samples()
                                           if sample.span_id == ids["span"]], WAIT_S + 12, "its samples arrive")

    def assert_joined(self, ids, seconds, resource):
        """The victim's span has the CPU time of its own process, and its samples are its own."""
        self.assertGreater(self.span_of(ids).cpu_ns or 0, seconds * 0.5e9)
        self.assertLess(self.span_of(ids).cpu_ns, seconds * 1.5e9)
        named = harness.wait_until(lambda: [sample for sample in self.samples_of(ids)
                                            if sample.attributes.get("span.name") == "charge"], WAIT_S + 12,
                                   "samples with its name")
        self.assertEqual({sample.resource.get("service.name") for sample in named}, {resource["service.name"]})

    def assert_not_joined(self, ids, resource):
        """Nothing of an attacker's is in the victim's span; its samples have their Link alone."""
        self.assertIsNone(self.span_of(ids).cpu_ns)
        samples = self.samples_of(ids)
        self.assertEqual({sample.attributes.get("span.name") for sample in samples}, {None})
        self.assertNotIn(resource["service.name"], {sample.resource.get("service.name") for sample in samples})

# SPDX-License-Identifier: Apache-2.0
"""Labels that name a span as known libraries do, or under configured names: joined with the span."""
import os
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))
import harness  # noqa: E402
import sender  # noqa: E402
import truth  # noqa: E402

SETTLE_S = 2.5 * harness.SLOWNESS  # from start to "read"
CPU_MS = 1500
SPAN, TRACE = "spanprof.span_id", "spanprof.trace_id"


def decimal(span_id):
    return int(span_id.hex(), 16)


@harness.needs_sampling
class Labels(harness.IntegrationTest):
    def start(self, **contexts):
        self.sp = self.spanprof(over={"receivers": {"sampler": {"contexts": contexts}},
                                      "processors": {"join": {"wait": "2m"}}})
        self.sp.wait_sampling()

    def run_labelled(self, *sets):
        """Each set in a thread of its own, to its end. Returns their records in this order."""
        words = [word for labels in sets
                 for word in ["--", *("%s=%s" % pair for pair in labels.items())]][1:]
        self.program = self.workload(CPU_MS, *words, program="workload_labels")
        self.program.first("ready")
        time.sleep(SETTLE_S)
        os.kill(self.program.pid, signal.SIGUSR1)
        self.program.wait()
        return sorted(self.program.of("thread"), key=lambda record: record["number"])

    def send_span(self, record, trace_id, span_id):
        request, spans = sender.new_request({"service.name": "labelled",
                                             "process.pid": self.program.pid})
        sender.add_span(spans, "labelled %d" % record["number"], trace_id, span_id,
                        start=record["start"], end=record["end"])
        sender.GrpcSender(self.sp.grpc_address).send(request.SerializeToString())

    def samples_of(self, record):
        return [sample for sample in self.backend.samples()
                if sample.attributes.get("thread.id") == record["tid"]
                and all(record["start"] <= time_ns <= record["end"] for time_ns in sample.times)]

    def assert_joined(self, record, span_id):
        span = self.backend.span(span_id.hex())
        self.assertIsNotNone(span.cpu_ns, record)
        wall_s = (record["end"] - record["start"]) / 1e9
        duty = min(record["cpu_ns"] / 1e9 / wall_s, 1)
        off = abs(span.cpu_ns / record["cpu_ns"] - 1)
        self.assertLessEqual(off, truth.tolerance(duty, harness.FREQUENCY * wall_s), record)
        samples = self.samples_of(record)
        self.assertEqual({sample.attributes.get("spanprof.context.source") for sample in samples},
                         {"custom_labels"})
        self.assertEqual({sample.key() for sample in samples}, {(span.trace_id, span.span_id)})
        self.assertEqual({sample.attributes.get("span.name") for sample in samples}, {span.name})
        return samples

    def test_names_of_libraries_and_configured_ones(self):
        self.start(trace_id_labels=["request trace"], span_id_labels=["request"])
        traces, spans = ([os.urandom(n) for _ in range(5)] for n in (16, 8))
        records = self.run_labelled(
            {"trace_id": traces[0].hex(), "span_id": spans[0].hex(), "colour": "blue"},
            {"local root span id": decimal(spans[0]), "span id": decimal(spans[1])},
            {"otel_traceid": traces[2].hex()},
            {"request trace": traces[3].hex(), "request": spans[3].hex()},
            {"colour": "red", "span_id": "none"},
            {"trace_id": traces[4].hex()[:-1] + "x", "span id": spans[4].hex() + "0"})
        for record, trace_id, span_id in zip(records, traces, spans[:4]):
            self.send_span(record, trace_id, span_id)
        self.backend.wait(lambda: all(self.backend.span(span.hex()) for span in spans[:4]), 15,
                          "the spans are forwarded")
        self.stop_spanprof(self.sp)
        for record, span_id in zip(records, spans[:4]):
            with self.subTest(record["number"]):
                self.assert_joined(record, span_id)
        self.assert_attributes(records[0], {"process.context.label.colour": "blue"})
        self.assert_attributes(records[1], {"spanprof.local_root.span_id": spans[0].hex()})
        for plain in records[4:]:
            self.assertEqual({sample.key() for sample in self.samples_of(plain)}, {(None, None)})
            self.assert_attributes(plain, {"spanprof.context.source": None})
        self.assert_attributes(records[4], {"process.context.label.colour": "red",
                                            "process.context.label.span_id": "none"})
        self.assert_conforming()

    def assert_attributes(self, record, expected):
        samples = self.samples_of(record)
        self.assertGreater(truth.count(samples), 50)
        for sample in samples:
            self.assertEqual({key: sample.attributes.get(key) for key in expected}, expected)

    def test_switched_off(self):
        self.start(custom_labels=False)
        span_id = os.urandom(8)
        record, = self.run_labelled({"span_id": span_id.hex(), "colour": "blue"})
        self.assertEqual(self.sp.metric("spanprof_context_readers", "custom_labels"), 0)
        self.assertEqual(self.sp.metric("spanprof_intake_samples_total", "custom_labels"), 0)
        self.stop_spanprof(self.sp)
        self.assert_attributes(record, {"spanprof.context.source": None, SPAN: None, TRACE: None,
                                        "process.context.label.colour": None})


if __name__ == "__main__":
    harness.main()

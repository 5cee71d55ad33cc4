# SPDX-License-Identifier: Apache-2.0
"""Profiles of another profiler meet the spans that their samples name, whichever comes first."""
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))
import harness  # noqa: E402
import receiver  # noqa: E402
import receiver_schema  # noqa: E402
import sender  # noqa: E402

NOW = 1763730000000000000


class Span:
    """One to be named by samples and sent as a trace."""

    def __init__(self, name="GET /cart", service="shop"):
        self.name, self.service = name, service
        self.trace_id, self.span_id = os.urandom(16), os.urandom(8)

    def request(self):
        request, spans = sender.new_request({"service.name": self.service})
        sender.add_span(spans, self.name, self.trace_id, self.span_id, kind=2,
                        attributes={"http.route": "/cart", "secret": "x"})
        return request.SerializeToString()


class Profile:
    """A request whose samples name spans by Link, or by labels."""

    def __init__(self, service="shop"):
        self.request = receiver_schema.message(receiver_schema.PROFILES_REQUEST)()
        table = self.request.dictionary
        for element in (table.mapping_table, table.location_table, table.function_table,
                        table.link_table, table.attribute_table, table.stack_table):
            element.add()
        table.string_table.extend(["", "samples", "count", "main"])
        table.function_table.add(name_strindex=3)
        table.location_table.add(address=4096).lines.add(function_index=1)
        table.stack_table.add(location_indices=[1])
        resource = self.request.resource_profiles.add()
        sender.set_attribute(resource.resource, "service.name", service)
        self.profile = resource.scope_profiles.add().profiles.add(
            time_unix_nano=NOW, duration_nano=10 ** 9, profile_id=os.urandom(16))
        self.profile.sample_type.type_strindex, self.profile.sample_type.unit_strindex = 1, 2

    def _sample(self):
        sample = self.profile.samples.add(stack_index=1)
        sample.timestamps_unix_nano.append(NOW + len(self.profile.samples))
        return sample

    def alone(self):
        self._sample()
        return self

    def linked(self, span):
        table = self.request.dictionary.link_table
        table.add(trace_id=span.trace_id, span_id=span.span_id)
        self._sample().link_index = len(table) - 1
        return self

    def labelled(self, span, prefix="process.context.label."):
        table, sample = self.request.dictionary, self._sample()
        for key, value in (("trace_id", span.trace_id), ("span_id", span.span_id)):
            table.string_table.append(prefix + key)
            attribute = table.attribute_table.add(key_strindex=len(table.string_table) - 1)
            attribute.value.string_value = value.hex()
            sample.attribute_indices.append(len(table.attribute_table) - 1)
        return self

    def bytes(self):
        return self.request.SerializeToString()


class HeldProfiles(harness.IntegrationTest):
    def start(self, wait="60s"):
        pipelines = {signal: {"receivers": ["otlp"], "processors": ["join"],
                              "exporters": ["otlp_grpc"]} for signal in ("traces", "profiles")}
        self.sp = self.spanprof(sampler=False, over={
            "exporters": {"otlp_grpc": {"sending_queue": {"num_consumers": 1}}},  # in order
            "processors": {"join": {"wait": wait, "span_attributes": ["http.route"]}},
            "service": {"pipelines": pipelines}})

    def send(self, signal, body):
        client = sender.GrpcSender(self.sp.grpc_address, signal=signal)
        client.send(body)
        client.close()

    def outgoing(self):
        return self.backend.requests("profiles")

    def await_samples(self, n, timeout=10):
        self.backend.wait(lambda: len(self.backend.samples()) >= n, timeout, "profiles come out")
        return self.backend.samples()

    def assert_joined(self, sample, span):
        self.assertEqual(sample.attributes.get("span.name"), span.name)
        self.assertEqual(sample.attributes.get("span.kind"), "server")
        self.assertEqual(sample.attributes.get("http.route"), "/cart")
        self.assertNotIn("secret", sample.attributes)
        self.assertEqual((sample.trace_id, sample.span_id),
                         (span.trace_id.hex(), span.span_id.hex()))

    def assert_stays_held(self, n=1):
        time.sleep(1.5)
        self.assertEqual(self.outgoing(), [])
        self.assertEqual(self.sp.metric("spanprof_pending_profiles"), n)

    def test_profile_first(self):
        self.start()
        span = Span()
        self.send("profiles", Profile().linked(span).alone().bytes())
        self.assert_stays_held()
        self.send("traces", span.request())
        linked, alone = self.await_samples(2)
        self.assert_joined(linked, span)
        self.assertEqual(alone.attributes, {})
        self.assertEqual(self.sp.metric("spanprof_profile_spans_total", "joined"), 1)
        self.assertEqual(self.sp.metric("spanprof_pending_profiles"), 0)
        self.backend.wait(lambda: self.backend.spans(), 10, "the span is forwarded")
        self.assertEqual([s.name for s in self.backend.spans()], [span.name])
        self.stop_spanprof(self.sp)

    def test_span_first(self):
        self.start()
        span = Span()
        self.send("traces", span.request())
        self.send("profiles", Profile().linked(span).bytes())
        sample, = self.await_samples(1)
        self.assert_joined(sample, span)
        self.assertEqual(self.sp.metric("spanprof_profile_spans_total", "known"), 1)
        self.stop_spanprof(self.sp)

    def test_named_by_labels(self):
        self.start()
        spans = [Span(), Span("POST /cart")]
        for span in spans:
            self.send("traces", span.request())
        self.send("profiles", Profile().labelled(spans[0]).labelled(spans[1], "").bytes())
        for sample, span in zip(self.await_samples(2), spans):
            self.assert_joined(sample, span)  # with a Link, which they did not have
        self.stop_spanprof(self.sp)

    def test_long_name(self):
        """Cut between characters: a request with half a one would be refused."""
        self.start()
        spans = [Span("n" * 1023 + "ß"), Span("n" * 1023 + "ß")]
        self.send("profiles", Profile().linked(spans[0]).linked(spans[1]).bytes())
        for span in spans:
            self.send("traces", span.request())
        for sample in self.await_samples(2):
            self.assertEqual(sample.attributes.get("span.name"), "n" * 1023)
        self.assert_conforming()
        self.stop_spanprof(self.sp)

    def test_span_that_does_not_come(self):
        self.start(wait="2s")
        spans = [Span(), Span()]
        silent, half = Profile().linked(spans[0]).bytes(), Profile().linked(spans[0]).linked(spans[1])
        self.send("profiles", silent)
        self.send("profiles", half.bytes())
        self.send("traces", spans[1].request())
        samples = self.await_samples(3, 10)
        self.assertEqual(self.outgoing()[0].body, silent)  # as it came
        self.assertEqual([s.attributes.get("span.name") for s in samples], [None, None, "GET /cart"])
        self.assertEqual(self.sp.metric("spanprof_profile_spans_total", "timeout"), 2)
        self.stop_spanprof(self.sp)

    def test_nothing_to_wait_for(self):
        self.start()
        body = Profile().alone().alone().bytes()
        self.send("profiles", body)
        self.await_samples(2, 3)
        self.assertEqual(self.outgoing()[0].body, body)
        self.stop_spanprof(self.sp)

    def test_span_of_another_service(self):
        self.start()
        span, before = Span(service="bank"), Span(service="bank")
        self.send("traces", before.request())
        body = Profile().linked(span).linked(before).bytes()
        self.send("profiles", body)
        self.send("traces", span.request())
        self.await_samples(2)
        self.assertEqual(self.outgoing()[0].body, body)
        self.assertEqual(self.sp.metric("spanprof_profile_spans_total", "not_owner"), 2)
        self.stop_spanprof(self.sp)

    def test_kill(self):
        """Held, and half of what was waited for come, when everything is killed: it goes on."""
        self.start()
        first, second = Span("first"), Span("second")
        self.send("profiles", Profile().linked(first).linked(second).bytes())
        self.send("traces", first.request())
        self.backend.wait(lambda: self.backend.spans(), 10, "the span is forwarded")
        self.sp.kill_all()
        self.sp.start()
        self.assert_stays_held()
        self.send("traces", second.request())
        samples = self.await_samples(2)
        self.assert_joined(samples[0], first)
        self.assert_joined(samples[1], second)
        self.assertEqual(len(self.outgoing()), 1)
        self.stop_spanprof(self.sp)

    def test_captured(self):
        """A request of the OpenTelemetry eBPF profiler (0.0.202634) as it was sent, but for directories' names."""
        with open(os.path.join(harness.SOURCE, "test", "captured", "ebpf_profiler.pb"), "rb") as file:
            body = file.read()
        message = receiver_schema.message(receiver_schema.PROFILES_REQUEST).FromString(body)
        links = [(link.trace_id, link.span_id) for link in message.dictionary.link_table[1:]]
        names = {(trace.hex(), span.hex()): "span %d" % i for i, (trace, span) in enumerate(links)}
        self.assertGreater(len(links), 30)
        request, spans = sender.new_request({"service.name": "shop"})
        for ids, name in zip(links[::2], list(names.values())[::2]):
            sender.add_span(spans, name, *ids)
        late_request, late_spans = sender.new_request({"service.name": "shop"})
        for ids, name in zip(links[1::2], list(names.values())[1::2]):
            sender.add_span(late_spans, name, *ids)
        self.start()
        self.send("traces", request.SerializeToString())
        self.send("profiles", body)
        self.assert_stays_held()
        self.send("traces", late_request.SerializeToString())
        sent = receiver.samples_of(message)
        samples = self.await_samples(len(sent))
        linked = [sample for sample in samples if sample.trace_id]
        self.assertEqual(len(linked), len([sample for sample in sent if sample.trace_id]))
        for before, sample in zip(sent, samples):
            self.assertEqual((before.key(), before.times, before.functions()),
                             (sample.key(), sample.times, sample.functions()))
            self.assertEqual(sample.attributes.get("span.name"), names.get(sample.key()))
        print("%d samples, %d with a Link, to %d spans" % (len(samples), len(linked), len(links)))
        self.stop_spanprof(self.sp)

    def test_stop_and_start(self):
        self.start()
        span = Span()
        self.send("profiles", Profile().linked(span).bytes())
        self.sp.stop()
        self.sp.start()
        self.send("traces", span.request())
        sample, = self.await_samples(1)
        self.assert_joined(sample, span)
        self.stop_spanprof(self.sp)

    def test_backend_away(self):
        self.start()
        self.backend.stop()
        span = Span()
        self.send("profiles", Profile().linked(span).bytes())
        self.send("traces", span.request())
        harness.wait_until(lambda: self.sp.metric("spanprof_outbox_items", 'signal="profiles"') == 1,
                           10, "the profile is on its way")
        self.backend.start()
        sample, = self.await_samples(1, 20)
        self.assert_joined(sample, span)
        self.stop_spanprof(self.sp)


if __name__ == "__main__":
    harness.main()

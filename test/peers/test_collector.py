# SPDX-License-Identifier: Apache-2.0
"""An OpenTelemetry Collector as sender to spanprof, and as receiver of it: every signal, whole and once."""
import os
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter

HERE = os.path.dirname(os.path.abspath(__file__))
INTEGRATION = os.path.join(os.path.dirname(HERE), "integration")
sys.path[:0] = [HERE, os.path.join(INTEGRATION, "join"), os.path.join(INTEGRATION, "otlp")]
import collector_program as peer  # noqa: E402
import go_toolchain  # noqa: E402
import harness  # noqa: E402
import receiver  # noqa: E402
import sender  # noqa: E402
import test_pending_profiles as pending_profiles  # noqa: E402
import test_signals as signals  # noqa: E402
import truth  # noqa: E402

SPANS, REQUESTS = 1000, 20
USER = 12346  # of a Collector that is not root
LEVELS = {"traces": ("resource_spans", "scope_spans", "spans"),
          "metrics": ("resource_metrics", "scope_metrics", "metrics"),
          "logs": ("resource_logs", "scope_logs", "log_records")}
BY_COLLECTOR = "attribute_table[0] is not the zero value"  # it writes an empty value there


def normal(message):
    """The same without empty messages that are there only to be there: the Collector writes some more."""
    for field, value in message.ListFields():
        if field.type != field.TYPE_MESSAGE:
            continue
        for inner in value if field.label == field.LABEL_REPEATED else [value]:
            normal(inner)
        if field.label != field.LABEL_REPEATED and not value.ByteSize():
            message.ClearField(field.name)
    return message


def items_of(signal, message):
    """Each span, metric or log record with its surroundings: bytes that are equal if and only if they are."""
    def alone(outer, field):
        copy = type(outer).FromString(outer.SerializeToString())
        copy.ClearField(field)
        return copy.SerializeToString(deterministic=True)

    message = normal(type(message).FromString(message.SerializeToString()))

    resources, scopes, items = LEVELS[signal]
    return [alone(resource, scopes) + alone(scope, items) + item.SerializeToString(deterministic=True)
            for resource in getattr(message, resources) for scope in getattr(resource, scopes)
            for item in getattr(scope, items)]


def sample_key(sample):
    """A sample with all that it refers to, comparable."""
    frames = [(tuple(frame.lines), frame.address, sorted(frame.attributes.items()), frame.mapping,
               sorted(frame.mapping_attributes.items())) for frame in sample.frames]
    return repr((sorted(sample.resource.items(), key=repr), sample.type, sample.unit, sample.period, sample.times,
                 sample.values, sorted(sample.attributes.items(), key=repr), sample.trace_id, sample.span_id, frames))


class CollectorTest(harness.IntegrationTest):
    def setUp(self):
        super().setUp()
        try:
            self.program = peer.program()
        except go_toolchain.Missing as missing:
            self.skipTest(str(missing))

    def collector(self, config, ports, name="collector"):
        instance = peer.Collector(self.program, self.directory, name, config, ports)
        self.addCleanup(instance.stop)
        return instance.start()

    def spanprof_of_all(self, over=None, **options):
        pipelines = {name: {"receivers": ["otlp"], "exporters": ["otlp_grpc"],
                            "processors": ["join"] if name in ("traces", "profiles") else []}
                     for name in peer.SIGNALS}
        return self.spanprof(over=harness.merge({"service": {"pipelines": pipelines}}, over or {}), **options)


VARIANTS = {  # the Collector's exporter, its keys
    "otlp_grpc/none": {"compression": "none"}, "otlp_grpc/gzip": {"compression": "gzip"},
    "otlp_grpc/zstd": {"compression": "zstd"}, "otlp_grpc/batched": {"compression": "gzip"},
    "otlp_http/none": {"compression": "none"}, "otlp_http/gzip": {"compression": "gzip"},
    "otlp_http/zstd": {"compression": "zstd"}, "otlp_http/deflate": {"compression": "deflate"},
    "otlp_http/json": {"encoding": "json", "compression": "gzip"}}


class Sender(CollectorTest):
    """client -> Collector -> spanprof -> backend."""

    def collector_before(self, spanprof, variant):
        port = harness.free_port()
        exporter = dict(VARIANTS[variant], endpoint="http://" + spanprof.http_address) \
            if variant.startswith("otlp_http") \
            else dict(VARIANTS[variant], endpoint=spanprof.grpc_address, tls={"insecure": True})
        processors = ["batch"] if variant.endswith("batched") else []
        pipelines = {name: {"receivers": ["otlp"], "exporters": [variant],
                            "processors": [] if name == "profiles" else processors} for name in peer.SIGNALS}
        config = {"receivers": {"otlp": {"protocols": {"grpc": {"endpoint": "127.0.0.1:%d" % port}}}},
                  "exporters": {variant: exporter}, "processors": {name: {} for name in processors},
                  "service": {"pipelines": pipelines}}
        return self.collector(config, [port], variant.replace("/", "-")), "127.0.0.1:%d" % port

    def send(self, address, name, bodies):
        client = sender.GrpcSender(address, signal=name)
        for body in bodies:
            client.send(body)
        client.close()

    def parsed(self, name, bodies):
        kind = receiver.receiver_schema.message(receiver.REQUESTS[name])
        return [kind.FromString(body) for body in bodies]

    def received(self, name):
        return Counter(item for request in self.backend.requests(name) for item in items_of(name, request.message))

    def check_items(self, address, name, bodies):
        expected = Counter(item for message in self.parsed(name, bodies) for item in items_of(name, message))
        self.send(address, name, bodies)
        self.backend.wait(lambda: self.received(name).total() >= expected.total(), 20, name + " come")
        time.sleep(0.3)
        self.assertEqual(self.received(name) == expected, True, name + " are not what was sent")
        return expected.total()

    def check_profiles(self, address):
        """They meet a span that comes the same way."""
        span = pending_profiles.Span()
        self.send(address, "profiles", [pending_profiles.Profile().linked(span).alone().bytes()])
        self.send(address, "traces", [span.request()])
        self.backend.wait(lambda: len(self.backend.samples()) >= 2, 20, "profiles come")
        linked, alone = sorted(self.backend.samples(), key=lambda sample: sample.trace_id is None)
        self.assertEqual((linked.trace_id, linked.span_id), (span.trace_id.hex(), span.span_id.hex()))
        self.assertEqual(linked.attributes.get("span.name"), span.name)
        self.assertEqual(linked.resource["service.name"], span.service)
        self.assertEqual([linked.functions(), alone.functions()], [["main"], ["main"]])
        self.assertEqual(set(self.backend.violations) - {BY_COLLECTOR}, set())

    def check(self, variant):
        collector, address = self.collector_before(self.sp, variant)
        n_spans = self.check_items(address, "traces", [sender.request_of(SPANS // REQUESTS, 100)[0]
                                                       for _ in range(REQUESTS)])
        n_metrics = self.check_items(address, "metrics", [signals.metrics_of(20)[0] for _ in range(5)])
        n_logs = self.check_items(address, "logs", [signals.logs_of(20)[0] for _ in range(5)])
        self.check_profiles(address)
        collector.stop()
        print("%s: %d spans, %d metrics, %d log records" % (variant, n_spans, n_metrics, n_logs), flush=True)

    def test_every_exporter_and_compression(self):
        self.sp = self.spanprof_of_all(sampler=False, over={"processors": {"join": {"wait": "20s"}}})
        for variant in VARIANTS:
            with self.subTest(variant):
                self.backend.forget()
                self.check(variant)
        self.assertEqual(self.sp.metric("spanprof_requests_refused_total"), 0)


class Receiver(CollectorTest):
    """client -> spanprof -> Collector -> files, and beside it spanprof -> backend."""

    def collector_behind(self):
        self.port, self.http_port = harness.free_port(), harness.free_port()
        pipelines = {name: {"receivers": ["otlp"], "exporters": ["file/" + name]} for name in peer.SIGNALS}
        config = {"receivers": {"otlp": {"protocols": {
            "grpc": {"endpoint": "127.0.0.1:%d" % self.port}, "http": {"endpoint": "127.0.0.1:%d" % self.http_port}}}},
            "exporters": peer.file_exporters(self.directory), "service": {"pipelines": pipelines}}
        return self.collector(config, [self.port, self.http_port])

    def exporter_to_collector(self, kind, **keys):
        retry = {"initial_interval": "100ms", "max_interval": "1s"}
        if kind == "otlp_http":
            return dict(keys, endpoint="http://127.0.0.1:%d" % self.http_port, retry_on_failure=retry)
        return dict(keys, endpoint="127.0.0.1:%d" % self.port, tls={"insecure": True}, retry_on_failure=retry)

    def spanprof_to(self, name, exporter, sampler=False):
        """Everything goes to the backend and to the Collector."""
        pipelines = {pipeline: {"exporters": ["otlp_grpc", name]} for pipeline in peer.SIGNALS}
        if sampler:
            pipelines["profiles"]["receivers"] = ["otlp", "sampler"]
        return self.spanprof_of_all(sampler=sampler, over={
            "exporters": {name: exporter}, "service": {"pipelines": pipelines}})

    def in_files(self, name):
        return Counter(item for message in peer.written(self.directory, name) for item in items_of(name, message))

    def at_backend(self, name):
        return Counter(item for request in self.backend.requests(name) for item in items_of(name, request.message))

    def check_same(self, name, at_least):
        harness.wait_until(lambda: self.in_files(name).total() >= at_least, 20, name + " are in the file")
        self.assertEqual(self.in_files(name) == self.at_backend(name), True, name + " differ")

    def send_all(self, spanprof):
        for name, bodies in (("traces", [sender.request_of(50, 100)[0] for _ in range(REQUESTS)]),
                             ("metrics", [signals.metrics_of(20)[0] for _ in range(5)]),
                             ("logs", [signals.logs_of(20)[0] for _ in range(5)])):
            client = sender.GrpcSender(spanprof.grpc_address, signal=name)
            for body in bodies:
                client.send(body)
            client.close()

    def test_every_exporter_and_compression(self):
        for kind, keys in (("otlp_grpc", {"compression": "none"}), ("otlp_grpc", {"compression": "gzip"}),
                           ("otlp_grpc", {"compression": "zstd"}), ("otlp_http", {"compression": "none"}),
                           ("otlp_http", {"compression": "gzip"}), ("otlp_http", {"compression": "zstd"}),
                           ("otlp_http", {"encoding": "json"})):
            with self.subTest(kind=kind, **keys):
                collector = self.collector_behind()
                spanprof = self.spanprof_to(kind + "/collector", self.exporter_to_collector(kind, **keys))
                self.send_all(spanprof)
                for name, n in (("traces", SPANS), ("metrics", 100), ("logs", 100)):
                    self.check_same(name, n)
                collector.stop()
                self.stop_spanprof(spanprof)
                self.backend.forget()
                for name in LEVELS:
                    os.remove(os.path.join(self.directory, name + ".otlp"))
                print("%s %s: %d spans" % (kind, keys, SPANS), flush=True)

    @harness.needs_root
    def test_at_a_unix_socket(self):
        """As docs/deployment.md has it: as its own user, in a directory of its own; in a shared one once it is named."""
        self.start_backend()
        place = tempfile.mkdtemp(prefix="spanprof-test-", dir="/run")
        self.addCleanup(shutil.rmtree, place)
        os.chmod(place, 0o755)
        for name, owner, mode, keys in (("own", USER, 0o755, {}), ("shared", 0, 0o1777, {"socket_users": [USER]})):
            directory = os.path.join(place, name)
            os.mkdir(directory)
            os.chown(directory, owner, owner)
            os.chmod(directory, mode)
            path = os.path.join(directory, "otlp.sock")
            config = {"receivers": {"otlp": {"protocols": {"grpc": {"endpoint": path, "transport": "unix"}}}},
                      "exporters": {"otlp_grpc": {"endpoint": self.backend.address, "tls": {"insecure": True}}},
                      "service": {"pipelines": {"traces": {"receivers": ["otlp"], "exporters": ["otlp_grpc"]}}}}
            collector = peer.Collector(self.program, self.directory, name, config, [])
            collector.launcher = ["setpriv", "--reuid=%d" % USER, "--regid=%d" % USER, "--clear-groups"]
            collector.umask = 0
            self.addCleanup(collector.stop)
            collector.start()
            spanprof = self.spanprof(sampler=False, over={"exporters": {"otlp_grpc": dict(keys, endpoint="unix://" + path)}})
            body, ids = sender.request_of(50)
            sender.GrpcSender(spanprof.grpc_address).send(body)
            self.backend.wait(lambda: set(ids) <= {span.span_id for span in self.backend.spans()}, 20, "the spans come")
            self.stop_spanprof(spanprof)

    def samples_in_file(self):
        return [sample for message in peer.written(self.directory, "profiles")
                for sample in receiver.samples_of(message)]

    def check_real_profiles(self, kind, **keys):
        self.collector_behind()
        spanprof = self.spanprof_to(kind + "/collector", self.exporter_to_collector(kind, **keys), sampler=True)
        spanprof.wait_sampling()
        workload = self.read_workload(
            spanprof, "--mode", "nested", "--duty", "100", "--seconds", 5, "--span-ms", 1000,
            endpoint=spanprof.http_address).wait()
        record = max(workload.spans().values(), key=lambda record: record["cpu_ns"])
        half = record["cpu_ns"] * harness.FREQUENCY // (2 * 10 ** 9)
        self.backend.wait(
            lambda: truth.count(truth.samples_of_span(self.samples_in_file(), record["span_id"])) >= max(half, 1),
            30, "the Collector writes the samples of a span")
        self.stop_spanprof(spanprof)  # what it has is sent to both
        want = Counter(map(sample_key, self.backend.samples()))
        harness.wait_until(lambda: len(self.samples_in_file()) >= want.total(), 10, "all samples are in the file")
        self.assertEqual(Counter(map(sample_key, self.samples_in_file())) == want, True, "samples differ")
        self.check_same("traces", len(workload.spans()))
        self.assert_conforming()
        annotated = [span for message in peer.written(self.directory, "traces") for span in receiver.spans_of(message)
                     if span.cpu_ns]
        self.assertGreater(len(annotated), 3)
        linked = sum(sample.trace_id is not None for sample in self.samples_in_file())
        print("%s: %d samples, %d with a span; %d annotated spans" % (kind, want.total(), linked, len(annotated)))

    @harness.needs_sampling
    def test_profiles_of_our_own_by_grpc(self):
        self.check_real_profiles("otlp_grpc", compression="gzip")

    @harness.needs_sampling
    def test_profiles_of_our_own_by_json(self):
        self.check_real_profiles("otlp_http", encoding="json")

    def test_away_and_back(self):
        """Stopped and started again, then hanging: each acknowledged span arrives, twice only what was under way."""
        collector = self.collector_behind()
        spanprof = self.spanprof_to("otlp_grpc/collector", self.exporter_to_collector("otlp_grpc", timeout="2s"))
        load = sender.Load(spanprof.grpc_address, senders=2, spans=50)
        time.sleep(2)
        collector.stop()
        time.sleep(4)
        collector.start()
        time.sleep(3)
        collector.process.send_signal(signal.SIGSTOP)
        time.sleep(5)
        collector.process.send_signal(signal.SIGCONT)
        time.sleep(2)
        load.stop()
        self.assertEqual(load.refused, 0)
        harness.wait_until(lambda: load.acknowledged <= set(self.span_ids()), 60, "all spans arrive")
        times = Counter(self.span_ids())
        self.assertEqual(set(times), load.acknowledged)
        again = sum(times.values()) - len(times)
        failed = spanprof.metric("spanprof_exporter_requests_total", '"retry"')
        largest = max(len(receiver.spans_of(message)) for message in peer.written(self.directory, "traces"))
        print("%d spans, %d again; %d requests failed, of up to %d spans" % (len(times), again, failed, largest))
        self.assertGreater(failed, 3)
        self.assertLessEqual(again, failed * largest)

    def span_ids(self):
        return [span.span_id for message in peer.written(self.directory, "traces")
                for span in receiver.spans_of(message)]


if __name__ == "__main__":
    harness.main()

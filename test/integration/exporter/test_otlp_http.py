# SPDX-License-Identifier: Apache-2.0
"""What leaves by OTLP/HTTP, alone and beside OTLP/gRPC: each destination at its own pace."""
import os
import ssl
import subprocess
import sys
import time
from collections import Counter

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))
import harness  # noqa: E402
import receiver_http  # noqa: E402
import sender  # noqa: E402

RETRY = {"initial_interval": "100ms", "max_interval": "1s"}


class OtlpHttp(harness.IntegrationTest):
    def http_backend(self, **options):
        backend = receiver_http.HttpBackend(**options)
        self.addCleanup(backend.stop)
        return backend

    def only_http(self, backend, sampler=False, **keys):
        """self.backend is the HTTP one."""
        self.backend = backend
        spanprof = self.spanprof(start=False, sampler=sampler)
        spanprof.config["exporters"] = {"otlp_http": dict(
            {"endpoint": backend.url, "retry_on_failure": RETRY}, **keys)}
        for pipeline in spanprof.config["service"]["pipelines"].values():
            pipeline["exporters"] = ["otlp_http"]
        return spanprof.start()

    def send(self, spanprof, n=10):
        body, ids = sender.request_of(n)
        client = sender.GrpcSender(spanprof.grpc_address)
        client.send(body)
        client.close()
        return set(ids)

    def wait_for(self, backend, ids, timeout=20):
        backend.wait(lambda: ids <= {s.span_id for s in backend.spans()},
                     timeout, "the spans are forwarded")

    def assert_once(self, backend, ids):
        times = Counter(span.span_id for span in backend.spans())
        self.assertEqual(set(times), ids)
        self.assertEqual(set(times.values()), {1})

    def test_each_span_once_under_load(self):
        for keys in ({}, {"encoding": "json"}, {"compression": "none"}):
            with self.subTest(keys):
                backend = self.http_backend(prefix="/otlp")
                spanprof = self.only_http(backend, sending_queue={"num_consumers": 2}, **keys)
                load = sender.Load(spanprof.grpc_address, senders=2, spans=50, padding=300)
                time.sleep(2)
                load.stop()
                self.wait_for(backend, load.acknowledged, 30)
                self.stop_spanprof(spanprof)
                self.assert_once(backend, load.acknowledged)
                self.assertLessEqual(backend.n_connections, 2)
                print("%s: %d spans in %d requests" % (keys, len(load.acknowledged),
                                                       len(backend.requests("traces"))))

    def test_json_stays_within_the_limit(self):
        """Which it would not if it were cut as protobuf, being more than twice as large."""
        backend = self.http_backend()
        spanprof = self.only_http(backend, encoding="json", compression="none", max_request_size=100000)
        ids = self.send(spanprof, 2000)
        self.wait_for(backend, ids)
        self.assert_once(backend, ids)
        self.assertLessEqual(max(backend.sizes), 100000)
        self.assertGreater(max(backend.sizes), 40000)

    def test_larger_than_the_server_takes(self):
        """What is refused with 413 goes out in halves, and again in halves."""
        for keys in ({"encoding": "json", "compression": "none"}, {"compression": "none"}):
            with self.subTest(**keys):
                backend = self.http_backend(max_size=10000)
                spanprof = self.only_http(backend, **keys)
                ids = self.send(spanprof, 2000)
                self.wait_for(backend, ids)
                self.assert_once(backend, ids)
                self.assertEqual(spanprof.metric("spanprof_exporter_dropped_items_total"), 0)
                self.stop_spanprof(spanprof)

    @harness.needs_sampling
    def test_profiles(self):
        backend = self.http_backend()
        spanprof = self.only_http(backend, sampler=True, encoding="json")
        spanprof.wait_sampling()
        backend.wait(lambda: backend.samples(), 30, "samples")
        self.assertEqual(backend.violations, [])
        headers = {name.lower(): value for name, value in backend.requests("profiles")[0].metadata}
        self.assertEqual(headers["otlp-profiles-development-version"], "1")
        self.stop_spanprof(spanprof)

    def test_by_tls(self):
        certificates = os.path.join(self.directory, "certificates")
        os.mkdir(certificates)
        subprocess.run([os.path.join(harness.BUILD, "test", "make_certificates"), certificates],
                       check=True)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(os.path.join(certificates, "server.crt"),
                                os.path.join(certificates, "server.key"))
        backend = self.http_backend(tls=context)
        spanprof = self.only_http(backend, tls={"ca_file": os.path.join(certificates, "ca.crt")})
        ids = self.send(spanprof, 3000)
        self.wait_for(backend, ids)
        self.assertEqual(spanprof.metric("spanprof_tls_handshakes_total",
                                         'role="client",outcome="ok"'), 1)

    def test_to_another_spanprof(self):
        """In every form that there is on both sides."""
        back = self.spanprof(sampler=False)
        http, grpc = "http://" + back.http_address, "http://" + back.grpc_address
        for i, (kind, keys) in enumerate((
                ("otlp_http", {"endpoint": http, "compression": "zstd"}),
                ("otlp_http", {"endpoint": http + "/", "encoding": "json", "compression": "zstd"}),
                ("otlp_http", {"endpoint": http, "disable_keep_alives": True}),
                ("otlp_grpc", {"endpoint": grpc, "compression": "zstd", "keepalive": {}}))):
            with self.subTest(kind=kind, **keys):
                directory = os.path.join(self.directory, "front%d" % i)
                os.mkdir(directory)
                front = harness.Spanprof(directory, "unused:1", sampler=False)
                front.config["exporters"] = {kind: keys}
                front.config["service"]["pipelines"]["traces"]["exporters"] = [kind]
                self._started.append(front)
                front.start()
                ids = self.send(front, 500) | self.send(front, 1)
                self.wait_for(self.backend, ids)
                self.stop_spanprof(front)
                self.assert_once(self.backend, ids)
                self.backend.forget()

    def test_away_and_back(self):
        backend = self.http_backend()
        spanprof = self.only_http(backend)
        ids = self.send(spanprof)
        self.wait_for(backend, ids)
        backend.stop()
        for _ in range(10):
            ids |= self.send(spanprof)
            time.sleep(0.05)
        backend.start()
        self.wait_for(backend, ids)
        self.assertLessEqual(len(backend.spans()), len(ids) + 10, "the one under way may come twice")

    def test_what_servers_say(self):
        backend = self.http_backend()
        spanprof = self.only_http(backend)
        backend.fault("traces", "503", count=1, retry_info_s=2)
        ids = self.send(spanprof)
        self.wait_for(backend, ids)
        refused, taken = backend.requests("traces", taken=False)
        self.assertGreaterEqual(taken.time - refused.time, 1.9)
        for code in ("400", "500"):
            backend.fault("traces", code, count=1)
            self.send(spanprof)
            backend.wait(lambda: backend.received[-1].status == code, 10, code)
        backend.clear_faults()
        ids |= self.send(spanprof)
        self.wait_for(backend, ids)
        self.assert_once(backend, ids)
        self.assertEqual(spanprof.metric("spanprof_exporter_dropped_items_total",
                                         'reason="refused"'), 20)

    def test_a_slow_destination_delays_no_other(self):
        """Three of them: one answers at once, one after 4 s, one is not there."""
        fast = self.start_backend()
        slow = self.http_backend()
        slow.fault("traces", None, delay_s=4)
        away = "http://127.0.0.1:%d" % harness.free_port()
        spanprof = self.spanprof(sampler=False, over={
            "exporters": {"otlp_http/slow": {"endpoint": slow.url},
                          "otlp_http/away": {"endpoint": away, "retry_on_failure": RETRY}},
            "service": {"pipelines": {"traces": {
                "exporters": ["otlp_http/slow", "otlp_http/away", "otlp_grpc"]}}}})
        ids, worst = set(), 0
        for _ in range(20):
            start = time.monotonic()
            new = self.send(spanprof)
            self.wait_for(fast, new, 3)
            worst = max(worst, time.monotonic() - start)
            ids |= new
        print("the fast one has each request %.0f ms at most after it was sent" % (1000 * worst))
        self.assertLess(worst, 1.5 * harness.SLOWNESS)
        self.assertLess(len(slow.requests("traces")), 3)
        slow.clear_faults()
        self.wait_for(slow, ids)
        self.assert_once(slow, ids)
        self.assert_once(fast, ids)


if __name__ == "__main__":
    harness.main()

# SPDX-License-Identifier: Apache-2.0
"""grpc-go at the other end: its interoperability client against our HTTP/2 and gRPC core, and a server of it
(test/peers/interop), well behaved and failing, against our exporter."""
import base64
import os
import subprocess
import sys
import threading
import time
from collections import Counter

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "integration", "support"))
import harness  # noqa: E402
import go_toolchain  # noqa: E402
import receiver  # noqa: E402
import receiver_schema  # noqa: E402
import sender  # noqa: E402

MODULE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "interop")
CLIENT = os.path.join(harness.BUILD, "test", "interop_client")
SERVER = os.path.join(harness.BUILD, "test", "interop_server")
CASES = ("empty_unary", "large_unary", "status_code_and_message", "special_status_message", "custom_metadata",
         "unimplemented_method", "unimplemented_service", "timeout_on_sleeping_server", "cancel_after_begin",
         "empty_stream")
OUR_CASES = ("empty_unary", "large_unary", "concurrent_large_unary", "status_code_and_message",
             "special_status_message", "custom_metadata", "unimplemented_method", "unimplemented_service")
SOAK = ("-soak_iterations=400", "-soak_num_threads=8", "-soak_overall_timeout_seconds=120")
STATUS = {name: value for value, name in enumerate(
    ("OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS",
     "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED",
     "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED"))}
PASSING = ("CANCELLED", "DEADLINE_EXCEEDED", "ABORTED", "OUT_OF_RANGE", "UNAVAILABLE", "DATA_LOSS",
           "UNIMPLEMENTED")  # of a whole signal, so perhaps of a moment


def build(test, name, package="."):
    try:
        return go_toolchain.build_module(MODULE, name, package)
    except go_toolchain.Missing as missing:
        test.skipTest(str(missing))


class Client(harness.IntegrationTest):
    def setUp(self):
        super().setUp()
        self.client = build(self, "interop_client", "google.golang.org/grpc/interop/client")

    def run_case(self, port, case, *options):
        done = subprocess.run([self.client, "-server_host=127.0.0.1", "-server_port=%s" % port, "-test_case=" + case,
                               *options], capture_output=True, text=True, timeout=180)
        self.assertEqual(done.returncode, 0, "%s: %s" % (case, done.stderr[-2000:]))

    def test_core(self):
        server = subprocess.Popen([SERVER], stdout=subprocess.PIPE, text=True)
        self.addCleanup(server.stdout.close)
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        port = int(server.stdout.readline())
        for case in CASES:
            with self.subTest(case):
                self.run_case(port, case)
        for case in ("rpc_soak", "channel_soak"):
            with self.subTest(case):
                self.run_case(port, case, *SOAK)
        self.assertIsNone(server.poll())

    def test_receiver(self):
        """What can be asked of a server that has other services."""
        spanprof = self.spanprof(sampler=False)
        for case in ("unimplemented_method", "unimplemented_service"):
            self.run_case(spanprof.grpc_port, case)
        self.assertEqual(spanprof.metric("spanprof_grpc_server_calls_total", "unimplemented"), 2)


class Core(harness.IntegrationTest):
    """What the exporters are made of, against the interoperability server."""

    def setUp(self):
        super().setUp()
        self.server = build(self, "interop_server", "google.golang.org/grpc/interop/server")

    def test_unary(self):
        port = harness.free_port()
        server = subprocess.Popen([self.server, "-port=%d" % port])
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        harness.wait_until(lambda: harness.is_listening(port), 10, "the server listens")
        for case in OUR_CASES:
            with self.subTest(case):
                done = subprocess.run([CLIENT, str(port), case], capture_output=True, text=True, timeout=60)
                self.assertEqual((done.returncode, done.stderr), (0, ""))


class Server:
    """test/peers/interop; taken: (method, message) of the calls that it answered with success."""

    def __init__(self, test, program, *flags):
        self.taken = []
        self.log_path = os.path.join(test.directory, "server.log")
        with open(self.log_path, "w") as log:
            self.process = subprocess.Popen([program, *flags], stdout=subprocess.PIPE, stderr=log,
                                            text=True, env=dict(os.environ, GRPC_GO_LOG_SEVERITY_LEVEL="info",
                                                     GRPC_GO_LOG_VERBOSITY_LEVEL="2"))
        test.addCleanup(self.stop)
        self.address = self.process.stdout.readline().split()[1]
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            method, body = line.split(" ", 1)
            self.taken.append((method, base64.b64decode(body)))

    def log(self):
        with open(self.log_path) as file:
            return file.read()

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.reader.join()
        self.process.stdout.close()

    def span_ids(self):
        kind = receiver_schema.message(receiver_schema.TRACE_REQUEST)
        return [span.span_id for _, body in list(self.taken) for span in receiver.spans_of(kind.FromString(body))]


class Exporter(harness.IntegrationTest):
    def setUp(self):
        super().setUp()
        self.program = build(self, "interop")

    def start(self, *flags, **keys):
        self.server = Server(self, self.program, *flags)
        self.sp = self.spanprof(sampler=False, over={"exporters": {"otlp_grpc": dict(
            keys, endpoint=self.server.address)}})

    def send(self, spans=5, padding=0):
        body, ids = sender.request_of(spans, padding)
        client = sender.GrpcSender(self.sp.grpc_address)
        client.send(body)
        client.close()
        return ids

    def await_spans(self, ids, timeout=20):
        harness.wait_until(lambda: set(ids) <= set(self.server.span_ids()), timeout, "all spans are taken")
        self.assertEqual(Counter(self.server.span_ids()), Counter(ids))

    def outcomes(self):
        return {name: int(self.sp.metric("spanprof_exporter_requests_total", '"%s"' % name))
                for name in ("ok", "retry", "refused")}

    def dropped(self):
        return int(self.sp.metric("spanprof_exporter_dropped_items_total"))

    def check_status(self, name, early_headers):
        self.start("-fail=2", "-code=%d" % STATUS[name], "-message=why: " + name, "-headers=%s" % early_headers)
        ids = self.send()
        if name in PASSING:
            self.await_spans(ids)
            self.assertEqual((self.outcomes(), self.dropped()), ({"ok": 1, "retry": 2, "refused": 0}, 0))
        else:
            harness.wait_until(lambda: self.dropped() == 5, 10, "given up")
            self.assertIn("why: " + name, self.sp.log())
        self.stop_spanprof(self.sp)
        self.server.stop()

    def test_every_status(self):
        for name in list(STATUS)[1:]:
            for early_headers in ("false", "true"):
                with self.subTest(status=name, early_headers=early_headers):
                    self.check_status(name, early_headers)

    def test_special_status_message(self):
        self.start("-fail=1", "-code=3", "-message=\t\nwhitespace\r\nBMP ☺ and non-BMP 😈 %41\t\n")
        self.send()
        harness.wait_until(lambda: self.dropped() == 5, 10, "given up")
        self.assertIn("??whitespace??BMP ☺ and non-BMP 😈 %41??", self.sp.log())

    def test_retry_info(self):
        self.start("-fail=1", "-code=8", "-retry-delay=1500ms")
        began = time.monotonic()
        self.await_spans(self.send())
        self.assertGreater(time.monotonic() - began, 1.4)

    def test_no_answer_in_time(self):
        self.start("-fail=2", "-hang", timeout="700ms")
        self.await_spans(self.send())
        self.assertEqual(self.outcomes(), {"ok": 1, "retry": 2, "refused": 0})

    def test_large(self):
        for compression in ("none", "gzip"):
            with self.subTest(compression):
                self.start(compression=compression)
                self.await_spans(self.send(1000, 3900))
                self.stop_spanprof(self.sp)

    def test_larger_than_the_server_takes(self):
        """It goes out in parts; only what alone is too big is given up."""
        self.start("-max-message=100000", compression="none")
        ids = self.send(200, 1000)
        self.await_spans(ids)
        self.assertIn("larger than max", self.sp.log())
        self.assertEqual(self.dropped(), 0)
        self.send(1, 200000)
        harness.wait_until(lambda: self.sp.metric("spanprof_exporter_dropped_items_total", '"too_big"') == 1, 10, "given up")
        ids += self.send(50, 1000)
        self.await_spans(ids)

    def test_a_compression_that_is_not_known(self):
        self.start(compression="zstd")
        ids = self.send(50, 100)
        harness.wait_until(lambda: sum(self.outcomes().values()) >= 1, 10, "an answer")
        self.assertEqual(self.dropped(), 0, self.sp.log_tail())
        self.assertIn("compression", self.sp.log())
        self.assertGreater(len(ids), 0)

    def test_connections_that_end_by_age(self):
        self.start("-max-age=100ms", "-max-streams=1")
        load = sender.Load(self.sp.grpc_address, senders=2, spans=20)
        time.sleep(5)
        load.stop()
        self.await_spans(load.acknowledged, 60)
        outcomes = self.outcomes()
        print("%d spans in %d requests, %d sent again" % (len(load.acknowledged), outcomes["ok"], outcomes["retry"]))
        self.assertEqual((outcomes["refused"], self.dropped()), (0, 0))

    def test_too_many_pings(self):
        self.start("-min-ping=60s", keepalive={"time": "10s", "timeout": "5s", "permit_without_stream": True})
        ids = self.send()
        harness.wait_until(lambda: "GOAWAY" in self.server.log(), 60, "the server has enough")
        for _ in range(3):
            ids += self.send()
            time.sleep(0.5)
        self.await_spans(ids)
        self.assertEqual(self.dropped(), 0)


if __name__ == "__main__":
    harness.main()

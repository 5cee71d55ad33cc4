# SPDX-License-Identifier: Apache-2.0
"""More than can be written: peers are slowed down by the windows of HTTP/2 and by TCP, not refused.

h2load keeps ten times as much on its way as the queue takes, over gRPC and HTTP/1.1.
"""
import os
import shutil
import struct
import subprocess
import sys
import time
import unittest

import grpc

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))
import harness  # noqa: E402
import sender  # noqa: E402

SECONDS = 5
CONNECTIONS = 64
STREAMS = 10           # a connection; of 16 KiB before they are let in, within a peer's share of these bytes
SPANS, PADDING = 1000, 900
QUEUE_MIB = 64         # twice what is let in


@unittest.skipUnless(shutil.which("h2load"), "needs h2load (nghttp2-client)")
class Overload(harness.IntegrationTest):
    def setUp(self):
        super().setUp()
        self.program = self.spanprof(sampler=False, over={
            "exporters": {"debug": {}}, "extensions": {"sqlite_storage": {"fsync": "full"}},
            "service": {"telemetry": {"logs": {"level": "warn"}},
                        "pipelines": {"traces": {"exporters": ["debug"]}}}})
        self.body, _ = sender.request_of(SPANS, PADDING)
        self.offered_mib = CONNECTIONS * STREAMS * len(self.body) / (1 << 20)

    def flood(self, *arguments, body, url):
        path = os.path.join(self.directory, "body%d" % len(body))
        with open(path, "wb") as file:
            file.write(body)
        command = ["h2load", "-c", str(CONNECTIONS), "-D", str(SECONDS), "-d", path, *arguments, url]
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def watch(self, load):
        """PSS of the service in KiB, until the load ends. Health is answered meanwhile."""
        sizes, waits = [], []
        while load.poll() is None:
            sizes.append(harness.pss_kib(self.program.service))
            began = time.monotonic()
            with grpc.insecure_channel(self.program.grpc_address) as channel:
                channel.unary_unary("/grpc.health.v1.Health/Check")(b"", timeout=10)
            waits.append(time.monotonic() - began)
            time.sleep(0.1)
        return sizes, max(waits)

    def taken(self):
        """Spans that were handed on, or still wait."""
        return self.program.metric("spanprof_exporter_sent_items_total", 'signal="traces"') + \
            self.program.metric("spanprof_outbox_items", 'signal="traces"')

    def assert_flat(self, name, load, before_kib, accepted, refused):
        """accepted and refused are called at the end: numbers of requests."""
        sizes, health_s = self.watch(load)
        harness.wait_until(lambda: self.program.metric("spanprof_intake_queued_bytes") == 0,
                           30, "the queue is empty")
        n_accepted, n_refused = accepted(), refused()
        share = n_refused / (n_accepted + n_refused)
        half = len(sizes) // 2
        print("%s: %.0f MiB offered at a time: %.1f MiB/s taken, %.2f %% refused; PSS %.0f MiB before, "
              "at most %.0f MiB, then %.0f MiB; health within %.0f ms" % (
                  name, self.offered_mib, n_accepted * len(self.body) / (1 << 20) / SECONDS,
                  100 * share, before_kib / 1024, max(sizes[:half]) / 1024, max(sizes[half:]) / 1024,
                  1e3 * health_s))
        self.assertGreater(self.program.metric("spanprof_receiver_waited_total"), 0)
        self.assertEqual(self.program.metric("spanprof_receiver_waiting_requests"), 0)
        self.assertLess(share, 0.01)
        # an acknowledged request is kept; of those that were cut off at the end some are too
        self.assertGreaterEqual(self.taken(), n_accepted * SPANS)
        if not harness.SANITIZE:
            self.assertLess(max(sizes), before_kib + 2 * QUEUE_MIB * 1024)
            self.assertLess(max(sizes[half:]), 1.15 * max(sizes[:half]))

    def test_grpc(self):
        self.assertGreaterEqual(self.offered_mib, 9 * QUEUE_MIB)
        message = b"\0" + struct.pack(">I", len(self.body)) + self.body
        calls = "spanprof_grpc_server_calls_total"
        before_kib = harness.pss_kib(self.program.service)
        load = self.flood("-m", str(STREAMS), "-H", "te: trailers", "-H", "content-type: application/grpc",
                          body=message, url="http://%s%s" % (self.program.grpc_address, sender.METHOD))
        self.assert_flat("gRPC", load, before_kib, lambda: self.program.metric(calls, '"accepted"'),
                         lambda: self.program.metric(calls, '"busy"'))

    def test_http(self):
        requests = "spanprof_http_server_requests_total"
        self.offered_mib /= STREAMS  # one at a time on each connection
        before_kib = harness.pss_kib(self.program.service)
        load = self.flood("--h1", "-H", "content-type: application/x-protobuf", body=self.body,
                          url="http://%s/v1/traces" % self.program.http_address)
        sizes, _ = self.watch(load)
        self.assertEqual(self.program.metric(requests, '"503"'), 0)
        self.assertGreaterEqual(self.taken(), self.program.metric(requests, '"200"') * SPANS - SPANS)
        if not harness.SANITIZE:
            self.assertLess(max(sizes), before_kib + 2 * QUEUE_MIB * 1024)


if __name__ == "__main__":
    harness.main()

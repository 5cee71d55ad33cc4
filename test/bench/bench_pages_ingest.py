#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What the pages cost those who send: latency of a request of 100 spans, alone and beside two browsers that ask
for all views without a pause, and what these get.

Prints `name value unit`. The debug exporter empties the outbox; no sampler, so the node's noise is not in it.
"""
import http.client
import os
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "integration"))
import harness  # noqa: E402
import sender  # noqa: E402

SECONDS, BROWSERS, SPANS, A_SECOND = 10, 2, 100, 50
PATHS = ("/api/traces", "/api/flame", "/api/functions", "/api/timeline", "/api/spans", "/api/status")


def print_figure(name, value, unit):
    print("%s %.6g %s" % (name, value, unit), flush=True)


class Browser(threading.Thread):
    def __init__(self, port):
        super().__init__(daemon=True)
        self.port, self.stopping, self.took, self.refused = port, threading.Event(), [], 0

    def run(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        while not self.stopping.is_set():
            for path in PATHS:
                begun = time.monotonic()
                connection.request("GET", path)
                answer = connection.getresponse()
                answer.read()
                self.took.append(time.monotonic() - begun)
                self.refused += answer.status != 200


def latencies(client, seconds):
    """Of requests at an even pace, so that one that takes long does not hide those it holds up."""
    took, begun = [], time.monotonic()
    for i in range(seconds * A_SECOND):
        due = begun + i / A_SECOND
        time.sleep(max(0, due - time.monotonic()))
        client.send(sender.request_of(SPANS, resource={"service.name": "shop%d" % (i % 12)})[0])
        took.append(time.monotonic() - due)
    return sorted(took)


def put(name, took):
    print_figure("ingest_%s_p50" % name, took[len(took) // 2] * 1e3, "ms")
    print_figure("ingest_%s_p99" % name, took[len(took) * 99 // 100] * 1e3, "ms")


def main():
    with tempfile.TemporaryDirectory(prefix="spanprof-bench-") as directory:
        port = harness.free_port()
        spanprof = harness.Spanprof(directory, "127.0.0.1:1", sampler=False, over={
            "exporters": {"debug": {}},
            "extensions": {"pages": {"endpoint": "127.0.0.1:%d" % port}},
            "service": {"extensions": ["sqlite_storage", "pages"],
                        "telemetry": {"logs": {"level": "error"}},
                        "pipelines": {"traces": {"receivers": ["otlp"], "processors": ["join"],
                                                 "exporters": ["debug"]}}}})
        spanprof.start()
        try:
            client = sender.GrpcSender(spanprof.grpc_address)
            latencies(client, 6)  # until the first window is in the history
            put("alone", latencies(client, SECONDS))
            browsers = [Browser(port) for _ in range(BROWSERS)]
            for browser in browsers:
                browser.start()
            put("beside_pages", latencies(client, SECONDS))
            for browser in browsers:
                browser.stopping.set()
            took = sorted(sum((browser.took for browser in browsers), []))
            print_figure("pages_answers", len(took) / SECONDS, "answers/s")
            print_figure("pages_answer_p99", took[len(took) * 99 // 100] * 1e3, "ms")
            print_figure("pages_refused", sum(browser.refused for browser in browsers), "answers")
        finally:
            spanprof.stop()


if __name__ == "__main__":
    main()

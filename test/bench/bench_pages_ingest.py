#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What the pages cost those who send, on a node whose store has an hour of 64 busy CPUs at 97 Hz: latency of a request
of 100 spans, alone and beside two browsers that ask for all views of 15 minutes and of the hour without a pause, and
when these are answered. The hour is made up (test/support/python/busy_hour.py), and expires as time goes on.

    bench_pages_ingest.py [SECONDS of data]

Prints `name value unit`.
"""
import http.client
import json
import os
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "integration", "support"))
import harness  # noqa: E402, F401: where test/support/python is
import busy_hour  # noqa: E402
import sender  # noqa: E402

SECONDS, BROWSERS, SPANS, A_SECOND = 20, 2, 100, 50
VIEWS = ("traces", "functions", "flame", "timeline", "spans")
RANGES = {"15m": 900, "1h": 3600}


def print_figure(name, value, unit):
    print("%s %.6g %s" % (name, value, unit), flush=True)


def per_cent(took, share):
    """Of sorted seconds, in ms."""
    return took[min(len(took) - 1, len(took) * share // 100)] * 1e3


class Pages:
    """The questions, from when there is data; asked over one connection."""

    def __init__(self, port, end_s):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self.questions = {"%s_%s" % (view, name): "/api/%s?from=%d" % (view, (end_s - seconds) * 1000)
                          for name, seconds in RANGES.items() for view in VIEWS}
        self.questions["status"] = "/api/status"

    def ask(self, path):
        """(seconds, status, body)."""
        begun = time.monotonic()
        self.connection.request("GET", path)
        answer = self.connection.getresponse()
        body = answer.read()
        return time.monotonic() - begun, answer.status, body


class Browser(threading.Thread):
    def __init__(self, pages):
        super().__init__(daemon=True)
        self.pages, self.stopping, self.refused = pages, threading.Event(), 0
        self.took = {name: [] for name in pages.questions}

    def run(self):
        while not self.stopping.is_set():
            for name, path in self.pages.questions.items():
                took, status, _ = self.pages.ask(path)
                self.took[name].append(took)
                self.refused += status != 200
                if self.stopping.is_set():
                    break


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
    print_figure("ingest_%s_p50" % name, per_cent(took, 50), "ms")
    print_figure("ingest_%s_p99" % name, per_cent(took, 99), "ms")


def first_answers(pages):
    """Before anything is remembered. They must have something to tell."""
    for name, path in pages.questions.items():
        took, status, body = pages.ask(path)
        answer = json.loads(body)
        if status != 200 or not answer.get("complete", True) or answer.get("cpu_ns") == 0 or answer.get("traces") == []:
            raise RuntimeError("%s: %d %.300s" % (path, status, body))
        print_figure("pages_served_%s_first" % name, took * 1e3, "ms")


def put_answers(browsers):
    took = {name: sorted(sum((browser.took[name] for browser in browsers), [])) for name in browsers[0].took}
    for name, of_name in took.items():
        print_figure("pages_served_%s_p50" % name, per_cent(of_name, 50), "ms")
        print_figure("pages_served_%s_slowest" % name, of_name[-1] * 1e3, "ms")
    everything = sorted(sum(took.values(), []))
    print_figure("pages_answers", len(everything) / SECONDS, "answers/s")
    print_figure("pages_answer_p99", per_cent(everything, 99), "ms")
    print_figure("pages_refused", sum(browser.refused for browser in browsers), "answers")


def bench(spanprof, port, end_s):
    client = sender.GrpcSender(spanprof.grpc_address)
    latencies(client, 6)  # until the first window is in the history
    put("alone", latencies(client, SECONDS))
    first_answers(Pages(port, end_s))
    browsers = [Browser(Pages(port, end_s)) for _ in range(BROWSERS)]
    for browser in browsers:
        browser.start()
    put("beside_pages", latencies(client, SECONDS))
    for browser in browsers:
        browser.stopping.set()
    for browser in browsers:
        browser.join()
    put_answers(browsers)


def main():
    seconds = int(sys.argv[1]) if len(sys.argv) > 1 else 3600
    with tempfile.TemporaryDirectory(prefix="spanprof-bench-") as directory:
        hour = busy_hour.BusyHour(directory, seconds)
        spanprof = hour.start()
        try:
            bench(spanprof, hour.port, hour.end_s)
        finally:
            spanprof.stop()


if __name__ == "__main__":
    main()

#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The demo: spanprof, a small shop in C, beside it stock Flask and Express services if Python and Node are there, a load on
all of them, and a backend that shows what comes out.

    demo.py [SECONDS] [--keep]
Everything has ports and a folder of its own, so that it is in nobody's way; all is cleaned up at the
end and on ctrl-C.
"""
import argparse
import http.client
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(SOURCE, "test", *folder) for folder in (("integration", "support"), ("support", "python"))]
import demo_stock  # noqa: E402
import demo_view  # noqa: E402
import harness  # noqa: E402
import receiver  # noqa: E402

SETTLE_S = 7  # profiles go out every 5 s: younger traces may lack samples
NEXT = """
What you saw: the traces say that "render receipt" is slow; the samples, taken in the kernel while that
span was running, say which function it was. Neither the service nor the backend had to join them.

Next:
  ./dev demo --keep         the same, until ctrl-C: time to look at its pages
  ./dev run                 spanprof on this machine: point OTLP exporters at localhost:4317 (gRPC) or
                            :4318 (HTTP); it sends on to SPANPROF_BACKEND (default localhost:14317)
  test/support/python/receiver.py
                            a backend on localhost:14317 that prints what it gets
  config/spanprof.yaml      the configuration, with comments
  test/demo/demo_trace.c    what a program in C does to be seen: two calls a span
  spanprof exec -- COMMAND  starts a stock OpenTelemetry service in Python, Java or Node so that it is seen
"""


def shop_path(dice):
    """Now and then a large cart is paid for."""
    pick = dice.random()
    if pick < 0.08:
        return "/checkout?items=%d" % dice.randint(150, 200)
    if pick < 0.25:
        return "/checkout?items=%d" % dice.randint(1, 8)
    if pick < 0.5:
        return "/cart?items=%d" % dice.randint(1, 30)
    if pick < 0.75:
        return "/search?q=teapot"
    return "/product?items=%d" % dice.randint(1, 2000)


def recommend_path(dice):
    return "/stock" if dice.random() < 0.5 else "/recommend?customers=%d" % dice.choice((100, 400, 12000))


def invoice_path(dice):
    return "/address" if dice.random() < 0.5 else "/invoice?lines=%d" % dice.choice((5, 20, 600))


PATHS = {"recommend": recommend_path, "invoice": invoice_path}


class Load:
    """Clients of one service."""

    def __init__(self, port, path, clients):
        self.port, self.path = port, path
        self.done = 0
        self.stopping = threading.Event()
        self.threads = [threading.Thread(target=self.run, args=(random.Random(i),), daemon=True)
                        for i in range(clients)]
        for thread in self.threads:
            thread.start()

    def run(self, dice):
        while not self.stopping.wait(dice.uniform(0.05, 0.25)):
            try:
                connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
                connection.request("GET", self.path(dice))
                connection.getresponse().read()
                connection.close()
                self.done += 1
            except OSError:
                self.stopping.wait(0.5)


class Demo:
    def __init__(self):
        self.directory = tempfile.mkdtemp(prefix="spanprof-demo-")
        os.chmod(self.directory, 0o755)
        self.backend = self.spanprof = self.service = None
        self.loads, self.stock = [], []
        self.program = os.path.join(harness.BUILD, "test", "demo_service")
        self.pages = "http://localhost:%d" % harness.free_port()
        self.more = {}  # configuration
        self.address = None  # of the pages, with their token

    def prepare(self):
        """Before anything runs: installing packages may take a while."""
        for service in demo_stock.services():
            reason = service.why_not()
            if reason:
                print("without %s in %s: %s" % (service.name, service.runtime, reason), file=sys.stderr)
            else:
                self.stock.append(service)

    def start(self):
        self.backend = receiver.Backend()
        self.spanprof = harness.Spanprof(self.directory, self.backend.address, over=harness.merge({
            "extensions": {"pages": {"endpoint": self.pages.split("/")[-1]}},
            "service": {"extensions": ["sqlite_storage", "pages"]}}, self.more))
        self.spanprof.start()
        self.spanprof.wait_sampling()
        port = harness.free_port()
        self.service = subprocess.Popen([self.program, str(port), self.spanprof.http_address])
        harness.wait_until(lambda: self.answers(port), 10, "the shop answers")
        self.loads.append(Load(port, shop_path, 3))
        self.start_stock()
        socket = os.path.join(self.spanprof.store, "spanprof.sock")
        self.address = harness.run_spanprof("pages", "--socket", socket)[1].strip()
        print("spanprof %d, shop %d on port %d, four routes under load; pages: %s" % (
            self.spanprof.process.pid, self.service.pid, port, self.address), flush=True)

    def start_stock(self):
        for service in self.stock:
            port = harness.free_port()
            log = os.path.join(self.directory, service.name + ".log")
            with open(log, "wb") as file:
                service.start(port, self.spanprof.http_address, file)
            harness.wait_until(lambda: harness.is_listening(port) or service.process.poll() is not None, 20,
                               service.name + " listens")
            if service.process.poll() is not None:
                print("%s ended: %s" % (service.name, open(log, errors="replace").read()[-500:]), file=sys.stderr)
                continue
            print("%s, a stock service in %s, on port %d" % (service.name, service.runtime, port), flush=True)
            self.loads.append(Load(port, PATHS[service.name], 1))

    def answers(self, port):
        try:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
            connection.request("GET", "/product")
            return connection.getresponse().status == 200
        except OSError:
            return False

    def watch(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(max(0, min(5, end - time.monotonic())))
            print("  %4d requests, %5d spans and %5d samples received" % (
                sum(load.done for load in self.loads), len(self.backend.spans()),
                sum(sample.count() for sample in self.backend.samples())), flush=True)

    def show(self):
        """False if there is nothing to show."""
        until = (time.time() - SETTLE_S) * 1e9
        spans, samples = {}, self.backend.samples()
        for span in self.backend.spans():
            if span.end < until:
                spans.setdefault(span.resource.get("service.name"), []).append(span)
        traces = {service: found for service, found in
                  ((service, demo_view.traces_of(own, samples)) for service, own in spans.items()) if found}
        if "shop" not in traces:
            return False
        shop = traces.pop("shop")
        print("\n" + demo_view.show(shop[0], len(shop)), flush=True)
        if traces:
            print("\n" + demo_view.show_services(traces), flush=True)
        return True

    def stop(self):
        for load in self.loads:
            load.stopping.set()
        for service in self.stock:
            service.stop()
        if self.service:
            self.service.send_signal(signal.SIGTERM)
            try:
                self.service.wait(10)
            except subprocess.TimeoutExpired:
                self.service.kill()
        if self.spanprof and self.spanprof.process:
            try:
                self.spanprof.stop()
            except subprocess.TimeoutExpired:
                self.spanprof.kill_all()
        if self.backend:
            self.backend.stop()
        shutil.rmtree(self.directory, ignore_errors=True)


def run(demo, options):
    demo.prepare()
    demo.start()
    demo.watch(options.seconds)
    shown = demo.show()
    while options.keep:
        demo.watch(options.seconds)
        shown = demo.show() or shown
    if not shown:
        print("No trace came out; spanprof's log:\n" + demo.spanprof.log_tail(), file=sys.stderr)
        return 1
    print(NEXT)
    return 0


def main():
    parser = argparse.ArgumentParser(prog="dev demo")
    parser.add_argument("seconds", nargs="?", type=float, default=22)
    parser.add_argument("--keep", action="store_true", help="go on until ctrl-C")
    options = parser.parse_args()
    why = harness.why_no_sampling()
    if why:
        print("dev demo: sampling cannot run here: " + why, file=sys.stderr)
        return 1
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    demo = Demo()
    try:
        return run(demo, options)
    except KeyboardInterrupt:
        print("\nstopping", file=sys.stderr)
        return 0 if options.keep else 130
    except (RuntimeError, TimeoutError) as error:
        log = demo.spanprof.log_tail() if demo.spanprof else ""
        print("dev demo: %s\n%s" % (error, log), file=sys.stderr)
        return 1
    finally:
        demo.stop()


if __name__ == "__main__":
    sys.stdout.flush()
    code = main()
    sys.stdout.flush()
    os._exit(code)  # grpc's threads must not hold the end back

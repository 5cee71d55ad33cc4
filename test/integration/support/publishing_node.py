# SPDX-License-Identifier: Apache-2.0
"""Stock services on Node with the publisher of context/node (sources: test/peers/publishers/node), under load."""
import contextlib
import glob
import http.client
import json
import os
import shutil
import signal
import subprocess
import threading
import time
import urllib.request

import harness
import publishing
import truth

SOURCES = os.path.join(harness.SOURCE, "test", "peers", "publishers", "node")
TREE = os.path.join(harness.BUILD, "publishers", "node")
INSTALLED = os.path.join(harness.SOURCE, "build", "peers", "publish_node")
FREQUENCY = 997
CLIENTS = 6
INSTALL_TIMEOUT_S = 600
REGISTER = "@opentelemetry/auto-instrumentations-node/register"


class Missing(Exception):
    """What cannot be had here; the text says why."""


def run(command, **options):
    """What a client of a registry says. Raises Missing."""
    try:
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=INSTALL_TIMEOUT_S, **options)
        return done.stdout
    except (OSError, subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        raise Missing("%s: %s" % (" ".join(command[:2]), str(getattr(error, "stderr", "") or error)[-500:])) from error


def install(name, folder):
    """Its node_modules: what package-lock.json of the folder names, fetched once. Raises Missing."""
    target = os.path.join(INSTALLED, name)
    with open(os.path.join(folder, "package-lock.json")) as file:
        wanted = file.read()
    ready = os.path.join(target, "ready")
    if os.path.exists(ready):
        with open(ready) as file:
            if file.read() == wanted:
                return os.path.join(target, "node_modules")
    if not shutil.which("npm"):
        raise Missing("no npm in PATH")
    os.makedirs(target, exist_ok=True)
    for source in ("package.json", "package-lock.json"):
        shutil.copy(os.path.join(folder, source), target)
    run(["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"], cwd=target)
    with open(ready, "w") as file:
        file.write(wanted)
    return os.path.join(target, "node_modules")


def packages():
    """The SDK, Express and Fastify. Raises Missing."""
    return install("app", SOURCES)


def preload(*more):
    """NODE_OPTIONS."""
    return " ".join(["--require", os.path.join(TREE, "preload.js"), *more])


def why_not_built():
    if not os.path.exists(os.path.join(TREE, "spanprof_context.node")):
        return "the publisher is not built: no node_api.h (libnode-dev)"
    return None


class Service:
    """A stock service, started as its user would, with the publisher before the SDK in NODE_OPTIONS."""

    def __init__(self, test, spanprof, name, node, program, options=None, **environment):
        self.name, self.port = name, harness.free_port()
        self.truth = os.path.join(test.directory, name)
        os.mkdir(self.truth)
        self.log = open(os.path.join(test.directory, name + ".log"), "w+b")
        endpoint = spanprof.http_address if spanprof else "127.0.0.1:1"
        environment = {
            "PATH": os.environ["PATH"], "HOME": test.directory, "TRUTH": self.truth, "PORT": str(self.port),
            "NODE_PATH": packages(), "NODE_OPTIONS": options or preload("--require", REGISTER),
            "OTEL_BSP_SCHEDULE_DELAY": "200", "OTEL_SERVICE_NAME": name, "OTEL_METRICS_EXPORTER": "none",
            "OTEL_LOGS_EXPORTER": "none", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
            "OTEL_NODE_RESOURCE_DETECTORS": "env,host,os,process,serviceinstance",
            "OTEL_EXPORTER_OTLP_ENDPOINT": "http://" + endpoint, **environment}
        self.process = subprocess.Popen(
            [*node, os.path.join(SOURCES, program)], stdout=self.log, stderr=subprocess.STDOUT,
            cwd=os.path.dirname(packages()), start_new_session=True, env=environment)
        test.addCleanup(self.kill)
        harness.wait_until(lambda: self.get("/wait"), 120, name + " answers")

    def ask(self, path):
        """The answer's JSON."""
        with urllib.request.urlopen("http://127.0.0.1:%d%s" % (self.port, path), timeout=30) as answer:
            return json.loads(answer.read())

    def get(self, path):
        try:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
            connection.request("GET", path)
            status = connection.getresponse().status
            connection.close()
            return status == 200
        except OSError:
            return False

    def load(self, paths, enough, timeout=150):
        """Requests by several clients at once, until enough() or the time is over. How many failed."""
        over, failed = threading.Event(), []

        def work(number):
            while not over.is_set():
                for path in paths[number % len(paths):] + paths[:number % len(paths)]:
                    if not self.get(path):
                        failed.append(path)
        clients = [threading.Thread(target=work, args=(number,)) for number in range(CLIENTS)]
        for client in clients:
            client.start()
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline and not enough():
            time.sleep(0.2)
        over.set()
        for client in clients:
            client.join()
        return len(failed)

    def records(self):
        records = []
        for name in glob.glob(os.path.join(self.truth, "*")):
            with open(name) as file:
                records += [json.loads(line) for line in file if line.endswith("\n")]
        return records

    def kill(self):
        """With the processes that it has started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(30)

    def stop(self):
        self.kill()  # what it had to say it has sent
        self.log.seek(0)
        with self.log:
            return self.log.read().decode(errors="replace")


class PublishNode(publishing.PublishersTest):
    """judge() of a service: each sample that its spans burned is linked to the right one."""

    def setUp(self):
        super().setUp()
        reason = why_not_built()
        if reason:
            self.skipTest(reason)
        try:
            packages()
        except Missing as missing:
            self.skipTest(str(missing))

    def judge(self, name, node, program, paths, samples, **options):
        spanprof = self.spanprof(over={
            "receivers": {"sampler": {"frequency": FREQUENCY, "include": {"executables": ["node", "nodejs"]}}},
            "processors": {"join": {"wait": "2s"}}})
        service = Service(self, spanprof, name, node, program, **options)
        for path in paths:
            service.get(path)  # the publisher begins with the first span, and is read soon after
        spanprof.wait_sampling()
        harness.wait_until(lambda: spanprof.reads(service.process.pid), 30, "its contexts are read")
        time.sleep(1.5 * harness.SLOWNESS)
        begun, enough = time.time_ns(), self.linked(spanprof) + 1.6 * samples  # what lies at edges is not judged
        failed = service.load(paths, lambda: self.linked(spanprof) >= enough)
        time.sleep(1)  # the last batch of spans
        records = service.records()
        output = service.stop()
        self.stop_when_delivered(spanprof)
        return self.verdict(name, records, begun, output, failed, samples)

    def linked(self, spanprof):
        """Samples with a context, so far."""
        return spanprof.metric("spanprof_intake_samples_total", 'context="otel_thread"')

    def verdict(self, name, records, begun, output, failed, samples):
        found = truth.judge([record for record in records if record["from"] > begun],
                            [sample for sample in self.backend.samples() if sample.resource.get("service.name") == name])
        print("%s: %s" % (name, found), flush=True)
        self.assertEqual(failed, 0)
        self.assertNotRegex(output, "spanprof|Error|at .*publisher")
        self.assertGreaterEqual(found.published(), samples)
        self.assertGreaterEqual(found.share(), 0.99)
        self.assertEqual(found.wrong, 0)
        self.assertEqual(found.outside_linked, 0)
        self.assertGreater(found.outside, samples / 100)
        self.assert_spans(records, samples)
        return found

    def assert_spans(self, records, samples):
        """Spans say what they burned, on the whole; those that waited say nothing or next to it."""
        burned = {record["span_id"] for record in records if record["type"] == "on"}
        spans = {span.span_id: span.cpu_ns or 0 for span in self.backend.spans()}
        self.assertLessEqual(burned, set(spans))
        joined = sum(spans[span_id] for span_id in burned)
        waited = [cpu for span_id, cpu in spans.items() if span_id not in burned]
        print("spans that burned: %d with %.2f s of CPU; others: %d with %.2f s" % (
            len(burned), joined / 1e9, len(waited), sum(waited) / 1e9), flush=True)
        self.assertGreater(joined, 0.8 * samples / FREQUENCY * 1e9)
        self.assertLess(sum(waited), 0.2 * joined)

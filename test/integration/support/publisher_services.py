# SPDX-License-Identifier: Apache-2.0
"""Stock services with a publisher, most of them started by `spanprof exec` and nothing else: under load, whether each
sample of what their handlers burned is linked to the span of its request.

A service appends what it worked on to files in $TRUTH, a line of JSON each: {"type": "on" or "off", "tid", "from", "to",
and for "on" "trace_id", "span_id"}; times are Unix ns, ids hex, as the service's own SDK says them."""
import contextlib
import http.client
import json
import os
import signal
import subprocess
import threading
import time

import harness
import publishing
import truth

PUBLISHERS = os.path.join(harness.BUILD, "publishers")
FREQUENCY = 997
SAMPLES = 5000     # of each service at the least
BURN_S = 0.02      # CPU time that a request of a path that burns takes in its spans
CLIENTS = 6
INSTALL_TIMEOUT_S = 1800


class Missing(Exception):
    """What cannot be had here; the text says why."""


def run(command, **options):
    """A step of an installation; its output. Raises Missing."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_TIMEOUT_S, **options)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Missing(str(error)) from error
    if done.returncode:
        raise Missing("%s: %s" % (" ".join(command[:3]), (done.stderr or done.stdout)[-500:]))
    return done.stdout


class Service:
    """A stock service. command: as its user starts it; "{port}" in it, or in a variable, stands for the port that it
    listens on. path: a directory that is searched for programs before PATH."""
    options = ()     # of `spanprof exec`; None: it is started without
    complaints = r"spanprof_|Traceback"  # that it must not print
    end = signal.SIGTERM
    paths = ["/render", "/wait"]
    burning = 1      # of the paths: that burn BURN_S in spans

    def __init__(self, test, spanprof, name, command, cwd=None, path="", **environment):
        self.name, self.port, self.failed = name, harness.free_port(), []
        self.truth = os.path.join(test.directory, name)
        os.mkdir(self.truth)
        self.log = open(os.path.join(test.directory, name + ".log"), "w+b")
        self.environment = {"PATH": (path and path + ":") + os.environ["PATH"], "HOME": test.directory,
                            "TRUTH": self.truth, "OTEL_SERVICE_NAME": name, "OTEL_BSP_SCHEDULE_DELAY": "200",
                            **{key: self.with_port(value) for key, value in environment.items()}}
        self.process = subprocess.Popen([*self.launcher(spanprof), *map(self.with_port, command)], stdin=subprocess.PIPE,
                                        stdout=self.log, stderr=subprocess.STDOUT, cwd=cwd, env=self.environment,
                                        start_new_session=True)
        test.addCleanup(self.log.close)
        test.addCleanup(self.process.stdin.close)
        test.addCleanup(self.kill)
        try:
            harness.wait_until(lambda: self.answers() or self.process.poll() is not None, 120, name + " answers")
            assert self.process.poll() is None, "%s ended with %d" % (name, self.process.returncode)
        except (TimeoutError, AssertionError) as error:
            raise AssertionError("%s; it wrote:\n%s" % (error, self.output())) from error

    def with_port(self, word):
        return word.replace("{port}", str(self.port))

    def launcher(self, spanprof):
        if self.options is None:
            return []
        endpoint = "http://" + (self.address(spanprof) if spanprof else "127.0.0.1:1")
        return [harness.BINARY, "exec", "--publishers", PUBLISHERS, "--endpoint", endpoint, *self.options, "--"]

    def address(self, spanprof):
        """Of the port that its exporter speaks to."""
        return spanprof.http_address

    def answers(self):
        return self.get("/wait")

    def get(self, path):
        try:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
            connection.request("GET", path)
            status = connection.getresponse().status
            connection.close()
            return status in (200, 204)
        except OSError:
            return False

    def load(self, n):
        """Each path n times, by several clients at once. Returns when all are answered."""
        left = self.paths * n

        def work():
            with contextlib.suppress(IndexError):
                while True:
                    path = left.pop()
                    if not self.get(path):
                        self.failed.append(path)
        clients = [threading.Thread(target=work) for _ in range(CLIENTS)]
        for client in clients:
            client.start()
        for client in clients:
            client.join()

    def output(self):
        with open(self.log.name, errors="replace") as file:
            return file.read()

    def stop(self):
        """What it has written to its standard output and error."""
        self.process.send_signal(self.end)
        self.process.wait(60)
        return self.output()

    def kill(self):
        """With the processes that it has started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(30)

    def records(self):
        records = []
        for name in os.listdir(self.truth):
            with open(os.path.join(self.truth, name)) as file:
                records += [json.loads(line) for line in file if line.endswith("}\n")]
        return records


def burned_ids(records):
    return {record["span_id"] for record in records if record["type"] == "on"}


class ServicesTest(publishing.PublishersTest):
    executables = None  # that are sampled; None: all
    outside = 0         # samples without a span that there are at the least

    @harness.needs_sampling
    def judge(self, name, make, samples=SAMPLES, end="\0"):
        """make(spanprof, name): a Service, which the verdict is of. end: what the service writes when it begins to end,
        if it ends with tracebacks without us too."""
        sampler = {"frequency": FREQUENCY, **({"include": {"executables": self.executables}} if self.executables else {})}
        spanprof = self.spanprof(over={"receivers": {"sampler": sampler}, "processors": {"join": {"wait": "2s"}},
                                       "exporters": {"otlp_grpc": {"timeout": "30s"}}})
        service = make(spanprof, name)
        service.load(20)  # the publisher begins with the first span, and is read soon after
        spanprof.wait_sampling()
        time.sleep(3 * harness.SLOWNESS)
        begun = time.time_ns()
        service.load(int(samples / FREQUENCY / BURN_S * 1.3 / service.burning) + 1)
        self.wait_for_spans(spanprof, service)
        self.see(service)
        output = service.stop()
        self.stop_when_delivered(spanprof, patience=150)
        told = service.records()
        records = [record for record in told if record["from"] > begun]
        taken = [sample for sample in self.backend.samples() if sample.resource.get("service.name") == name]
        verdict = truth.judge(records, taken)
        print("%s: %s" % (name, verdict), flush=True)
        self.assertEqual(service.failed, [])
        self.assertNotRegex(output.partition(end)[0], service.complaints)
        self.assertGreaterEqual(verdict.published(), samples)
        self.assertGreaterEqual(verdict.share(), 0.99)
        self.assertEqual(verdict.wrong, 0)
        self.assertEqual(verdict.outside_linked, 0)
        self.assertGreaterEqual(verdict.outside, self.outside)
        self.assert_spans(records, told, samples)
        return taken

    def wait_for_spans(self, spanprof, service):
        """Its last batch may be late on a busy machine, and a service that is ended by a signal may not send it."""
        with contextlib.suppress(TimeoutError):  # what is missing is told below
            harness.wait_until(lambda: spanprof.metric("spanprof_spans_received_total") >= len(burned_ids(service.records())),
                               30, "its spans have come")
        time.sleep(1)

    def see(self, service):
        """Of the running service."""

    def assert_spans(self, records, told, samples):
        """Spans have the CPU time that they burned, on the whole; those that never burned any have next to none."""
        burned, ever = burned_ids(records), burned_ids(told)
        spans = {span.span_id: span.cpu_ns or 0 for span in self.backend.spans()}
        missing = burned - set(spans)
        self.assertFalse(missing, "%d of %d spans that burned have not come" % (len(missing), len(burned)))
        joined = sum(spans[span_id] for span_id in burned)
        waited = [cpu for span_id, cpu in spans.items() if span_id not in ever]
        print("spans that burned: %d with %.2f s of CPU; that waited: %d with %.2f s" % (
            len(burned), joined / 1e9, len(waited), sum(waited) / 1e9), flush=True)
        self.assertGreater(joined, 0.8 * samples / FREQUENCY * 1e9)
        self.assertLess(sum(waited), 0.2 * joined)

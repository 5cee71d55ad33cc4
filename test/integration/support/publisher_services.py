# SPDX-License-Identifier: Apache-2.0
"""Stock services with a publisher, started by `spanprof exec` and nothing else: under load, whether each sample of
what their handlers burned is linked to the span of its request.

A service appends what it worked on to files in $TRUTH, a line of JSON each: {"type": "on" or "off", "tid", "from", "to",
and for "on" "trace_id", "span_id"}; times are Unix ns, ids hex, as the service's own SDK says them."""
import http.client
import json
import os
import subprocess
import threading
import time

import harness
import publishing
import truth

PUBLISHERS = os.path.join(harness.BUILD, "publishers")
FREQUENCY = 997
SAMPLES = 5000     # of each service at the least
RENDER_S = 0.02    # CPU time that a request of the first path burns in its span
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
    """A stock service. command: as its user starts it; "{port}" stands for the port that it listens on. path: a
    directory that is searched for programs before PATH."""
    options = ()  # of `spanprof exec`

    def __init__(self, test, spanprof, name, command, cwd, path="", **environment):
        self.name, self.port = name, harness.free_port()
        self.truth = os.path.join(test.directory, name)
        os.mkdir(self.truth)
        self.log = open(os.path.join(test.directory, name + ".log"), "w+b")
        self.environment = {"PATH": (path and path + ":") + os.environ["PATH"], "HOME": test.directory,
                            "TRUTH": self.truth, "OTEL_SERVICE_NAME": name, "OTEL_BSP_SCHEDULE_DELAY": "200",
                            **environment}
        self.process = subprocess.Popen(
            [harness.BINARY, "exec", "--publishers", PUBLISHERS, "--endpoint", "http://" + spanprof.http_address, *self.options, "--",
             *(word.replace("{port}", str(self.port)) for word in command)],
            stdout=self.log, stderr=subprocess.STDOUT, cwd=cwd, env=self.environment)
        test.addCleanup(self.log.close)
        test.addCleanup(self.process.kill)
        try:
            harness.wait_until(self.answers, 60, name + " answers")
        except TimeoutError as error:
            raise AssertionError("%s; it wrote:\n%s" % (error, self.output())) from error

    def answers(self):
        return self.get("/wait")

    def get(self, path):
        try:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
            connection.request("GET", path)
            status = connection.getresponse().status
            connection.close()
            return status == 200
        except OSError:
            return False

    def load(self, paths, n):
        """n requests, by several clients at once. Returns when all are answered."""
        left = list(range(n))

        def work():
            while left:
                try:
                    i = left.pop()
                except IndexError:
                    return
                self.get(paths[i % len(paths)])
        clients = [threading.Thread(target=work) for _ in range(CLIENTS)]
        for client in clients:
            client.start()
        for client in clients:
            client.join()

    def output(self):
        self.log.seek(0)
        return self.log.read().decode(errors="replace")

    def stop(self):
        """What it has written to its standard output and error."""
        self.process.terminate()
        self.process.wait(30)
        return self.output()

    def records(self):
        records = []
        for name in os.listdir(self.truth):
            with open(os.path.join(self.truth, name)) as file:
                records += [json.loads(line) for line in file]
        return records


@harness.needs_sampling
class ServicesTest(publishing.PublishersTest):
    def judge(self, name, make, paths, samples=SAMPLES, end="\0"):
        """make(spanprof, name): a Service. paths[0] burns RENDER_S in a span. end: what the service writes when it begins
        to end, if it ends with tracebacks without us too."""
        spanprof = self.spanprof(over={"receivers": {"sampler": {"frequency": FREQUENCY}},
                                       "processors": {"join": {"wait": "2s"}}})
        spanprof.wait_sampling()
        service = make(spanprof, name)
        service.load(paths, 40)  # the publisher begins with the first span, and is read soon after
        time.sleep(3 * harness.SLOWNESS)
        begun = time.time_ns()
        service.load(paths, int(samples / FREQUENCY / RENDER_S * 1.3) * len(paths))
        time.sleep(1)  # a service that is ended by a signal does not export its last batch
        output = service.stop()
        self.stop_when_delivered(spanprof)
        told = service.records()
        records = [record for record in told if record["from"] > begun]
        taken = [sample for sample in self.backend.samples() if sample.resource.get("service.name") == name]
        verdict = truth.judge(records, taken)
        print("%s: %s" % (name, verdict), flush=True)
        self.assertNotIn("spanprof_", output)
        self.assertNotIn("Traceback", output.partition(end)[0])
        self.assertGreaterEqual(verdict.published(), samples)
        self.assertGreaterEqual(verdict.share(), 0.99)
        self.assertEqual(verdict.wrong, 0)
        self.assertEqual(verdict.outside_linked, 0)
        self.assert_spans(records, told, samples)
        return verdict

    def assert_spans(self, records, told, samples):
        """Spans have the CPU time that they burned, on the whole; those that never burned any have next to none."""
        burned, ever = ({record["span_id"] for record in some if record["type"] == "on"} for some in (records, told))
        spans = {span.span_id: span.cpu_ns or 0 for span in self.backend.spans()}
        self.assertLessEqual(burned, set(spans))
        joined = sum(spans[span_id] for span_id in burned)
        waited = [cpu for span_id, cpu in spans.items() if span_id not in ever]
        print("spans that burned: %d with %.2f s of CPU; that waited: %d with %.2f s" % (
            len(burned), joined / 1e9, len(waited), sum(waited) / 1e9), flush=True)
        self.assertGreater(joined, 0.8 * samples / FREQUENCY * 1e9)
        self.assertLess(sum(waited), 0.2 * joined)

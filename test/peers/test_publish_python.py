# SPDX-License-Identifier: Apache-2.0
"""Stock Python services get their spans' CPU by PYTHONPATH alone: every sample of what their handlers burned is linked to
the span of that request. Interleave: what is published is the current span, on each version of Python that is here."""
import glob
import http.client
import json
import os
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(os.path.dirname(HERE), "integration", "support"), os.path.join(HERE, "sdk")]
import harness  # noqa: E402
import publishing  # noqa: E402
import sdk_clients  # noqa: E402
import truth  # noqa: E402

SOURCES = os.path.join(HERE, "publishers", "python")
TREE = os.path.join(harness.BUILD, "publishers", "python")
VENVS = os.path.join(harness.SOURCE, "build", "peers", "publish_python")
FREQUENCY = 997
SAMPLES = 5000  # of each service at the least
CLIENTS = 6
VERSIONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
INTERLEAVED = ("opentelemetry-sdk", "greenlet", "gevent", "uvloop")


def interpreter(version):
    """A program of that version, or None."""
    found = sorted(glob.glob(os.path.expanduser("~/.pyenv/versions/%s.*/bin/python3" % version)))
    for candidate in ["/usr/bin/python" + version, "/usr/local/bin/python" + version, *found]:
        if os.access(candidate, os.X_OK):
            return candidate
    return None


def venv(name, python, *packages):
    """Its bin directory. Raises sdk_clients.Missing."""
    folder = os.path.join(VENVS, name)
    ready = os.path.join(folder, "ready")
    wanted = " ".join(packages)
    if not os.path.exists(ready) or open(ready).read() != wanted:
        sdk_clients.run([python, "-m", "venv", "--clear", folder])
        sdk_clients.run([os.path.join(folder, "bin", "pip"), "-q", "install", *packages])
        with open(ready, "w") as file:
            file.write(wanted)
    return os.path.join(folder, "bin")


class PublishPython(publishing.PublishersTest):
    def setUp(self):
        super().setUp()
        if not glob.glob(os.path.join(TREE, "spanprof_otel", "_native*.so")):
            self.skipTest("the publisher is not built: no python3-dev")


class Interleave(PublishPython):
    def one(self, version):
        python = interpreter(version)
        if not python:
            self.skipTest("no Python " + version)
        try:
            bin_path = venv(version, python, *INTERLEAVED)
        except sdk_clients.Missing as reason:
            self.skipTest(str(reason))
        done = subprocess.run([os.path.join(bin_path, "python"), os.path.join(SOURCES, "interleave.py")],
                              stdout=subprocess.PIPE, timeout=600,
                              env={**os.environ, "PYTHONPATH": TREE, "OTEL_PYTHON_CONTEXT": "spanprof"})
        lines = [line.split() for line in done.stdout.decode().splitlines()]
        print(version, "; ".join(" ".join(line) for line in lines), flush=True)
        counted = {name: (int(checks), int(wrong)) for name, checks, wrong in (line for line in lines if len(line) == 3)}
        self.assertEqual(done.returncode, 0)
        self.assertGreater(sum(checks for checks, _ in counted.values()), 10000)
        self.assertEqual(sum(wrong for _, wrong in counted.values()), 0)


for _version in VERSIONS:
    setattr(Interleave, "test_" + _version.replace(".", "_"), lambda self, version=_version: self.one(version))


class Service:
    """A stock service, started as its user would, with PYTHONPATH more."""

    def __init__(self, test, spanprof, name, command, bin_path, **environment):
        self.name, self.port = name, harness.free_port()
        self.truth = os.path.join(test.directory, name)
        os.mkdir(self.truth)
        self.log = open(os.path.join(test.directory, name + ".log"), "w+b")
        self.process = subprocess.Popen(
            [os.path.join(bin_path, "opentelemetry-instrument"), os.path.join(bin_path, command[0]),
             *(word % self.port if "%d" in word else word for word in command[1:])],
            stdout=self.log, stderr=subprocess.STDOUT, cwd=SOURCES,
            env={"PATH": os.environ["PATH"], "HOME": test.directory, "PYTHONPATH": TREE, "TRUTH": self.truth,
                 "PYTHONDONTWRITEBYTECODE": "1", "OTEL_BSP_SCHEDULE_DELAY": "200", "OTEL_SERVICE_NAME": name, "OTEL_METRICS_EXPORTER": "none",
                 "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
                 "OTEL_EXPORTER_OTLP_ENDPOINT": "http://" + spanprof.grpc_address, **environment})
        test.addCleanup(self.process.kill)
        harness.wait_until(lambda: self.get("/wait"), 30, name + " answers")

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
        """n requests, by several clients at once."""
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

    def stop(self):
        self.process.terminate()
        self.process.wait(30)
        self.log.seek(0)
        return self.log.read().decode(errors="replace")

    def records(self):
        records = []
        for name in os.listdir(self.truth):
            with open(os.path.join(self.truth, name)) as file:
                records += [json.loads(line) for line in file]
        return records


@harness.needs_sampling
class Services(PublishPython):
    def setUp(self):
        super().setUp()
        try:
            self.bin = venv("services", "/usr/bin/python3", "-r", os.path.join(SOURCES, "requirements.txt"))
        except sdk_clients.Missing as reason:
            self.skipTest(str(reason))

    def judge(self, name, command, paths, **environment):
        spanprof = self.spanprof(over={"receivers": {"sampler": {"frequency": FREQUENCY}},
                                       "processors": {"join": {"wait": "2s"}}})
        spanprof.wait_sampling()
        service = Service(self, spanprof, name, command, self.bin, **environment)
        service.load(paths, 40)  # the publisher begins with the first span, and is read soon after
        time.sleep(3 * harness.SLOWNESS)
        begun = time.time_ns()
        service.load(paths, int(SAMPLES / FREQUENCY / 0.02 * 1.3) * len(paths))
        time.sleep(1)  # the last batch: flask is ended by a signal, and exports nothing then
        output = service.stop()
        self.stop_when_delivered(spanprof)
        records = [record for record in service.records() if record["from"] > begun]
        samples = [sample for sample in self.backend.samples()
                   if sample.resource.get("service.name") == name]
        verdict = truth.judge(records, samples)
        print("%s: %s" % (name, verdict), flush=True)
        self.assertNotRegex(output, "Traceback|spanprof_otel")
        self.assertGreaterEqual(verdict.published(), SAMPLES)
        self.assertGreaterEqual(verdict.share(), 0.99)
        self.assertEqual(verdict.wrong, 0)
        self.assertEqual(verdict.outside_linked, 0)
        self.assert_spans(records)

    def assert_spans(self, records):
        """Spans say what they burned, on the whole; those that waited say nothing or next to it."""
        burned = {}
        for record in records:
            if record["type"] == "on":
                burned[record["span_id"]] = burned.get(record["span_id"], 0) + record["to"] - record["from"]
        spans = {span.span_id: span.cpu_ns or 0 for span in self.backend.spans()}
        self.assertLessEqual(set(burned), set(spans))
        joined = sum(spans[span_id] for span_id in burned)
        waited = [cpu for span_id, cpu in spans.items() if span_id not in burned]
        print("spans that burned: %d with %.2f s of CPU; others: %d with %.2f s" % (
            len(burned), joined / 1e9, len(waited), sum(waited) / 1e9), flush=True)
        self.assertGreater(joined, 0.8 * SAMPLES / FREQUENCY * 1e9)
        self.assertLess(sum(waited), 0.2 * joined)

    def test_flask(self):
        self.judge("flask", ["flask", "--app", "flask_app", "run", "--port", "%d"], ["/render", "/wait"])

    def test_fastapi_on_uvloop(self):
        self.judge("fastapi", ["uvicorn", "--loop", "uvloop", "--log-level", "warning", "--port", "%d", "fastapi_app:app"],
                   ["/render", "/wait", "/sync"])

    def test_django_under_gunicorn(self):
        self.judge("django", ["gunicorn", "-w", "2", "--threads", "2", "-b", "127.0.0.1:%d", "django_app"],
                   ["/render", "/wait"], DJANGO_SETTINGS_MODULE="django_settings")


if __name__ == "__main__":
    harness.main()

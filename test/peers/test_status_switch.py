# SPDX-License-Identifier: Apache-2.0
"""The switch that `spanprof status` shows for a stock program is run as it stands there; then its spans have their CPU
time, and the switch is gone."""
import json
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(os.path.dirname(HERE), "integration", folder) for folder in ("support", "pages")]
import harness  # noqa: E402
import publisher_services  # noqa: E402
import python_services  # noqa: E402
import test_pages  # noqa: E402

PACKAGES = ("opentelemetry-sdk", "opentelemetry-exporter-otlp-proto-http")
PROGRAM = """
import time
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(), schedule_delay_millis=200))
trace.set_tracer_provider(provider)
tracer = trace.get_tracer("stock")
while True:
    with tracer.start_as_current_span("work"):
        end = time.process_time() + 0.1
        while time.process_time() < end:
            sum(i * i for i in range(1000))
"""


@harness.needs_sampling
class StatusSwitch(test_pages.Pages):
    over = {"processors": {"join": {"wait": "2s"}}}

    def begin(self, *command, service):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env={
            "PATH": os.path.dirname(harness.BINARY) + ":" + os.environ["PATH"], "OTEL_SERVICE_NAME": service,
            "OTEL_EXPORTER_OTLP_ENDPOINT": "http://" + self.running.http_address})
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def row(self, pid):
        return next((row for row in self.json("/api/status")["processes"] if pid in row["pids"]), {})

    def status(self, *words):
        return subprocess.run([harness.BINARY, "status", "--socket", self.socket, *words], capture_output=True,
                              text=True, timeout=60, check=True).stdout

    def test_python(self):
        if python_services.NOT_BUILT:
            self.skipTest(python_services.NOT_BUILT)
        try:
            python = os.path.join(python_services.venv("status", python_services.STOCK, *PACKAGES), "python")
        except publisher_services.Missing as reason:
            self.skipTest(str(reason))
        self.running = self.start(sampler=True)
        self.running.wait_sampling()
        stock = self.begin(python, "-c", PROGRAM, service="stock")
        harness.wait_until(lambda: "switch" in self.row(stock.pid), 60, "the switch is shown")
        self.assertEqual(self.row(stock.pid)["in_span"], 0)

        shown = re.search(r"^ *switch: +(.*)$", self.status(), re.M).group(1)
        self.assertEqual(shown, self.row(stock.pid)["switch"]["line"])
        before, _, after = shown.partition("COMMAND")
        switched = self.begin(*before.split(), python, "-c", PROGRAM, *after.split(), service="switched")
        harness.wait_until(lambda: self.row(switched.pid).get("in_span", 0) > 200, 60, "it is correlated")
        row = self.row(switched.pid)
        print(json.dumps(row), flush=True)
        self.assertEqual((row["service"], row["runtime"], row["publisher"], row["source"]),
                         ("switched", "python", "active", "otel_thread"))
        self.assertNotIn("switch", row)
        self.assertGreater(row["in_span"], 0.7 * row["samples"])  # the rest is its start, and its exporter's
        self.assertEqual(self.row(stock.pid)["in_span"], 0)
        switched.kill()
        self.assertEqual(switched.stdout.read(), b"")


if __name__ == "__main__":
    harness.main()

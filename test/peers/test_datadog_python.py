# SPDX-License-Identifier: Apache-2.0
"""Datadog's tracer for Python, as it is on PyPI: what it publishes for profilers, against what it did."""
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "integration", "support"))
import harness  # noqa: E402
import publishing  # noqa: E402

VENV = os.path.join(harness.SOURCE, "build", "peers", "datadog")
PYTHON = os.path.join(VENV, "bin", "python")
VERSION = "import ddtrace; print(ddtrace.__version__)"
ROOT_KEY = "datadog.local_root_span_id"
ENVIRONMENT = {"DD_TRACE_OTEL_CTX_ENABLED": "true", "DD_SERVICE": "dd-shop",
               "DD_TRACE_AGENT_URL": "http://127.0.0.1:1", "DD_TRACE_STARTUP_LOGS": "false",
               "DD_INSTRUMENTATION_TELEMETRY_ENABLED": "false",
               "DD_REMOTE_CONFIGURATION_ENABLED": "false"}


def install():
    """The version installed; None if it cannot be fetched."""
    for command in ([sys.executable, "-m", "venv", VENV],
                    [PYTHON, "-m", "pip", "-q", "install", "ddtrace"]):
        if not os.path.exists(os.path.join(VENV, "ready")) and subprocess.run(command).returncode:
            return None
    open(os.path.join(VENV, "ready"), "w").close()
    return subprocess.check_output([PYTHON, "-c", VERSION]).decode().strip()


@harness.needs_sampling
class Datadog(publishing.PublishersTest):
    def test_threads_in_spans(self):
        version = install()
        if not version:
            self.skipTest("ddtrace cannot be installed")
        sp = self.spanprof(over=publishing.OVER)
        sp.wait_sampling()
        peer = self.publish(publishing.Peer(
            "ddtrace " + version, [PYTHON, os.path.join(HERE, "datadog", "spans.py"), "60"],
            **ENVIRONMENT))
        publishing.run([peer], 120)
        self.stop_when_delivered(sp)
        verdict = publishing.judge(peer, self.backend.samples(), self.expected)
        print("%s: %s" % (peer.label, verdict))
        self.assertGreater(verdict.right, 500)
        self.assertGreaterEqual(verdict.share(), 0.99)
        self.assertEqual(verdict.wrong, 0)
        self.assertLess(verdict.outside_linked, 0.01 * verdict.outside)
        self.assertEqual({s.resource.get("service.name") for s in
                          publishing.own_samples(peer, self.backend.samples())}, {"dd-shop"})

    def expected(self, record):
        return {"spanprof.context.source": "otel_thread", ROOT_KEY: record["root_id"]}


if __name__ == "__main__":
    harness.main()

# SPDX-License-Identifier: Apache-2.0
"""A stock Flask service on Debian's Python, started by `spanprof exec`: its samples are linked to its spans. The short
form of test/peers/test_publish_python.py."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import harness  # noqa: E402
import publisher_services  # noqa: E402
import python_services  # noqa: E402

PACKAGES = ("opentelemetry-distro==0.52b1", "opentelemetry-exporter-otlp-proto-http==1.31.1",
            "opentelemetry-instrumentation-flask==0.52b1", "flask==3.1.0")
SAMPLES = 1500


class Flask(publisher_services.ServicesTest):
    def test_flask(self):
        if python_services.NOT_BUILT:
            self.skipTest(python_services.NOT_BUILT)
        try:
            bin_path = python_services.venv("flask", python_services.STOCK, *PACKAGES)
        except publisher_services.Missing as reason:
            self.skipTest(str(reason))
        make = python_services.maker(self, bin_path, ["flask", "--app", "flask_app", "run", "--port", "{port}"])
        self.judge("flask", make, ["/render", "/wait"], SAMPLES)


if __name__ == "__main__":
    harness.main()

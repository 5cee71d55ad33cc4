# SPDX-License-Identifier: Apache-2.0
"""A stock Java service with OpenTelemetry's agent gets its spans' CPU by our extension: the short form of
test/peers/test_publish_java.py, with this machine's own Java."""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(HERE)), "peers"))
import java_services  # noqa: E402
from java_services import elastic_agents, harness  # noqa: E402

elastic_agents.TIMEOUT_S = 60  # here it is left out rather than waited for


class Java(java_services.ServicesTest):
    samples = 1000

    def test_http_server(self):
        self.with_agent("http-server", 17, "HttpService", arguments=["pool"])


if __name__ == "__main__":
    harness.main()

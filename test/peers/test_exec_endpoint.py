# SPDX-License-Identifier: Apache-2.0
"""Where a stock service sends that was started by `spanprof exec` and nothing else: its spans reach the node by gRPC and by
HTTP, from exporters in code and from those of the environment."""
import ctypes
import os
import subprocess
import sys
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(os.path.dirname(HERE), "integration", "support"), os.path.join(HERE, "sdk"), HERE]
import harness  # noqa: E402
import java_services  # noqa: E402
import publisher_services  # noqa: E402
import publishing_node  # noqa: E402
import python_services  # noqa: E402
import test_publish_node  # noqa: E402

DISTRO = "opentelemetry-distro==0.52b1"
PACKAGES = (DISTRO, "opentelemetry-exporter-otlp==1.31.1")  # which has both protocols
ONE_PROTOCOL = {"grpc": "opentelemetry-exporter-otlp-proto-grpc==1.31.1", "http": "opentelemetry-exporter-otlp-proto-http==1.31.1"}
MISSING = (publisher_services.Missing, java_services.sdk_clients.Missing)

PYTHON = """
import os
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.exporter.otlp.proto.%s.trace_exporter import OTLPSpanExporter
provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
with provider.get_tracer("test").start_as_current_span(os.environ["SPAN"]):
    pass
provider.shutdown()
"""

PYTHON_AUTO = """
import os
from opentelemetry import trace
with trace.get_tracer("test").start_as_current_span(os.environ["SPAN"]):
    pass
"""

NODE = """
const { OTLPTraceExporter } = require('@opentelemetry/exporter-trace-otlp-%s');
const { BatchSpanProcessor } = require('@opentelemetry/sdk-trace-base');
const { NodeTracerProvider } = require('@opentelemetry/sdk-trace-node');
const provider = new NodeTracerProvider({ spanProcessors: [new BatchSpanProcessor(new OTLPTraceExporter())] });
provider.getTracer('test').startSpan(process.env.SPAN).end();
provider.shutdown().then(() => process.exit());
"""

NODE_AUTO = """
const { trace } = require('@opentelemetry/api');
trace.getTracer('test').startSpan(process.env.SPAN).end();
setTimeout(() => process.exit(), 1500);
"""


CLONE_NEWNET = 0x40000000


def python():
    return os.path.join(python_services.venv("exporters", python_services.STOCK, *PACKAGES), "python")


def pythons_of_one():
    return {protocol: os.path.join(python_services.venv("exporter-" + protocol, python_services.STOCK, DISTRO, package), "python")
            for protocol, package in ONE_PROTOCOL.items()}


def node():
    return [*test_publish_node.node("24"), publishing_node.packages()]


def java():
    return [java_services.java(17), java_services.agent(), java_services.compiled("", "HttpService", "Truth.java")]


def go():
    client = java_services.sdk_clients.Go()
    client.install()
    return client.command()


class JavaService(java_services.Service):
    options = None


class Endpoint(harness.IntegrationTest):
    @classmethod
    def setUpClass(cls):
        """What is fetched comes first; then a network of its own, for the node's usual ports may be another's here."""
        for make in (python, pythons_of_one, node, java, go):
            try:
                setattr(cls, "the_" + make.__name__, make())
            except MISSING as reason:
                setattr(cls, "no_" + make.__name__, str(reason))
        if ctypes.CDLL(None).unshare(CLONE_NEWNET):
            raise unittest.SkipTest("no network of its own without root")
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)

    def setUp(self):
        super().setUp()
        self.running = self.spanprof(start=False, sampler=False)
        self.running.grpc_port, self.running.http_port = 4317, 4318
        protocols = self.running.config["receivers"]["otlp"]["protocols"]
        protocols["grpc"]["endpoint"], protocols["http"]["endpoint"] = "localhost:4317", "localhost:4318"
        self.running.start()

    def need(self, language):
        if not hasattr(self, "the_" + language):
            self.skipTest(getattr(self, "no_" + language))
        return getattr(self, "the_" + language)

    def run_command(self, command, folder=None, **environment):
        done = subprocess.run(
            [harness.BINARY, "exec", "--publishers", publisher_services.PUBLISHERS, "--", *command], timeout=120,
            capture_output=True, text=True, cwd=folder or self.directory, env={
                "PATH": os.environ["PATH"], "HOME": self.directory,
                "OTEL_BSP_SCHEDULE_DELAY": "200", "OTEL_NODE_RESOURCE_DETECTORS": "env,host,process",
                "OTEL_METRICS_EXPORTER": "none", "OTEL_LOGS_EXPORTER": "none",
                **environment})
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def assert_arrives(self, name, command, folder=None, **environment):
        """A span of that name, of a program that says nothing."""
        with self.subTest(name):
            self.run_command(command, folder, SPAN=name, **environment)
            harness.wait_until(lambda: self.backend.spans(name), 20, "the span of " + name)

    def test_python(self):
        program = self.need("python")
        for protocol in ("grpc", "http"):
            self.assert_arrives("python-" + protocol, [program, "-c", PYTHON % protocol])
        instrument = os.path.join(os.path.dirname(program), "opentelemetry-instrument")
        for protocol in ({}, {"OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}):
            self.assert_arrives("python %s" % protocol, [instrument, program, "-c", PYTHON_AUTO], **protocol)

    def test_python_with_one_exporter(self):
        """The SDK knows no other exporter, whatever the environment names."""
        for protocol, program in self.need("pythons_of_one").items():
            instrument = os.path.join(os.path.dirname(program), "opentelemetry-instrument")
            self.assert_arrives("python with " + protocol, [instrument, program, "-c", PYTHON_AUTO])

    def test_node(self):
        program, packages = self.need("node")
        for exporter in ("grpc", "proto", "http"):
            self.assert_arrives("node-" + exporter, [program, "-e", NODE % exporter], NODE_PATH=packages)
        for protocol in ({}, {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}):
            self.assert_arrives("node %s" % protocol, [program, "--require", publishing_node.REGISTER, "-e", NODE_AUTO],
                                os.path.dirname(packages), **protocol)

    def test_java(self):
        """The agent's own default is HTTP."""
        program, agent, path = self.need("java")
        for name, protocol in (("java", {}), ("java-grpc", {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"})):
            service = JavaService(self, self.running, name, [
                harness.BINARY, "exec", "--publishers", publisher_services.PUBLISHERS, "--", *program, agent, "-cp", path,
                "service.HttpService", "{port}", "pool"], self.directory, OTEL_METRICS_EXPORTER="none",
                OTEL_LOGS_EXPORTER="none", **protocol)
            harness.wait_until(lambda name=name: any(span.resource.get("service.name") == name for span in self.backend.spans()),
                               30, "spans of " + name)
            self.assertNotRegex(service.stop(), "ERROR|WARN|spanprof_")

    def test_go(self):
        """Exporters in code: gRPC's goes where the environment names the port for HTTP. Without `http://` it would speak TLS."""
        program = self.need("go")
        for protocol in ("http/protobuf", "grpc"):
            command = ["env", "OTEL_EXPORTER_OTLP_PROTOCOL=" + protocol, "OTEL_SERVICE_NAME=go-" + protocol, *program,
                       "%d" % time.time_ns(), "0"]
            self.run_command(command)
            harness.wait_until(lambda protocol=protocol: any(
                span.resource.get("service.name") == "go-" + protocol for span in self.backend.spans()), 20, protocol)


if __name__ == "__main__":
    harness.main()

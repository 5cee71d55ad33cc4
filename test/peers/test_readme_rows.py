# SPDX-License-Identifier: Apache-2.0
"""Each row of the README's table of switches, as it stands there: a shell runs it, and the samples of a stock service are
linked to its spans. What the row leaves open, COMMAND or "...", is the service; what a user has beside it is there:
`spanprof` and the runtime in PATH, the agent's jar, where this node takes spans. A row that is a line of code is in the
program that publish_native runs."""
import os
import re
import shutil
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(os.path.dirname(HERE), "integration", "support"), os.path.join(HERE, "sdk"), HERE]
import harness  # noqa: E402
import java_services  # noqa: E402
import native_programs  # noqa: E402
import publisher_services  # noqa: E402
import publishing_node  # noqa: E402
import python_services  # noqa: E402
import test_publish_dotnet as dotnet  # noqa: E402
import test_publish_node  # noqa: E402
import test_publish_ruby as ruby  # noqa: E402

SAMPLES = 1000
MISSING = (publisher_services.Missing, java_services.sdk_clients.Missing)


def rows():
    """{language: the one switch}"""
    with open(os.path.join(harness.SOURCE, "README.md")) as file:
        table = re.search(r"\n\| service \| the one switch \|.*?\n\n", file.read(), re.S).group()
    return {service.split()[0]: switch for service, switch in re.findall(r"\n\| ([^|]+) \| `([^`]+)`", table)}


def command(language):
    """That runs the row; words of the service follow."""
    return ["sh", "-c", "exec " + re.sub(r"(COMMAND|\.\.\.)$", '"$@"', rows()[language]), "sh"]


def environment(spanprof, *path, **more):
    return {**more, "PATH": ":".join([*path, os.path.dirname(harness.BINARY), os.environ["PATH"]]),
            "OTEL_EXPORTER_OTLP_ENDPOINT": "http://" + spanprof.http_address,
            "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}


class PythonService(publisher_services.Service):
    options = None


class JavaService(java_services.Service):
    options = None


class NodeService(publishing_node.Express):
    options = None


class RubyService(ruby.Service):
    options = None


class DotnetService(dotnet.Service):
    options = None


class Rows(publisher_services.ServicesTest):
    def need(self, what, *arguments, **options):
        try:
            return what(*arguments, **options)
        except MISSING as reason:
            return self.skipTest(str(reason))

    def need_built(self, reason):
        if reason:
            self.skipTest(reason)

    def run_row(self, language, make, *executables):
        self.executables = list(executables)
        self.judge(language.strip(".").lower(), make, SAMPLES)

    def test_python(self):
        self.need_built(python_services.NOT_BUILT)
        path = self.need(python_services.venv, "requirements", self.need(python_services.interpreter, "3.11"), "-r",
                         os.path.join(python_services.SOURCES, "requirements.txt"))
        self.run_row("Python", lambda spanprof, name: PythonService(
            self, spanprof, name, [*command("Python"), "flask", "--app", "flask_app", "run", "--port", "{port}"],
            python_services.SOURCES, **environment(spanprof, path, **python_services.VARIABLES)), "python3.11")

    def test_java(self):
        self.need_built(not os.path.exists(java_services.JAR) and "the publisher is not built: no JDK")
        path = self.need(java_services.compiled, "", "HttpService", "Truth.java")
        java = self.need(java_services.java, 17)[0]
        jar = self.need(java_services.agent).partition(":")[2]
        os.symlink(jar, os.path.join(self.directory, "opentelemetry-javaagent.jar"))
        self.run_row("Java", lambda spanprof, name: JavaService(
            self, spanprof, name, [*command("Java"), "-cp", path, "service.HttpService", "{port}", "pool"], self.directory,
            **environment(spanprof, os.path.dirname(java), OTEL_METRICS_EXPORTER="none", OTEL_LOGS_EXPORTER="none")), "java")

    def test_node(self):
        self.need_built(publishing_node.why_not_built())
        self.need(publishing_node.packages)
        node = self.need(test_publish_node.node, "24")[0]
        self.run_row("Node", lambda spanprof, name: NodeService(
            self, spanprof, name, command("Node"), "express_app.js", **environment(spanprof, os.path.dirname(node))), "node")

    def test_ruby(self):
        rubies = ruby.rubies()
        self.need_built(not rubies and "the publisher is not built: no ruby-dev")
        program = next(iter(rubies.values()))
        self.need_built(ruby.why_not(program, *ruby.PARTS) or (not shutil.which("rackup") and "no rackup"))
        self.run_row("Ruby", lambda spanprof, name: RubyService(
            self, spanprof, name, [*command("Ruby"), program, shutil.which("rackup"), "-q", "-s", "webrick", "-E", "none", "-o",
                                   "127.0.0.1", "-p", "{port}"], ruby.SOURCES,
            **environment(spanprof, **ruby.environment(OTEL_TRACES_EXPORTER="otlp"))), os.path.basename(program))

    def test_dotnet(self):
        """The service is a startup hook too, and does not return: it comes behind the publisher's."""
        self.need_built(not os.path.exists(dotnet.PUBLISHER) and "the publisher is not built: no mono-mcs")
        host = self.need(dotnet.runtime_10)
        service = ["sh", "-c", 'DOTNET_STARTUP_HOOKS=$DOTNET_STARTUP_HOOKS:$0 exec "$@"', dotnet.build(self.directory), *host]
        self.run_row(".NET", lambda spanprof, name: DotnetService(
            self, spanprof, name, [*command(".NET"), *service], **environment(spanprof, **dotnet.environment(
                PROGRAM="service", PORT="{port}", OTLP_PORT=spanprof.http_address.rpartition(":")[2]))),
            os.path.basename(host[0]))

    def test_lines_of_code(self):
        for language, path in (("Go", "go/main.go"), ("Rust", "rust/src/lib.rs"), ("C++", "cpp/set_up.h")):
            with open(native_programs.sources(path)) as file:
                self.assertIn(rows()[language], file.read())

    def test_no_row_is_left_out(self):
        self.assertEqual(set(rows()), {"Python", "Java", "Node", "Go", "Rust", "Ruby", ".NET", "C++"})


if __name__ == "__main__":
    harness.main()

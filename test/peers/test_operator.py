# SPDX-License-Identifier: Apache-2.0
"""The ways of docs/deployment.md under the OpenTelemetry Operator, without a cluster: stock services with the environment
and the files that version 0.158 of the operator gives to a container (internal/instrumentation/{sdk,python,nodejs,
javaagent}.go, autoinstrumentation/*/Dockerfile there), in folders of the test instead of the container's."""
import os
import re
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "integration", "service")]
import java_services  # noqa: E402
import publisher_services  # noqa: E402
import publishing_node  # noqa: E402
import python_services  # noqa: E402
from java_services import harness, sdk_clients  # noqa: E402
from test_deployment import example  # noqa: E402

SAMPLES = 1500
PUBLISHERS = "/usr/lib/spanprof/publishers"
PACKAGES = ("opentelemetry-distro==0.65b0", "opentelemetry-exporter-otlp-proto-http==1.44.0",
            "opentelemetry-instrumentation-flask==0.65b0")  # of the operator's requirements.txt


def pod_variables():
    """Name and value of each in the example of a pod, in their order."""
    return dict(re.findall(r'- {name: (\w+), value: "?(.*?)"?}', example("publishers")))


def resource():
    """What the example of an Instrumentation says: exporter.endpoint, java.extensions[0].dir."""
    return re.search(r'endpoint: "(.*?)"', example("operator")).group(1), \
        re.search(r"dir: (\S+?)}", example("operator")).group(1)


def image_steps(language):
    """The lines behind FROM of that language's image."""
    with open(os.path.join(harness.SOURCE, "docs", "deployment.md")) as file:
        text = re.search(r"<!-- example: operator images -->\n```dockerfile\n(.*?)```", file.read(), re.S).group(1)
    return re.search(r"FROM \S*-%s\n(.*?)(?:\n\n|\Z)" % language, text, re.S).group(1).strip().splitlines()


class Container:
    """Of a pod that the operator has seen. root: the folder that stands for its root directory."""

    def __init__(self, root, with_lines):
        self.root = root
        self.env = pod_variables() if with_lines else {}
        if not with_lines:
            self.env["OTEL_EXPORTER_OTLP_ENDPOINT"] = resource()[0]

    def copy(self, source, target):
        shutil.copytree(source, self.root + target, dirs_exist_ok=True, symlinks=True)

    def build(self, language):
        """Makes the image of docs/deployment.md of the operator's in this root."""
        for step in image_steps(language):
            word, _, rest = step.partition(" ")
            if word == "COPY":
                source, target = rest.split()
                self.copy(os.path.join(harness.BUILD, source), target)
            else:
                assert word == "RUN", step
                subprocess.run(["sh", "-ec", rest.replace("/autoinstrumentation", self.root + "/autoinstrumentation", 1)],
                               check=True)

    def python(self):
        self.copy(self.root + "/autoinstrumentation", "/otel-auto-instrumentation-python")
        front = "/otel-auto-instrumentation-python/opentelemetry/instrumentation/auto_instrumentation"
        self.env["PYTHONPATH"] = ":".join([front, *filter(None, [self.env.get("PYTHONPATH")]),
                                           "/otel-auto-instrumentation-python"])
        self.env.setdefault("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")

    def nodejs(self):
        self.copy(self.root + "/autoinstrumentation", "/otel-auto-instrumentation-nodejs")
        self.env["NODE_OPTIONS"] = self.env.get("NODE_OPTIONS", "") + \
            " --require /otel-auto-instrumentation-nodejs/autoinstrumentation.js"

    def java(self, jar, extensions):
        folder = "/otel-auto-instrumentation-java-shop"
        os.makedirs(self.root + folder)
        shutil.copy(jar, self.root + folder + "/javaagent.jar")
        options = self.env.get("JAVA_TOOL_OPTIONS", "") + " -javaagent:%s/javaagent.jar" % folder
        if extensions:
            self.copy(self.root + extensions, folder + "/extensions")
            options += " -Dotel.javaagent.extensions=%s/extensions" % folder
        self.env["JAVA_TOOL_OPTIONS"] = options

    def variables(self, spanprof):
        """With the folders that stand for the container's, and the test's node."""
        address = spanprof.http_address
        found = {}
        for name, value in self.env.items():
            value = value.replace(PUBLISHERS, publisher_services.PUBLISHERS)
            value = re.sub(r"/otel-auto-instrumentation", lambda match: self.root + match.group(), value)
            found[name] = re.sub(r"\$\((?:HOST_IP|OTEL_NODE_IP)\):4318", address, value)
        return found


class Service(publisher_services.Service):
    options = None
    complaints = r"spanprof\.otel:|spanprof_|not publishing|Traceback"

    def stop(self):
        self.kill()  # what it had to say it has sent
        return self.output()


class NodeService(Service):
    burning = 0.7  # in pieces of 2 to 4 ms: what lies at their edges is not judged


class Operator(publisher_services.ServicesTest):
    executables = ["java", "node", "nodejs", os.path.basename(os.path.realpath(python_services.STOCK))]

    def container(self, with_lines):
        root = os.path.join(self.directory, "root")
        os.makedirs(root)
        return Container(root, with_lines)

    def have(self, what, *arguments):
        try:
            return what(*arguments)
        except (publisher_services.Missing, sdk_clients.Missing) as reason:
            return self.skipTest(str(reason))

    def run_service(self, name, container, command, cwd, kind=Service, **environment):
        self.judge(name, lambda spanprof, service: kind(
            self, spanprof, service, command, cwd, **{"OTEL_METRICS_EXPORTER": "none", "OTEL_LOGS_EXPORTER": "none",
                                                      **environment, **container.variables(spanprof)}), SAMPLES)

    # ---- Python ----

    def python(self, with_lines):
        if python_services.NOT_BUILT:
            self.skipTest(python_services.NOT_BUILT)
        bin_path = self.have(python_services.venv, "operator", python_services.STOCK, "flask==3.1.0")
        container = self.container(with_lines)
        image = os.path.join(python_services.BUILT, "operator-image")
        if not os.path.exists(image):
            self.have(publisher_services.run, [*python_services.pip(os.path.dirname(bin_path)), "install", "--target",
                                               image, *PACKAGES])
        container.copy(image, "/autoinstrumentation")
        if not with_lines:
            container.build("python")
        container.python()
        self.run_service("operator-python", container, [os.path.join(bin_path, "flask"), "--app", "flask_app", "run", "--port",
                                                        "{port}"], python_services.SOURCES, PYTHONDONTWRITEBYTECODE="1")

    def test_python(self):
        self.python(True)

    def test_python_image(self):
        self.python(False)

    # ---- Node ----

    def node(self, with_lines):
        reason = publishing_node.why_not_built()
        node = shutil.which("nodejs") or shutil.which("node")
        if reason or not node:
            self.skipTest(reason or "no nodejs")
        packages = self.have(publishing_node.packages)
        container = self.container(with_lines)
        os.makedirs(container.root + "/autoinstrumentation")
        os.symlink(packages, container.root + "/autoinstrumentation/node_modules")
        container.copy(os.path.join(packages, "@opentelemetry/auto-instrumentations-node/build/src"), "/autoinstrumentation")
        os.link(container.root + "/autoinstrumentation/register.js",
                container.root + "/autoinstrumentation/autoinstrumentation.js")
        if not with_lines:
            container.build("nodejs")
        container.nodejs()
        self.run_service("operator-node", container, [node, os.path.join(publishing_node.SOURCES, "express_app.js")],
                         self.directory, NodeService, PORT="{port}", NODE_PATH=packages)

    def test_node(self):
        self.node(True)

    def test_node_image(self):
        self.node(False)

    # ---- Java ----

    def java(self, with_lines):
        if not os.path.exists(java_services.JAR):
            self.skipTest("the publisher is not built: no JDK")
        container = self.container(with_lines)
        path = self.have(java_services.compiled, "", "HttpService", "Truth.java")
        command = self.have(java_services.java, 17)
        extensions = None
        if not with_lines:
            extensions = resource()[1]
            container.copy(os.path.dirname(java_services.JAR), extensions)
        container.java(self.have(java_services.agent).partition(":")[2], extensions)
        self.run_service("operator-java", container, [*command, "-cp", path, "service.HttpService", "{port}", "pool"],
                         self.directory)

    def test_java(self):
        self.java(True)

    def test_java_image(self):
        self.java(False)


if __name__ == "__main__":
    harness.main()

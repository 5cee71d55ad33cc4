# SPDX-License-Identifier: Apache-2.0
"""Stock services on Node with the publisher of context/node (sources: test/peers/publishers/node), under load."""
import json
import os
import shutil
import signal
import urllib.request

import harness
import publisher_services
import publishing
from publisher_services import Missing, run

SOURCES = os.path.join(harness.SOURCE, "test", "peers", "publishers", "node")
TREE = os.path.join(harness.BUILD, "publishers", "node")
INSTALLED = os.path.join(harness.SOURCE, "build", "peers", "publish_node")
REGISTER = "@opentelemetry/auto-instrumentations-node/register"


def install(name, folder):
    """Its node_modules: what package-lock.json of the folder names, fetched once. Raises Missing."""
    target = os.path.join(INSTALLED, name)
    with open(os.path.join(folder, "package-lock.json")) as file:
        wanted = file.read()
    ready = os.path.join(target, "ready")
    if os.path.exists(ready):
        with open(ready) as file:
            if file.read() == wanted:
                return os.path.join(target, "node_modules")
    if not shutil.which("npm"):
        raise Missing("no npm in PATH")
    os.makedirs(target, exist_ok=True)
    for source in ("package.json", "package-lock.json"):
        shutil.copy(os.path.join(folder, source), target)
    run(["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"], cwd=target)
    with open(ready, "w") as file:
        file.write(wanted)
    return os.path.join(target, "node_modules")


def packages():
    """The SDK, Express and Fastify. Raises Missing."""
    return install("app", SOURCES)


def preload(*more):
    """NODE_OPTIONS."""
    return " ".join(["--require", os.path.join(TREE, "preload.js"), *more])


def why_not_built():
    if not os.path.exists(os.path.join(TREE, "spanprof_context.node")):
        return "the publisher is not built: no node_api.h (libnode-dev)"
    return None


class Service(publisher_services.Service):
    complaints = "spanprof|Error|at .*publisher"
    end = signal.SIGKILL  # the SDK does not end at a signal that it handles

    def __init__(self, test, spanprof, name, node, program, *options, **environment):
        super().__init__(
            test, spanprof, name, [*node, *options, os.path.join(SOURCES, program)], cwd=os.path.dirname(packages()),
            **{"PORT": "{port}", "NODE_PATH": packages(), "OTEL_METRICS_EXPORTER": "none", "OTEL_LOGS_EXPORTER": "none",
               "OTEL_NODE_RESOURCE_DETECTORS": "env,host,os,process,serviceinstance", **environment})

    def stop(self):
        self.kill()  # what it had to say it has sent
        return self.output()

    def ask(self, path):
        """The answer's JSON."""
        with urllib.request.urlopen("http://127.0.0.1:%d%s" % (self.port, path), timeout=30) as answer:
            return json.loads(answer.read())


class Express(Service):
    paths = ["/render", "/callbacks", "/wait"]
    burning = 1.4  # two, in pieces of 2 to 5 ms: what lies at their edges is not judged


class Fastify(Service):
    paths = ["/render", "/computed", "/served", "/wait"]
    burning = 2.1


class PublishNode(publishing.PublishersTest):
    def setUp(self):
        super().setUp()
        reason = why_not_built()
        if reason:
            self.skipTest(reason)
        try:
            packages()
        except Missing as missing:
            self.skipTest(str(missing))


class ServicesTest(publisher_services.ServicesTest, PublishNode):
    """With the SDK's start script on the command line, behind the publisher's in NODE_OPTIONS."""
    executables = ["node", "nodejs"]
    outside = 15

    def run_service(self, name, kind, node, program, samples=publisher_services.SAMPLES, **environment):
        self.judge(name, lambda spanprof, service: kind(self, spanprof, service, node, program, "--require", REGISTER,
                                                        **environment), samples)

# SPDX-License-Identifier: Apache-2.0
"""The demo's stock services: Flask and Express with OpenTelemetry's own instrumentation, started by `spanprof exec`.

They are there if their runtime is and its packages can be had; their packages are installed once, below build/demo.
"""
import json
import os
import shutil
import subprocess
import sys

import harness

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGES = os.path.join(harness.SOURCE, "build", "demo")
INSTALL_S = 180


class Stock:
    """name: of the service; file: its source; packages: what is installed for it."""

    def __init__(self, name, runtime, file, publisher, packages):
        self.name, self.runtime, self.file, self.packages = name, runtime, file, packages
        self.publisher = os.path.join(harness.BUILD, "publishers", publisher)
        self.folder = os.path.join(PACKAGES, name)
        self.process = None

    def why_not(self):
        """None once it can be started; else the reason."""
        if not os.path.exists(self.publisher):
            return "its publisher is not built"
        if not self.found():
            return "no %s on this machine" % self.runtime
        ready = os.path.join(self.folder, "ready")
        if os.path.exists(ready) and open(ready).read() == " ".join(self.packages):
            return None
        print("installing once, below build/demo: %s" % " ".join(self.packages), file=sys.stderr, flush=True)
        shutil.rmtree(self.folder, ignore_errors=True)
        os.makedirs(self.folder)
        try:
            for command in self.install():
                subprocess.run(command, check=True, timeout=INSTALL_S, cwd=self.folder, stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE)
        except (OSError, subprocess.SubprocessError) as error:
            words = (getattr(error, "stderr", None) or str(error).encode()).decode(errors="replace").strip()
            return "its packages cannot be installed: " + words.splitlines()[-1]
        with open(ready, "w") as file:
            file.write(" ".join(self.packages))
        return None

    def start(self, port, endpoint, log):
        self.process = subprocess.Popen(
            [harness.BINARY, "exec", "--endpoint", "http://" + endpoint, "--", *self.command(port)],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder,
            env={"PATH": os.environ["PATH"], "HOME": self.folder, "PORT": str(port), "OTEL_SERVICE_NAME": self.name,
                 "OTEL_BSP_SCHEDULE_DELAY": "1000", "OTEL_METRICS_EXPORTER": "none", "OTEL_LOGS_EXPORTER": "none",
                 "OTEL_NODE_RESOURCE_DETECTORS": "env,host,process"})

    def stop(self):
        if not self.process:
            return
        self.process.terminate()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()


class Flask(Stock):
    def __init__(self):
        super().__init__("recommend", "python3", "recommend.py", "python/spanprof_otel/_native.abi3.so", (
            "flask", "opentelemetry-distro", "opentelemetry-exporter-otlp-proto-http",
            "opentelemetry-instrumentation-flask"))
        self.bin = os.path.join(self.folder, "venv", "bin")

    def found(self):
        return os.access("/usr/bin/python3", os.X_OK)

    def install(self):
        yield ["/usr/bin/python3", "-m", "venv", "venv"]
        yield [os.path.join(self.bin, "pip"), "-q", "install", *self.packages]

    def command(self, port):
        return [os.path.join(self.bin, "opentelemetry-instrument"), os.path.join(self.bin, "flask"), "--app",
                os.path.join(HERE, self.file), "run", "--port", str(port)]


class Express(Stock):
    def __init__(self):
        super().__init__("invoice", "node", "invoice.js", "node/spanprof_context.node", (
            "express@4", "@opentelemetry/api@1", "@opentelemetry/auto-instrumentations-node"))
        self.node = shutil.which("node")

    def found(self):
        return self.node and shutil.which("npm")

    def install(self):
        with open(os.path.join(self.folder, "package.json"), "w") as file:
            json.dump({"private": True}, file)
        yield ["npm", "install", "--no-audit", "--no-fund", *self.packages]

    def command(self, port):
        shutil.copy(os.path.join(HERE, self.file), self.folder)  # where node looks for its packages
        return [self.node, "--require", "@opentelemetry/auto-instrumentations-node/register",
                os.path.join(self.folder, self.file)]


def services():
    return [Flask(), Express()]

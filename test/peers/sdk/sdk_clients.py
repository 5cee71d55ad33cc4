# SPDX-License-Identifier: Apache-2.0
"""OpenTelemetry SDKs, fetched from their registries into build/peers, each with the program of this folder that
makes its spans. install() raises Missing, with the reason, where that cannot be done."""
import hashlib
import os
import platform
import re
import shutil
import subprocess

import elastic_agents
import go_toolchain

HERE = os.path.dirname(os.path.abspath(__file__))
PEERS = elastic_agents.PEERS
GRPC, HTTP, JSON = "grpc", "http/protobuf", "http/json"
JAVA_AGENT = "io.opentelemetry.javaagent:opentelemetry-javaagent:2.31.0"
INSTALL_TIMEOUT_S = 1800


class Missing(Exception):
    """What cannot be had here; the text says why."""


def need(*programs):
    for program in programs:
        if not shutil.which(program):
            raise Missing("no %s in PATH" % program)


def run(command, **options):
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_TIMEOUT_S, **options)
    except subprocess.TimeoutExpired as error:
        raise Missing(str(error)) from error
    if done.returncode:
        raise Missing("%s: %s" % (" ".join(command[:3]), (done.stderr or done.stdout)[-500:]))


class Client:
    """source: the folder of its program; needs: what runs it. certificate: OTEL_EXPORTER_OTLP_CERTIFICATE works for these protocols;
    retries: with these it comes again when it is told to. omits: what its SDK does not send: flags, trace_state.
    """
    source = ""
    needs = ()
    protocols = (GRPC, HTTP)
    compressions = ("none", "gzip")
    certificate = retries = (GRPC, HTTP)
    omits = ()
    harmless = re.compile("$^")  # lines that it writes when nothing is wrong

    def __init__(self):
        self.sources = os.path.join(HERE, self.source)
        self.folder = os.path.join(PEERS, "sdk", self.source)

    def install(self):
        """Again only if something in the folder of its program changed."""
        need(*self.needs)
        digest = hashlib.sha256()
        for path, folders, names in os.walk(self.sources):
            folders.sort()
            for name in sorted(names):
                with open(os.path.join(path, name), "rb") as file:
                    digest.update(name.encode() + file.read())
        stamp = os.path.join(self.folder, "installed-" + digest.hexdigest()[:16])
        if os.path.exists(stamp):
            return
        shutil.copytree(self.sources, self.folder, dirs_exist_ok=True)
        self.fetch()
        open(stamp, "w").close()

    def fetch(self):
        raise NotImplementedError

    def command(self):
        raise NotImplementedError

    def environment(self):
        return {}


class JavaScript(Client):
    """The newest for Node 20."""
    source = "js"
    needs = ("node",)
    protocols = certificate = (GRPC, HTTP, JSON)
    retries = (HTTP, JSON)
    harmless = re.compile("Client key and certificate must both be provided, but one was missing")

    def fetch(self):
        need("npm")
        run(["npm", "ci", "--no-audit", "--no-fund"], cwd=self.folder)

    def command(self):
        return ["node", os.path.join(HERE, "js", "spans.js")]

    def environment(self):
        return {"NODE_PATH": os.path.join(self.folder, "node_modules")}


class JavaScriptLatest(JavaScript):
    """With a Node of its own, which is a package as well."""
    source = "js_latest"
    needs = ()

    def fetch(self):
        if platform.machine() != "x86_64":
            raise Missing("its Node is for x86-64")
        super().fetch()

    def command(self):
        return [os.path.join(self.folder, "node_modules", ".bin", "node"), *super().command()[1:]]


class Python(Client):
    source = "python"
    protocols = certificate = retries = (GRPC, HTTP, JSON)
    omits = ("flags", "trace_state")

    def fetch(self):
        venv = os.path.join(self.folder, "venv")
        run(["/usr/bin/python3", "-m", "venv", venv])
        run([os.path.join(venv, "bin", "pip"), "-q", "install", "-r", os.path.join(self.folder, "requirements.txt")])

    def command(self, program="spans.py"):
        return [os.path.join(self.folder, "venv", "bin", "python"), os.path.join(self.folder, program)]


class Java(Client):
    """The program knows the API alone; the agent has the SDK."""
    source = "java"
    needs = ("java",)
    harmless = re.compile(r".* INFO .*opentelemetry-javaagent - version|.*Sharing is only supported for boot loader")

    def fetch(self):
        need("javac")
        libraries, classes = (os.path.join(self.folder, name) for name in ("lib", "classes"))
        try:
            elastic_agents.maven("copy-dependencies", "-f", os.path.join(self.folder, "pom.xml"),
                                 "-DoutputDirectory=" + libraries)
            elastic_agents.artifact(JAVA_AGENT)
        except elastic_agents.Missing as reason:
            raise Missing(str(reason)) from reason
        run(["javac", "-Xlint:all", "-Werror", "-encoding", "UTF-8", "--release", "11", "-d", classes, "-cp",
             libraries + "/*", os.path.join(self.folder, "Spans.java")])

    def command(self):
        path = ":".join([os.path.join(self.folder, "classes"), os.path.join(self.folder, "lib", "*")])
        return ["java", "-javaagent:" + elastic_agents.artifact(JAVA_AGENT), "-cp", path, "Spans"]

    def environment(self):
        return {"OTEL_INSTRUMENTATION_COMMON_DEFAULT_ENABLED": "false",
                "OTEL_INSTRUMENTATION_OPENTELEMETRY_API_ENABLED": "true",
                "OTEL_JAVAAGENT_ADD_THREAD_DETAILS": "false",
                "OTEL_METRICS_EXPORTER": "none", "OTEL_LOGS_EXPORTER": "none"}


class Go(Client):
    source = "go"
    omits = ("trace_state",)

    def fetch(self):
        if not go_toolchain.GO:
            raise Missing("no go in PATH")
        run([go_toolchain.GO, "build", "-mod=readonly", "-o", os.path.join(self.folder, "bin", "spans"), "."],
            cwd=self.folder, env=go_environment())

    def command(self):
        return [os.path.join(self.folder, "bin", "spans")]


class Rust(Client):
    """Certificates are not read from the environment: the program does it, for gRPC."""
    source = "rust"
    protocols = retries = (GRPC, HTTP, JSON)
    compressions = ("none", "gzip", "zstd")
    certificate = (GRPC,)

    def fetch(self):
        need("cargo")
        run(["cargo", "build", "-q"], cwd=self.folder,
            env=dict(os.environ, CARGO_HOME=os.path.join(PEERS, "cargo"), CARGO_TARGET_DIR=self.folder + "/target"))

    def command(self):
        return [os.path.join(self.folder, "target", "debug", "spans")]


def go_environment(**more):
    return dict(os.environ, GOPATH=os.path.join(go_toolchain.HOME, "path"), GOFLAGS="-modcacherw", GO111MODULE="on",
                GOTOOLCHAIN="local", **more)


def go_program(package, version):
    """The path of a program that Go's module proxy has, built."""
    if not go_toolchain.GO:
        raise Missing("no go in PATH")
    folder = os.path.join(go_toolchain.HOME, "bin", version)
    path = os.path.join(folder, os.path.basename(package))
    if not os.path.exists(path):
        run([go_toolchain.GO, "install", package + "@" + version], env=go_environment(GOBIN=folder))
    return path

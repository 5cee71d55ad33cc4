# SPDX-License-Identifier: Apache-2.0
"""The examples of docs/deployment.md, and the rights of the systemd unit: as daemon, sidecar and node agent."""
import errno
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))
import harness  # noqa: E402
import sender  # noqa: E402
import unix_listener  # noqa: E402

README = os.path.join(harness.SOURCE, "README.md")
DOCUMENT = os.path.join(harness.SOURCE, "docs", "deployment.md")
UNIT = os.path.join(harness.SOURCE, "packaging", "spanprof.service")
STRANGER, COLLECTOR = 12345, 12346
NOT_OURS = ["daemonset", "publishers", "operator", "operator images", "the Collector's drop-in"]  # each has its test
CONNECT = """
import socket, sys
sys.exit(socket.socket(socket.AF_UNIX).connect_ex(sys.argv[1]))
"""
SIDECAR = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", "setpriv", "--reuid", "nobody",
           "--regid", "nogroup", "--clear-groups", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"]


def connect_as(user, path):
    """0, or errno."""
    return subprocess.run(["setpriv", "--reuid=%d" % user, "--regid=%d" % user, "--clear-groups",
                           sys.executable, "-c", CONNECT, path]).returncode


def example(name):
    with open(DOCUMENT) as file:
        return re.search(r"<!-- example: %s -->\n```\w+\n(.*?)```" % re.escape(name), file.read(), re.S).group(1)


def blocks(document):
    """Name (or "") and text of each."""
    with open(document) as file:
        return re.findall(r"^(?:<!-- example: (.*?) -->\n)?```(?:yaml|ini|dockerfile)\n(.*?)^```$", file.read(), re.S | re.M)


def unit_capabilities():
    with open(UNIT) as file:
        lines = re.findall(r"^CapabilityBoundingSet=(.*)$", file.read(), re.M)
    return sorted(name[4:].lower() for line in lines for name in line.split())


def setpriv(capabilities):
    """With these capabilities alone, as a service manager would start it."""
    return ["setpriv", "--bounding-set=-all," + ",".join("+" + name for name in capabilities),
            "--inh-caps=-all", "--no-new-privs"]


class Examples(unittest.TestCase):
    def test_are_valid(self):
        names = [name for name, text in blocks(DOCUMENT) if "pipelines:" in text]
        self.assertEqual(sorted(names + NOT_OURS), sorted(name for name, _ in blocks(DOCUMENT)))
        for name in names:
            self.validate(name, example(name))

    def test_of_the_readme_are_valid(self):
        """The first one is whole, and each other changes it."""
        (_, first), *others = blocks(README)
        self.validate("the first", first)
        self.assertGreaterEqual(len(others), 4)
        for _, text in others:
            under = first.replace("tls: {insecure: true}", "") if "ca_file" in text else first
            self.validate(text, under, text)

    def validate(self, what, *texts):
        arguments = []
        with tempfile.TemporaryDirectory() as directory:
            for i, text in enumerate(texts):
                path = os.path.join(directory, "%d.yaml" % i)
                with open(path, "w") as file:
                    file.write(text)
                arguments += ["--config", path]
            code, _, errors = harness.run_spanprof("validate", *arguments, env=harness.environment(TOKEN="secret"))
        self.assertEqual((code, errors), (0, ""), what)

    def test_the_node_agent_has_the_capabilities_of_the_unit(self):
        names = re.search(r"add: \[(.*?)\]", example("daemonset")).group(1)
        self.assertEqual(sorted(name.lower() for name in names.split(", ")), unit_capabilities())

    def test_the_publishers_variables_are_those_of_exec(self):
        publishers = os.path.join(harness.BUILD, "publishers")
        for file in ("python/spanprof_otel/_native.abi3.so", "java/spanprof-java.jar", "node/spanprof_context.node"):
            if not os.path.exists(os.path.join(publishers, file)):
                self.skipTest("%s is not built" % file)
        printed = harness.run_spanprof("exec", "--publishers", publishers, "--print=kubernetes")[1]
        wanted = dict(re.findall(r'- name: (\w+)\n +value: "(.*?)"', printed.replace(publishers, "/usr/lib/spanprof/publishers")))
        shown = dict(re.findall(r"- {name: (\w+), value: \"?(.*?)\"?}", example("publishers")))
        self.assertEqual(shown, wanted)

    def test_the_unit_is_sound(self):
        if not shutil.which("systemd-analyze"):
            self.skipTest("needs systemd-analyze")
        done = subprocess.run(["systemd-analyze", "verify", "--man=no", UNIT], capture_output=True, text=True)
        complaints = [line for line in done.stderr.splitlines()
                      if "spanprof.service" in line and "not executable" not in line]
        self.assertEqual(complaints, [])

    def test_the_collectors_drop_in_is_sound(self):
        if not shutil.which("systemd-analyze"):
            self.skipTest("needs systemd-analyze")
        with tempfile.TemporaryDirectory() as directory:
            unit = os.path.join(directory, "otelcol-contrib.service")
            with open(unit, "w") as file:
                file.write("[Service]\nExecStart=/bin/true\nUser=root\n")
            os.mkdir(unit + ".d")
            with open(os.path.join(unit + ".d", "spanprof.conf"), "w") as file:
                file.write(example("the Collector's drop-in").replace("Group=spanprof", "Group=root"))
            done = subprocess.run(["systemd-analyze", "verify", "--man=no", unit], capture_output=True, text=True)
        self.assertEqual([line for line in done.stderr.splitlines() if "otelcol-contrib" in line], [])


@harness.needs_root
class Places(harness.IntegrationTest):
    def start(self, launcher, name, sampler):
        self.configure(launcher, name, sampler)
        return self.sp.start()

    def configure(self, launcher, name, sampler, paths=None):
        """The example, at this test's ports, store and backend."""
        self.sp = self.spanprof(start=False, sampler=False)
        text = example(name)
        for place, value in {"localhost:4317": self.sp.grpc_address, "localhost:4318": self.sp.http_address,
                             "localhost:14317": self.backend.address}.items():
            text = text.replace('"%s"' % place, '"%s"' % value)
        for path, value in {"/var/lib/spanprof": self.sp.store, **(paths or {})}.items():
            text = text.replace(path, value)
        self.sp.launcher = launcher
        self.sp.text = text
        self.sp.extra = ["--set", "service.telemetry.metrics.address=127.0.0.1:%d" % self.sp.metrics_port,
                         "--set", "extensions.sqlite_storage.directory=" + self.sp.store,
                         "--set", "service.extensions=[sqlite_storage]"]
        if sampler:
            self.sp.extra += ["--set", "receivers.sampler.frequency=97"]

    def send_and_see(self):
        body, ids = sender.request_of(5)
        sender.GrpcSender(self.sp.grpc_address).send(body)
        sender.post(self.sp.http_address, body)
        self.backend.wait(lambda: set(ids) <= {span.span_id for span in self.backend.spans()},
                          15, "spans at the backend")

    @harness.needs_sampling
    def test_with_the_capabilities_of_the_unit(self):
        self.start(setpriv(unit_capabilities()), "in front", True)
        self.send_and_see()
        self.sp.wait_sampling()
        self.assertIsNotNone(self.sp.symbolizer)
        worker = subprocess.Popen(["sh", "-c", "while :; do :; done"])
        try:
            self.backend.wait(lambda: self.backend.samples(worker.pid), 30, "profiles")
        finally:
            worker.kill()
            worker.wait()
        self.assertNotIn("Operation not permitted", self.sp.log())

    @harness.needs_sampling
    def test_as_node_agent(self):
        """In namespaces of its own but for PIDs; what runs outside is sampled."""
        launcher = ["unshare", "--mount", "--uts", "--ipc", "--cgroup"] + setpriv(unit_capabilities())
        self.start(launcher, "in front", True)
        worker = subprocess.Popen(["sh", "-c", "while :; do :; done"])
        try:
            self.backend.wait(lambda: self.backend.samples(worker.pid), 30, "profiles")
        finally:
            worker.kill()
            worker.wait()
        self.send_and_see()

    def stop_init(self):
        """It is PID 1 of its namespace; as a container's runtime does it."""
        self.sp.may_end = True
        init = next(pid for pid in harness.children_of(self.sp.process.pid)
                    if harness.status_of(pid)["NSpid"].split()[1:] == ["1"])
        os.kill(init, signal.SIGTERM)
        self.assertEqual(self.sp.process.wait(15 * harness.SLOWNESS), 0)

    def test_unix_sockets(self):
        """Of each peer the kernel says who it is; the Collector's socket is not for all."""
        directory = os.path.join(self.directory, "run")
        for path in (directory, os.path.join(directory, "collector")):
            os.mkdir(path)
            os.chmod(path, 0o755)
        os.chown(path, COLLECTOR, COLLECTOR)
        os.chmod(self.directory, 0o755)
        self.configure([], "unix sockets", True, {"/run/spanprof": directory})
        self.sp.launch()
        harness.wait_until(lambda: "ready: " in self.sp.log(), 20, "it is ready")
        body, ids = sender.request_of(5)
        sender.GrpcSender("unix://%s/otlp.sock" % directory).send(body)
        self.backend.wait(lambda: set(ids) <= {span.span_id for span in self.backend.spans()}, 15, "spans")
        self.assertGreater(self.sp.metric("spanprof_peers_total", 'by="asked"'), 0)
        self.assertEqual(self.sp.metric("spanprof_peers_total", 'by="unknown"'), 0)
        sockets = directory + "/otlp.sock", directory + "/collector/otlp.sock"
        self.assertEqual([connect_as(STRANGER, path) for path in sockets], [0, errno.EACCES])
        self.assertEqual([connect_as(COLLECTOR, path) for path in sockets], [0, 0])

    def test_in_front_of_a_collector_at_a_unix_socket(self):
        """Its directory and socket as the drop-in has them made: of its user, for the group of spanprof's service."""
        dropin = dict(line.split("=") for line in example("the Collector's drop-in").splitlines()[1:])
        place = tempfile.mkdtemp(prefix="spanprof-test-", dir="/run")  # on a way that is root's
        self.addCleanup(shutil.rmtree, place)
        os.chmod(place, 0o755)
        run = os.path.join(place, dropin["RuntimeDirectory"])
        self.configure([], "in front, by a Unix socket", True, {"/run/otelcol-contrib": run})
        self.sp.extra += ["--set", "exporters.otlp_grpc.retry_on_failure.initial_interval=100ms"]
        self.sp.start()
        body, ids = sender.request_of(5)
        sender.GrpcSender(self.sp.grpc_address).send(body)
        harness.wait_until(lambda: "cannot connect to %s/otlp.sock: No such file" % run in self.sp.log(), 20, "it is away")
        group = int(harness.status_of(self.sp.service)["Gid"].split()[0])
        os.mkdir(run)
        os.chown(run, COLLECTOR, group)
        os.chmod(run, int(dropin["RuntimeDirectoryMode"], 8))
        self.assertEqual(connect_as(STRANGER, os.path.join(run, "otlp.sock")), errno.EACCES)
        collector = unix_listener.Backend(os.path.join(run, "otlp.sock"), COLLECTOR, group, int(dropin["UMask"], 8))
        self.addCleanup(collector.stop)
        collector.start()
        harness.wait_until(lambda: set(ids) <= collector.span_ids(), 40, "the spans are there")

    def test_as_sidecar(self):
        os.chmod(self.directory, 0o777)
        self.start(SIDECAR, "sidecar", False)
        self.send_and_see()
        status = harness.status_of(self.sp.service)
        self.assertEqual((int(status["CapEff"], 16), status["NSpid"].split()[1:] != []), (0, True))
        self.assertNotIn("sampling", self.sp.log().replace("receiving spans", ""))
        self.stop_init()

    def test_a_sidecar_that_names_the_sampler_says_so_once(self):
        os.chmod(self.directory, 0o777)
        self.start(SIDECAR, "in front", True)
        self.send_and_see()
        self.assertEqual(self.sp.log().count("sampling is off"), 1)
        self.assertIn("CAP_BPF", self.sp.log())
        self.stop_init()


if __name__ == "__main__":
    harness.main()

# SPDX-License-Identifier: Apache-2.0
"""The command line, configurations that are wrong, places that are taken, and signals."""
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))
import harness  # noqa: E402
import sender  # noqa: E402

SHIPPED = os.path.join(harness.SOURCE, "config", "spanprof.yaml")


class Command(harness.IntegrationTest):
    def file(self, content):
        path = os.path.join(self.directory, "config.yaml")
        with open(path, "wb") as file:
            file.write(content if isinstance(content, bytes) else content.encode())
        return path

    def assert_refused(self, content, *words):
        """Both validate and a start say the same on stderr, in a second, and start nothing."""
        path = self.file(content)
        for command in (["validate", "--config", path], ["--config", path]):
            code, _, errors = harness.run_spanprof(*command)
            self.assertEqual(code, 1, errors)
            for word in words:
                self.assertIn(word, errors)
            self.assertNotRegex(errors, harness.REPORTS)
        return errors

    def test_version_help_components(self):
        code, out, _ = harness.run_spanprof("--version")
        self.assertEqual(code, 0)
        self.assertRegex(out, r"\d+\.\d+\.\d+")
        code, out, _ = harness.run_spanprof("--help")
        self.assertEqual(code, 0)
        for word in ("--config", "--set", "validate", "components", "print-config"):
            self.assertIn(word, out)
        code, out, _ = harness.run_spanprof("components")
        self.assertEqual(code, 0)
        for word in ("otlp", "sampler", "join", "otlp_grpc", "debug", "sqlite_storage"):
            self.assertIn(word, out)

    def test_wrong_command_lines(self):
        for arguments in (["--nonsense"], ["nonsense"], ["--config"], ["--set", "novalue"]):
            code, _, errors = harness.run_spanprof(*arguments)
            self.assertNotEqual(code, 0, arguments)
            self.assertIn("spanprof", errors)
        self.assertNotEqual(harness.run_spanprof()[0], 0)

    def test_the_shipped_configuration_is_valid(self):
        code, _, errors = harness.run_spanprof("validate", "--config", SHIPPED)
        self.assertEqual((code, errors), (0, ""))
        code, out, _ = harness.run_spanprof("print-config", "--config", SHIPPED)
        self.assertEqual(code, 0)
        path = self.file(out)
        self.assertEqual(harness.run_spanprof("validate", "--config", path)[0], 0,
                         "what print-config prints is a configuration")

    def test_missing_file(self):
        code, _, errors = harness.run_spanprof("--config", "/nonexistent/spanprof.yaml")
        self.assertEqual(code, 1)
        self.assertIn("/nonexistent/spanprof.yaml", errors)

    def test_a_folder_instead_of_a_file(self):
        code, _, errors = harness.run_spanprof("--config", self.directory)
        self.assertEqual(code, 1)
        self.assertIn(self.directory, errors)

    def test_empty_file(self):
        self.assert_refused("", "config.yaml")

    def test_not_yaml(self):
        self.assert_refused("receivers: [otlp\nservice: }", "config.yaml:")
        self.assert_refused(os.urandom(3000), "config.yaml")
        self.assert_refused(b"receivers: \x00\x01", "config.yaml")

    def test_ten_megabytes(self):
        started = time.monotonic()
        self.assert_refused("# padding\n" * (1 << 20), "config.yaml")
        self.assertLess(time.monotonic() - started, 5 * harness.SLOWNESS)

    def test_aliases(self):
        bomb = "a: &a [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
            "%s: &%s [%s]\n" % (name, name, ",".join(["*" + before] * 10))
            for before, name in zip("abcdefgh", "bcdefghi"))
        self.assert_refused(bomb, "config.yaml:")

    def test_errors_are_told_together_with_places(self):
        errors = self.assert_refused(
            "receivers:\n  otlp:\n    protocols:\n      grpc:\n        endpiont: localhost:4317\n"
            "exporters:\n  otlp_grpc:\n    endpoint: localhost:1\n    timeout: soon\n"
            "service:\n  pipelines:\n    traces:\n      receivers: [otlp]\n      exporters: [nowhere]\n",
            "config.yaml:5:9", "receivers::otlp", "endpoint", "config.yaml:9:", "nowhere")
        self.assertGreaterEqual(len([l for l in errors.splitlines() if "config.yaml:" in l]), 3)

    def test_set_and_several_files(self):
        instance = self.spanprof(start=False, sampler=False)
        instance.config_path = self.file("{}")
        over = os.path.join(self.directory, "over.yaml")
        with open(over, "w") as file:
            file.write("processors: {join: {wait: 7s}}\n")
        code, out, errors = harness.run_spanprof(
            "print-config", "--config", SHIPPED, "--config", over, "--set",
            "receivers.sampler.frequency=49")
        self.assertEqual(code, 0, errors)
        self.assertRegex(out, r"frequency: 49\b")
        self.assertRegex(out, r"wait: \"?7s")

    def test_environment(self):
        env = harness.environment(SPANPROF_BACKEND="collector.example:4317")
        code, out, _ = harness.run_spanprof("print-config", "--config", SHIPPED, env=env)
        self.assertEqual(code, 0)
        self.assertIn("collector.example:4317", out)

    def test_port_in_use(self):
        instance = self.spanprof(start=False, sampler=False)
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", instance.grpc_port))
            taken.listen()
            instance.launch()
            self.assertEqual(instance.process.wait(10 * harness.SLOWNESS), 1)
        self.assertIn(str(instance.grpc_port), instance.log())

    def test_unwritable_store(self):
        blocker = os.path.join(self.directory, "blocker")
        with open(blocker, "w"):
            pass
        for store in (os.path.join(blocker, "store"), "/proc/spanprof"):
            instance = self.spanprof(start=False, sampler=False, over={
                "extensions": {"sqlite_storage": {"directory": store}}})
            instance.launch()
            self.assertEqual(instance.process.wait(15 * harness.SLOWNESS), 1)
            self.assertIn(store, instance.log())

    @harness.needs_root
    def test_store_of_somebody_else(self):
        """Nobody's process may not write into root's folder, and says so."""
        if not shutil.which("setpriv"):
            self.skipTest("no setpriv")
        store = os.path.join(self.directory, "roots")
        os.mkdir(store, 0o700)
        instance = self.spanprof(start=False, sampler=False, over={
            "extensions": {"sqlite_storage": {"directory": store}}})
        instance.config_path = os.path.join(self.directory, "spanprof.yaml")
        instance.launch()
        instance.stop()
        done = subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
                               harness.BINARY, "--config", instance.config_path],
                              capture_output=True, timeout=20 * harness.SLOWNESS,
                              env=harness.environment())
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn(store.encode(), done.stderr)


class Signals(harness.IntegrationTest):
    def test_sigterm_and_sigint_end_with_0(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            instance = self.spanprof(sampler=False)
            sender.GrpcSender(instance.grpc_address).send(sender.request_of(10)[0])
            started = time.monotonic()
            instance.may_end = True
            instance.process.send_signal(number)
            self.assertEqual(instance.process.wait(10 * harness.SLOWNESS), 0)
            self.assertLess(time.monotonic() - started, 10 * harness.SLOWNESS)
            self.assertFalse(harness.is_listening(instance.grpc_port))

    def test_the_end_comes_in_time_though_the_backend_hangs(self):
        instance = self.spanprof(sampler=False)
        self.backend.fault("traces", None, seconds=60, delay_s=30)
        sender.GrpcSender(instance.grpc_address).send(sender.request_of(10)[0])
        time.sleep(1)
        started = time.monotonic()
        instance.may_end = True
        instance.process.send_signal(signal.SIGTERM)
        self.assertEqual(instance.process.wait(12 * harness.SLOWNESS), 0)
        print("ended after %.1f s" % (time.monotonic() - started))

    def test_a_second_signal_ends_at_once(self):
        instance = self.spanprof(sampler=False)
        self.backend.fault("traces", None, seconds=60, delay_s=30)
        sender.GrpcSender(instance.grpc_address).send(sender.request_of(10)[0])
        time.sleep(1)
        instance.may_end = True
        instance.process.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        started = time.monotonic()
        if instance.process.poll() is None:
            instance.process.send_signal(signal.SIGTERM)
        instance.process.wait(5)
        self.assertLess(time.monotonic() - started, 2 * harness.SLOWNESS)
        self.assertFalse(harness.is_listening(instance.grpc_port))

    def test_children_end_with_the_supervisor(self):
        instance = self.spanprof(sampler=False)
        children = harness.children_of(instance.supervisor)
        self.assertTrue(children)
        instance.may_end = True
        os.kill(instance.supervisor, signal.SIGKILL)
        instance.process.wait()
        harness.wait_until(lambda: not any(os.path.exists("/proc/%d" % pid) and
                                           "Z" not in harness.status_of(pid)["State"][:1]
                                           for pid in children), 5, "the children are gone")

    def test_log_lines(self):
        instance = self.spanprof(sampler=False)
        self.stop_spanprof(instance)
        for line in instance.log().splitlines():
            self.assertRegex(line, re.compile(
                r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z (debug|info|warn|error) \S+"))


if __name__ == "__main__":
    harness.main()

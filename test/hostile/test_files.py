# SPDX-License-Identifier: Apache-2.0
"""File systems and servers of names that do not answer any more: the supervisor, which needs them for certificates and
for listening, goes on."""
import contextlib
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
import neighbour  # noqa: E402
from neighbour import harness  # noqa: E402
import sender  # noqa: E402
import slow_files  # noqa: E402

CONFIG = "spanprof-cfg"
NOT_IN_TIME = "it did not come within 2 s: its file system does not answer"
NO_NAME = "no server of names tells the host's address in time"
NAME_SERVER = "127.0.0.99"


class Files(harness.IntegrationTest):
    def reload(self, over):
        harness.merge(self.sp.config, over)
        with open(self.sp.config_path, "w") as file:
            file.write(json.dumps(self.sp.config))
        self.sp.process.send_signal(signal.SIGHUP)

    def wait_log(self, text, seconds):
        began = time.monotonic()
        harness.wait_until(lambda: text in self.sp.log(), seconds * harness.SLOWNESS, "the log says %r" % text)
        print("%r after %.1f s" % (text, time.monotonic() - began), file=sys.stderr)

    def assert_ends(self, text, seconds):
        """It cannot start, and says so in time."""
        began = time.monotonic()
        self.sp.launch()
        self.assertEqual(self.sp.process.wait(seconds * harness.SLOWNESS), 1)
        print("ended after %.1f s" % (time.monotonic() - began), file=sys.stderr)
        self.assertIn(text, self.sp.log())

    def assert_stops(self):
        began = time.monotonic()
        self.assertEqual(self.sp.stop(), 0)
        print("stopped after %.1f s" % (time.monotonic() - began), file=sys.stderr)
        self.assertLess(time.monotonic() - began, 6 * harness.SLOWNESS)

    def stuck(self):
        return [pid for pid in harness.children_of(self.sp.supervisor) if harness.comm_of(pid) == CONFIG]


@unittest.skipUnless(os.path.exists("/dev/fuse"), "no /dev/fuse")
class Certificates(Files):
    def setUp(self):
        super().setUp()
        self.certificates = os.path.join(self.directory, "certificates")
        os.mkdir(self.certificates)
        subprocess.run([os.path.join(harness.BUILD, "test", "make_certificates"), self.certificates], check=True)
        stack = contextlib.ExitStack()
        self.addCleanup(stack.close)
        try:
            self.mount = stack.enter_context(slow_files.SlowFiles(os.path.join(self.directory, "slow")))
        except PermissionError as error:
            self.skipTest("mounting FUSE: %s" % error)
        self.put("server")
        self.tls = "127.0.0.1:%d" % harness.free_port()
        self.sp = self.spanprof(start=False, sampler=False, over={
            "receivers": {"otlp/tls": {"protocols": {"http": {"endpoint": self.tls, "tls": {
                "cert_file": self.mount.path + "/crt", "key_file": self.mount.path + "/key",
                "reload_interval": "1s"}}}}},
            "service": {"pipelines": {"traces": {"receivers": ["otlp", "otlp/tls"]}}}})

    def put(self, name):
        for kind in ("crt", "key"):
            with open(os.path.join(self.certificates, name + "." + kind), "rb") as file:
                self.mount.contents[kind] = file.read()

    def name(self):
        """Of the certificate that a new connection is shown."""
        host, port = self.tls.split(":")
        context = ssl.create_default_context(cafile=os.path.join(self.certificates, "ca.crt"))
        with socket.create_connection((host, int(port)), timeout=5) as plain, \
                context.wrap_socket(plain, server_hostname="localhost") as tls:
            return dict(part[0] for part in tls.getpeercert()["subject"])["commonName"]

    def test_they_do_not_come_any_more(self):
        self.sp.start()
        self.assertEqual(self.name(), "server")
        self.mount.hold()
        self.put("renewed")
        self.wait_log("again: " + NOT_IN_TIME, 8)
        harness.wait_until(lambda: self.sp.metric("spanprof_processes_abandoned") == 1, 8 * harness.SLOWNESS,
                           "the process that reads is abandoned")
        self.sp.kill_service()
        self.assertEqual(self.name(), "server")
        service = self.sp.service
        self.reload({"service": {"telemetry": {"logs": {"encoding": "json"}}}})
        harness.wait_until(lambda: self.sp.service not in (None, service), 8 * harness.SLOWNESS, "another service")
        self.sp.wait_ready()
        self.assertEqual(self.name(), "server")
        time.sleep(1.5)  # the interval passes, and no further process is lost
        self.assertEqual(len(self.stuck()), 1)
        self.assertEqual(self.sp.log().count("again: " + NOT_IN_TIME), 1)
        self.assertEqual(self.sp.metric("spanprof_processes_abandoned_total", 'process="config"'), 1)
        self.mount.go_on()
        harness.wait_until(lambda: self.name() == "renewed", 8 * harness.SLOWNESS, "the renewed one is shown")
        self.assertEqual(self.sp.metric("spanprof_processes_abandoned"), 0)
        self.mount.hold()
        harness.wait_until(self.stuck, 5, "it is read again")
        self.assert_stops()

    def test_they_do_not_come_at_first(self):
        self.mount.hold()
        self.assert_ends("receivers::otlp/tls::protocols::http::tls::cert_file: cannot read %s/crt: %s"
                         % (self.mount.path, NOT_IN_TIME), 10)


def can_mount():
    return subprocess.run(["unshare", "--mount", "true"], check=False, stderr=subprocess.DEVNULL).returncode == 0


@unittest.skipUnless(can_mount(), "no right to a mount namespace")
class Names(Files):
    """As its resolver sees it: one server of names, which is silent, and a file of hosts."""

    def setUp(self):
        super().setUp()
        server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.addCleanup(server.close)
        server.bind((NAME_SERVER, 53))
        self.write("resolv.conf", "nameserver %s\n" % NAME_SERVER)
        self.write("hosts", "127.0.0.1 localhost node.example\n::1 node.example\n")
        self.write("nsswitch.conf", "hosts: files dns\n")
        self.sp = self.spanprof(start=False, sampler=False)
        binds = "".join("mount --bind %s/%s /etc/%s && " % (self.directory, name, name)
                        for name in ("resolv.conf", "hosts", "nsswitch.conf"))
        self.sp.launcher = ["unshare", "--mount", "sh", "-c", binds + 'exec "$@"', "sh"]

    def write(self, name, text):
        with open(os.path.join(self.directory, name), "w") as file:
            file.write(text)

    def door(self, host):
        self.port = harness.free_port()
        return {"receivers": {"otlp/more": {"protocols": {"http": {"endpoint": "%s:%d" % (host, self.port)}}}},
                "service": {"pipelines": {"traces": {"receivers": ["otlp", "otlp/more"]}}}}

    def test_name_in_the_file_of_hosts(self):
        harness.merge(self.sp.config, self.door("node.example"))
        self.sp.start()
        self.assertEqual(sender.post("127.0.0.1:%d" % self.port, sender.request_of(1)[0])[0], 200)
        service = self.sp.service
        self.reload(self.door("elsewhere.example"))
        self.wait_log("the changed configuration is not taken", 8)
        self.assertIn(NO_NAME, self.sp.log())
        self.assertEqual(self.sp.service, service)
        self.reload(self.door("node.example"))  # another port
        harness.wait_until(lambda: self.sp.service not in (None, service), 8 * harness.SLOWNESS, "another service")
        self.sp.wait_ready()
        self.assertEqual(sender.post("127.0.0.1:%d" % self.port, sender.request_of(1)[0])[0], 200)
        self.assert_stops()

    def test_name_that_nobody_tells(self):
        harness.merge(self.sp.config, self.door("elsewhere.example"))
        harness.merge(self.sp.config, {"receivers": {"otlp/more": {"protocols": {"grpc": {
            "endpoint": "another.example:%d" % harness.free_port()}}}}})
        self.assert_ends(NO_NAME, 8)
        self.assertEqual(self.sp.log().count(NO_NAME), 2)


if __name__ == "__main__":
    harness.main()

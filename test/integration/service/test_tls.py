# SPDX-License-Identifier: Apache-2.0
"""TLS and mutual TLS, in and out: who is let in, what is said of who is not, and changed certificates."""
import http.client
import os
import pwd
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time

import grpc

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))
import harness  # noqa: E402
import sender  # noqa: E402


class TlsTest(harness.IntegrationTest):
    def setUp(self):
        super().setUp()
        self.certificates = os.path.join(self.directory, "certificates")
        os.mkdir(self.certificates)
        subprocess.run([os.path.join(harness.BUILD, "test", "make_certificates"), self.certificates],
                       check=True)

    def path(self, name):
        return os.path.join(self.certificates, name)

    def read(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    def put(self, source, target):
        """As a careful operator does it: at once."""
        shutil.copy(self.path(source), self.path(target + ".new"))
        os.rename(self.path(target + ".new"), self.path(target))

    def metric(self, spanprof, outcome, role="server"):
        return spanprof.metric("spanprof_tls_handshakes_total",
                               'role="%s",outcome="%s"' % (role, outcome))

    def wait_log(self, spanprof, text):
        harness.wait_until(lambda: text in spanprof.log(), 10, "the log says %r" % text)


class In(TlsTest):
    """A second receiver has TLS: the first one tells the harness that spanprof serves."""

    def start(self, **tls):
        self.tls_grpc, self.tls_http = ("127.0.0.1:%d" % harness.free_port() for _ in range(2))
        for kind in ("crt", "key"):
            self.put("server." + kind, "current." + kind)
        section = dict({"cert_file": self.path("current.crt"), "key_file": self.path("current.key")},
                       **tls)
        spanprof = self.spanprof(start=False, sampler=False, over={
            "receivers": {"otlp/tls": {"protocols": {
                "grpc": {"endpoint": self.tls_grpc, "tls": section},
                "http": {"endpoint": self.tls_http, "tls": section}}}},
            "service": {"pipelines": {"traces": {"receivers": ["otlp", "otlp/tls"]}}}})
        return spanprof

    def grpc_credentials(self, ca="ca", client=None):
        pair = (self.read(client + ".key"), self.read(client + ".crt")) if client else (None, None)
        return grpc.ssl_channel_credentials(self.read(ca + ".crt"), *pair)

    def https(self, ca="ca", client=None, version=None):
        context = ssl.create_default_context(cafile=self.path(ca + ".crt"))
        if client:
            context.load_cert_chain(self.path(client + ".crt"), self.path(client + ".key"))
        if version:
            context.minimum_version = context.maximum_version = version
        return context

    def grpc_status(self, **options):
        client = sender.GrpcSender(self.tls_grpc, credentials=self.grpc_credentials(**options))
        try:
            return client.status(sender.request_of(1)[0], timeout=5)[0]
        finally:
            client.close()

    def https_status(self, **options):
        try:
            return sender.post(self.tls_http, sender.request_of(1)[0], tls=self.https(**options))[0]
        except (OSError, ssl.SSLError):
            return None

    def name_at(self, address):
        """Of the certificate that a new connection is shown."""
        host, port = address.split(":")
        context = self.https()
        if address == self.tls_grpc:
            context.set_alpn_protocols(["h2"])
        with socket.create_connection((host, int(port)), timeout=5) as plain:
            with context.wrap_socket(plain, server_hostname="localhost") as tls:
                return dict(part[0] for part in tls.getpeercert()["subject"])["commonName"]

    def test_spans_come_by_tls(self):
        spanprof = self.start().start()
        small, _ = sender.request_of(3)
        large, _ = sender.request_of(5000, padding=300)  # many records
        client = sender.GrpcSender(self.tls_grpc, credentials=self.grpc_credentials())
        for body in (small, large):
            client.send(body)
            for options in ({}, {"encoding": "gzip"}, {"chunked": True}):
                status, _, answer = sender.post(self.tls_http, body, tls=self.https(), **options)
                self.assertEqual((status, answer), (200, b""))
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            self.assertEqual(self.https_status(version=version), 200)
        expected = 4 * (3 + 5000) + 2
        self.backend.wait(lambda: len(self.backend.spans()) == expected, 20, "all spans")
        client.close()
        self.assertGreaterEqual(self.metric(spanprof, "ok"), 9)
        self.stop_spanprof(spanprof)

    def test_clients_must_have_a_certificate(self):
        spanprof = self.start(client_ca_file=self.path("ca.crt")).start()
        self.assertEqual(self.grpc_status(client="client"), "OK")
        self.assertEqual(self.https_status(client="client"), 200)
        for client in (None, "other_client", "expired_client"):
            with self.subTest(client=client):
                self.assertEqual(self.grpc_status(client=client), "UNAVAILABLE")
                self.assertIsNone(self.https_status(client=client))
        self.assertEqual(self.metric(spanprof, "ok"), 2)
        for outcome in ("no_certificate", "untrusted_certificate", "expired_certificate"):
            self.assertGreaterEqual(self.metric(spanprof, outcome), 2, outcome)
        self.assertIn("it has no certificate, which client_ca_file demands", spanprof.log())

    def test_the_other_protocol(self):
        """Plain text at a port with TLS and TLS at one without: an error soon, and no harm."""
        spanprof = self.start().start()
        plain = sender.GrpcSender(self.tls_grpc)
        self.assertEqual(plain.status(sender.request_of(1)[0], timeout=5)[0], "UNAVAILABLE")
        plain.close()
        with self.assertRaises((OSError, http.client.HTTPException)):
            sender.post(self.tls_http, sender.request_of(1)[0], timeout=5)
        self.tls_grpc, tls_grpc = spanprof.grpc_address, self.tls_grpc
        self.assertEqual(self.grpc_status(), "UNAVAILABLE")
        self.tls_http, tls_http = spanprof.http_address, self.tls_http
        self.assertIsNone(self.https_status())
        self.tls_grpc, self.tls_http = tls_grpc, tls_http
        self.assertGreaterEqual(self.metric(spanprof, "not_tls"), 2)
        self.assertIn("it does not speak TLS, which this port takes alone", spanprof.log())
        self.assertEqual((self.grpc_status(), self.https_status()), ("OK", 200))

    def test_old_versions_and_other_protocols_are_refused(self):
        spanprof = self.start(min_version="1.3").start()
        self.assertIsNone(self.https_status(version=ssl.TLSVersion.TLSv1_2))
        self.assertEqual(self.https_status(version=ssl.TLSVersion.TLSv1_3), 200)
        self.assertGreaterEqual(self.metric(spanprof, "no_common_ways"), 1)
        host, port = self.tls_grpc.split(":")
        with socket.create_connection((host, int(port)), timeout=5) as plain:
            with self.https().wrap_socket(plain, server_hostname="localhost") as tls:  # without ALPN
                with self.assertRaises(OSError):
                    if not tls.recv(1):
                        raise ConnectionResetError
        self.assertGreaterEqual(self.metric(spanprof, "no_alpn"), 1)

    def test_silent_clients(self):
        """More than there is room for: those who speak are served all the same, at no cost in CPU."""
        spanprof = self.start().start()
        silent = []
        for address in (self.tls_grpc, self.tls_http):
            host, port = address.split(":")
            for i in range(300):
                silent.append(socket.create_connection((host, int(port)), timeout=5))
                silent[-1].sendall(b"\x16" if i % 2 else b"\x16\x03\x01\x02\x00\x01")
        self.assertEqual((self.grpc_status(), self.https_status()), ("OK", 200))
        self.assertGreaterEqual(self.metric(spanprof, "crowded_out"), 2 * (300 - 256))
        before = self.cpu_s(spanprof.service)
        time.sleep(1)
        self.assertLess(self.cpu_s(spanprof.service) - before, 0.3 * harness.SLOWNESS)
        for client in silent:
            client.close()

    @staticmethod
    def cpu_s(pid):
        with open("/proc/%d/stat" % pid) as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def test_changed_certificates(self):
        """Renewed under load, by interval: nobody is refused, and new connections see the new one."""
        spanprof = self.start(reload_interval="1s").start()
        load = sender.Load(self.tls_grpc, senders=3, credentials=self.grpc_credentials())
        stop, answers = threading.Event(), []

        def connect_anew():
            while not stop.is_set():
                answers.append((self.grpc_status(), self.https_status()))

        thread = threading.Thread(target=connect_anew)
        thread.start()
        self.assertEqual((self.name_at(self.tls_grpc), self.name_at(self.tls_http)),
                         ("server", "server"))
        self.put("renewed.key", "current.key")
        self.put("renewed.crt", "current.crt")
        self.wait_log(spanprof, "changed certificates are in use")
        harness.wait_until(lambda: self.name_at(self.tls_http) == "renewed", 10, "the renewed one is shown")
        self.assertEqual(self.name_at(self.tls_grpc), "renewed")
        self.put("stranger.key", "current.key")  # and the certificate stays: that cannot be
        self.wait_log(spanprof, "changes are not taken: cert_file %s and key_file %s do not belong "
                      "together" % (self.path("current.crt"), self.path("current.key")))
        time.sleep(0.5)
        self.assertEqual((self.name_at(self.tls_grpc), self.name_at(self.tls_http)),
                         ("renewed", "renewed"))
        stop.set()
        thread.join()
        load.stop()
        self.assertEqual(load.refused, 0)
        self.assertEqual(set(answers), {("OK", 200)})
        self.assertGreater(spanprof.metric("spanprof_tls_reloads_total", 'outcome="failed"'), 0)
        self.put("renewed.key", "current.key")
        self.backend.wait(lambda: len(self.backend.spans()) >= load.count(), 20, "all spans")

    def test_changed_certificates_on_sighup_and_after_a_kill(self):
        spanprof = self.start().start()
        self.put("renewed.key", "current.key")
        self.put("renewed.crt", "current.crt")
        time.sleep(2.5)
        self.assertEqual(self.name_at(self.tls_grpc), "server")
        spanprof.process.send_signal(signal.SIGHUP)
        self.wait_log(spanprof, "changed certificates are in use")
        harness.wait_until(lambda: self.name_at(self.tls_http) == "renewed", 10, "the renewed one is shown")
        spanprof.kill_service()
        harness.wait_until(lambda: self.grpc_status() == "OK", 10, "it serves")
        self.assertEqual((self.name_at(self.tls_grpc), self.name_at(self.tls_http)),
                         ("renewed", "renewed"))

    @harness.needs_root
    def test_keys_that_the_service_may_not_read(self):
        spanprof = self.start(client_ca_file=self.path("ca.crt"), client_ca_file_reload=True)
        spanprof.config["service"]["user"] = "nobody"
        os.mkdir(spanprof.store)
        os.chown(spanprof.store, pwd.getpwnam("nobody").pw_uid, -1)
        os.chmod(self.certificates, 0o700)
        spanprof.start()
        self.assertEqual(harness.status_of(spanprof.service)["Uid"].split()[0],
                         str(pwd.getpwnam("nobody").pw_uid))
        self.assertEqual(self.grpc_status(client="client"), "OK")
        self.put("ca.crt", "first_ca.crt")
        self.put("other_ca.crt", "ca.crt")
        self.wait_log(spanprof, "changed certificates are in use")
        spanprof.kill_service()
        harness.wait_until(lambda: self.grpc_status(
            ca="first_ca", client="other_client") == "OK", 10, "it serves")
        self.assertEqual(self.grpc_status(client="client"), "UNAVAILABLE")

    def test_what_cannot_work_is_said(self):
        stranger, missing = self.path("stranger.key"), self.path("missing.key")
        for key, text in (
                (missing, "receivers::otlp/tls::protocols::grpc::tls::key_file: cannot read %s: "
                 "No such file or directory" % missing),
                (self.directory, "key_file: cannot read %s: it is not a regular file" %
                 self.directory),
                (stranger, "receivers::otlp/tls::protocols::grpc::tls: cert_file %s and key_file %s "
                 "do not belong together" % (self.path("current.crt"), stranger)),
                (self.path("server.crt"), "a certificate and a private key are expected")):
            with self.subTest(key=key):
                spanprof = self.start(key_file=key).launch()
                self.assertEqual(spanprof.process.wait(20 * harness.SLOWNESS), 1)
                self.assertIn(text, spanprof.log())


class Out(TlsTest):
    def start_tls_backend(self, name="server", demands=False):
        pairs = [(self.read(name + ".key"), self.read(name + ".crt"))]
        credentials = grpc.ssl_server_credentials(pairs, self.read("ca.crt") if demands else None,
                                                  demands)
        self.start_backend(credentials=credentials)

    def start(self, **tls):
        spanprof = self.spanprof(start=False, sampler=False)
        section = dict({"ca_file": self.path("ca.crt")}, **tls)
        spanprof.config["exporters"]["otlp_grpc"]["tls"] = section
        return spanprof.start()

    def send(self, spanprof, n=3):
        client = sender.GrpcSender(spanprof.grpc_address)
        client.send(sender.request_of(n, padding=300)[0])
        client.close()

    def assert_arrives(self, spanprof, n=3):
        self.send(spanprof, n)
        self.backend.wait(lambda: len(self.backend.spans()) == n, 15, "the spans")

    def test_spans_leave_by_tls(self):
        self.start_tls_backend("renewed")  # by way of an intermediate CA
        spanprof = self.start()
        self.assert_arrives(spanprof, 3000)
        self.assertEqual(self.metric(spanprof, "ok", "client"), 1)

    def test_with_a_certificate(self):
        self.start_tls_backend(demands=True)
        spanprof = self.start(cert_file=self.path("client.crt"), key_file=self.path("client.key"))
        self.assert_arrives(spanprof)

    def test_without_a_certificate(self):
        self.start_tls_backend(demands=True)
        spanprof = self.start()
        self.send(spanprof)
        self.wait_log(spanprof, "it may demand a certificate: tls::cert_file")
        self.assertEqual(self.backend.spans(), [])

    def refused(self, backend, outcome, text, **tls):
        self.start_tls_backend(backend)
        spanprof = self.start(**tls)
        self.send(spanprof)
        self.wait_log(spanprof, text)
        self.assertGreaterEqual(self.metric(spanprof, outcome, "client"), 1)
        self.assertEqual(self.backend.spans(), [])
        return spanprof

    def test_expired(self):
        self.refused("expired", "expired_certificate",
                     "the backend's certificate has expired or is not valid yet")

    def test_of_another_host(self):
        self.refused("elsewhere", "wrong_name", "the backend's certificate is not for \"127.0.0.1\"")

    def test_not_in_the_system_s_pool(self):
        self.refused("server", "untrusted_certificate", "the backend's certificate is not trusted",
                     ca_file="")

    def test_trusted_once_its_ca_is_there(self):
        spanprof = self.refused("stranger", "untrusted_certificate",
                                "name the CA it comes from in tls::ca_file", reload_interval="1s")
        self.put("other_ca.crt", "ca.crt")
        self.backend.wait(lambda: len(self.backend.spans()) == 3, 15, "the spans")

    def test_another_name_and_unverified(self):
        self.start_tls_backend("elsewhere")
        spanprof = self.start(server_name_override="elsewhere.example")
        self.assert_arrives(spanprof)
        self.stop_spanprof(spanprof)
        spanprof.config["exporters"]["otlp_grpc"]["tls"] = {"insecure_skip_verify": True}
        spanprof.start()
        self.backend.forget()
        self.assert_arrives(spanprof)

    def test_backend_without_tls(self):
        self.start_backend()
        spanprof = self.start()
        self.send(spanprof)
        self.wait_log(spanprof, "plain text")
        self.assertEqual(self.backend.spans(), [])
        self.assertEqual(self.metric(spanprof, "ok", "client"), 0)

    def test_tls_backend_taken_for_plain(self):
        self.start_tls_backend()
        spanprof = self.start(insecure=True, ca_file="")
        self.send(spanprof)
        self.wait_log(spanprof, "exporter")
        time.sleep(1)
        self.assertEqual(self.backend.spans(), [])


if __name__ == "__main__":
    harness.main()

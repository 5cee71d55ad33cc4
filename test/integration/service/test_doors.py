# SPDX-License-Identifier: Apache-2.0
"""Doors that are no TCP port: Unix sockets for gRPC and HTTP, by the clients that programs use."""
import http.client
import os
import shutil
import socket
import stat
import struct
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))
import harness  # noqa: E402
import sender  # noqa: E402


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=10)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(10)
        self.sock.connect(self.path)


class UnixSockets(harness.IntegrationTest):
    """A second receiver has them: the first one tells the harness that spanprof serves."""

    def start(self, mode="0660"):
        self.grpc_path, self.http_path = (os.path.join(self.directory, name)
                                          for name in ("grpc.sock", "http.sock"))
        self.sp = self.spanprof(start=False, sampler=False, over={
            "receivers": {"otlp/unix": {"protocols": {
                "grpc": {"endpoint": "unix://" + self.grpc_path, "socket_mode": mode},
                "http": {"endpoint": self.http_path, "transport": "unix"}}}},
            "service": {"pipelines": {"traces": {"receivers": ["otlp", "otlp/unix"]}}}})
        return self.sp.start()

    def check(self):
        body, _ = sender.request_of(3)
        client = sender.GrpcSender("unix://" + self.grpc_path)
        client.send(body)
        client.close()
        connection = UnixConnection(self.http_path)
        for _ in range(2):
            connection.request("POST", "/v1/traces", body, {"Content-Type": "application/x-protobuf"})
            answer = connection.getresponse()
            self.assertEqual((answer.status, answer.read()), (200, b""))
        connection.close()

    def mode(self, path):
        return stat.S_IMODE(os.stat(path).st_mode)

    def test_unix_sockets(self):
        self.start()
        self.check()
        self.assertEqual((self.mode(self.grpc_path), self.mode(self.http_path)), (0o660, 0o666))
        self.sp.kill_service()  # connections wait at the supervisor's sockets
        self.check()
        other = []
        for key in ("receivers.otlp.protocols.grpc.endpoint", "receivers.otlp.protocols.http.endpoint",
                    "service.telemetry.metrics.address"):
            other += ["--set", key + "=127.0.0.1:0"]
        code, _, errors = harness.run_spanprof("--config", self.sp.config_path, *other)
        self.assertNotEqual(code, 0)
        self.assertIn("another program listens there", errors)
        self.check()
        self.sp.kill_all()  # leaves them behind
        self.assertTrue(os.path.exists(self.grpc_path))
        self.sp.start()
        self.check()
        self.stop_spanprof(self.sp)
        self.assertFalse(os.path.exists(self.grpc_path) or os.path.exists(self.http_path))
        harness.wait_until(lambda: len(self.backend.spans()) >= 9 * 4, 10, "all spans are at the backend")


    def test_to_another_spanprof(self):
        """An exporter connects to such a door; while nobody is behind it what it has waits."""
        self.start("0666")  # the other's service is not root
        directory = os.path.join(self.directory, "front")
        os.mkdir(directory)
        front = harness.Spanprof(directory, "unused:1", sampler=False)
        front.config["exporters"] = {"otlp_grpc": {
            "endpoint": "unix://" + self.grpc_path, "tls": {"insecure": True},
            "retry_on_failure": {"initial_interval": "100ms", "max_interval": "500ms"}}}
        self._started.append(front)
        front.start()
        client = sender.GrpcSender(front.grpc_address)
        sent = set()
        for away in (False, True, False):
            if away:
                self.stop_spanprof(self.sp)
            body, ids = sender.request_of(5)
            client.send(body)
            sent |= set(ids)
            if away:
                harness.wait_until(lambda: "cannot connect to " + self.grpc_path in front.log(), 10, "it says so")
                self.sp.start()
            self.backend.wait(lambda: sent <= {s.span_id for s in self.backend.spans()}, 20, "the spans are forwarded")
        self.assertEqual(len(self.backend.spans()), len(sent), "each once")
        client.close()
        self.stop_spanprof(front)
        self.stop_spanprof(self.sp)


class Connections(harness.IntegrationTest):
    def test_that_are_old_are_ended_in_good_order(self):
        self.sp = self.spanprof(sampler=False, over={"receivers": {"otlp": {"protocols": {"grpc": {
            "keepalive": {"server_parameters": {"max_connection_age": "1s"}}}}}}})
        load = sender.Load(self.sp.grpc_address)
        harness.wait_until(lambda: self.sp.metric("spanprof_h2_limit_total", 'limit="max_age"') >= 3,
                           20, "connections are ended")
        load.stop()
        self.assertEqual(load.refused, 0)


@unittest.skipUnless(shutil.which("h2load"), "needs h2load (nghttp2-client)")
class Overload(harness.IntegrationTest):
    """Six times what may be under way at once, all at once: what is too much has to wait, or is told to come again."""
    CONNECTIONS, STREAMS, CALLS = 64, 100, 8000
    LIMIT_KIB = 160 << 10  # 32 MiB of requests, the beginnings of others, and what is made of a batch

    def test_memory_stays_bounded(self):
        self.sp = self.spanprof(sampler=False, over={
            "exporters": {"debug": {}}, "service": {"pipelines": {"traces": {"exporters": ["debug"]}}}})
        body, _ = sender.request_of(150, 300)
        path = os.path.join(self.directory, "call")
        with open(path, "wb") as file:
            file.write(struct.pack(">BI", 0, len(body)) + body)
        done = subprocess.run(
            ["h2load", "-c", str(self.CONNECTIONS), "-m", str(self.STREAMS), "-n", str(self.CALLS), "-d", path,
             "-H", "te: trailers", "-H", "content-type: application/grpc",
             "http://" + self.sp.grpc_address + sender.METHOD], capture_output=True, text=True, timeout=100)
        self.assertIn("%d succeeded, 0 failed, 0 errored, 0 timeout" % self.CALLS, done.stdout)
        calls = {outcome: self.sp.metric("spanprof_grpc_server_calls_total", 'outcome="%s"' % outcome)
                 for outcome in ("accepted", "busy")}
        peak = int(harness.status_of(self.sp.service)["VmHWM"].split()[0])
        print("%s; peak of memory %d KiB" % (calls, peak))
        self.assertEqual(sum(calls.values()), self.CALLS)
        self.assertGreater(min(calls.values()), 0)  # 6400 beginnings are more than may wait
        self.assertGreater(self.sp.metric("spanprof_receiver_waited_total"), 0)
        if not harness.SANITIZE:
            self.assertLess(peak, self.LIMIT_KIB)
        sender.GrpcSender(self.sp.grpc_address).send(body)


class ManyDoors(harness.IntegrationTest):
    """As many receivers as a configuration may have, each at every address of localhost."""
    RECEIVERS = 16

    def test_all_are_served(self):
        ports = {"otlp/%d" % i: (harness.free_port(), harness.free_port())
                 for i in range(1, self.RECEIVERS)}
        receivers = {name: {"protocols": {"grpc": {"endpoint": "localhost:%d" % grpc_port},
                                          "http": {"endpoint": "localhost:%d" % http_port}}}
                     for name, (grpc_port, http_port) in ports.items()}
        sp = self.spanprof(start=False, sampler=False, over={
            "receivers": receivers,
            "extensions": {"health_check": {"endpoint": "localhost:%d" % harness.free_port()}},
            "service": {"extensions": ["sqlite_storage", "health_check"],
                        "pipelines": {"traces": {"receivers": ["otlp", *receivers]}}}})
        for protocol in sp.config["receivers"]["otlp"]["protocols"].values():
            protocol["endpoint"] = protocol["endpoint"].replace("127.0.0.1", "localhost")
        sp.start()
        sp.kill_service()  # the next one has all of them too
        body, _ = sender.request_of(1)
        for grpc_port, http_port in ports.values():
            client = sender.GrpcSender("localhost:%d" % grpc_port)
            self.assertEqual(client.status(body)[0], "OK")
            client.close()
            self.assertEqual(sender.post("localhost:%d" % http_port, body)[0], 200)


if __name__ == "__main__":
    harness.main()

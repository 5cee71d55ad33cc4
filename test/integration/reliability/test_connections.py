# SPDX-License-Identifier: Apache-2.0
"""Very many connections that are idle: what each costs, and that they take nothing from the rest of the program."""
import os
import resource
import socket
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))
import harness  # noqa: E402
import sender  # noqa: E402

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"  # and empty SETTINGS
BEGUN = b"POST /v1/traces HTTP/1.1\r\nHost: x\r\n"  # a head that is not at its end
IDLE_KIB = 24  # of memory, at most: gRPC keeps an HTTP/2 session, HTTP a pool for the head
SPARE = 200  # of our own file descriptors


def n_files(pid):
    return len(os.listdir("/proc/%d/fd" % pid))


class Connections(harness.IntegrationTest):
    def setUp(self):
        super().setUp()
        self.opened = []
        self.addCleanup(self.close_all)

    def close_all(self):
        while self.opened:
            self.opened.pop().close()

    def connect(self, port, first, n):
        for _ in range(n):
            connection = socket.create_connection(("127.0.0.1", port), 10)
            self.opened.append(connection)
            connection.sendall(first)

    def open_count(self):
        return (self.sp.metric("spanprof_grpc_server_connections") +
                self.sp.metric("spanprof_http_server_connections"))

    def start(self, **options):
        protocols = {"grpc": {"max_connections": 20000}, "http": {"max_connections": 20000, "idle_timeout": "10m"}}
        self.sp = self.spanprof(start=False, sampler=False, over={"receivers": {"otlp": {"protocols": protocols}}})
        for name, value in options.items():
            setattr(self.sp, name, value)
        self.sp.start()

    def assert_serves(self, post=True):
        body, ids = sender.request_of(3)
        client = sender.GrpcSender(self.sp.grpc_address)
        self.addCleanup(client.close)
        client.send(body)
        if post:
            body, more = sender.request_of(3)
            self.assertEqual(sender.post(self.sp.http_address, body)[0], 200)
            ids += more
        self.backend.wait(lambda: set(ids) <= {s.span_id for s in self.backend.spans()}, 20, "spans are forwarded")

    def make_room(self, n):
        """Our own end of so many connections, and the service's limit, which it takes from us."""
        before = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = n + SPARE
        if before[1] < n * 9 // 8 + 600:
            self.skipTest("%d connections need more file descriptors than the hard limit, %d" % (n, before[1]))
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(before[0], wanted), before[1]))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, before)

    def idle(self, n):
        self.make_room(n)
        self.start(launcher=["prlimit", "--nofile=1024:"])  # which it raises itself
        self.assert_serves()
        before, n_before = harness.pss_kib(self.sp.service), n_files(self.sp.service)
        sizes = []
        for _ in range(4):
            self.connect(self.sp.grpc_port, PREFACE, n // 8)
            self.connect(self.sp.http_port, BEGUN, n // 8)
            harness.wait_until(lambda: self.open_count() >= len(self.opened), 30, "all are taken")
            sizes.append((harness.pss_kib(self.sp.service) - before) / len(self.opened))
            self.assert_serves()
        self.assertEqual(self.sp.metric("spanprof_grpc_server_connections_refused_total") +
                         self.sp.metric("spanprof_http_server_connections_refused_total"), 0)
        cpu = self.cpu_seconds()
        time.sleep(2)
        cpu = self.cpu_seconds() - cpu
        print("%d idle connections: %s KiB each, %.0f ms of CPU time a second" % (
            len(self.opened), " ".join("%.1f" % size for size in sizes), cpu / 2 * 1e3))
        if not harness.SANITIZE:
            self.assertLess(max(sizes), IDLE_KIB)
            self.assertLess(sizes[-1], 1.2 * sizes[0] + 1)
        self.close_all()
        harness.wait_until(lambda: n_files(self.sp.service) < n_before + 50, 30, "all are closed")
        self.assert_serves()

    def cpu_seconds(self):
        with open("/proc/%d/stat" % self.sp.service) as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def test_idle(self):
        self.idle(2000 if harness.SANITIZE else 10000)

    def test_files_run_short(self):
        """Who comes last is closed at once; destination and store have what they need."""
        self.start(launcher=["prlimit", "--nofile=512:512"])
        client = sender.GrpcSender(self.sp.grpc_address)
        self.addCleanup(client.close)
        client.send(sender.request_of(1)[0])
        self.backend.stop()
        for port, first in ((self.sp.grpc_port, PREFACE), (self.sp.http_port, BEGUN)) * 6:
            try:
                self.connect(port, first, 100)
            except OSError:
                pass
        refused = 'reason="out_of_files"'
        harness.wait_until(lambda: self.sp.metric("spanprof_grpc_server_connections_refused_total", refused) > 0 and
                           self.sp.metric("spanprof_http_server_connections_refused_total", refused) > 0, 20,
                           "connections are refused")
        self.assertLess(n_files(self.sp.service), 512 - 32)
        self.assertIn("file descriptors are in use", self.sp.log())
        self.backend.start()
        body, ids = sender.request_of(3)
        client.send(body)
        self.backend.wait(lambda: set(ids) <= {s.span_id for s in self.backend.spans()}, 20, "spans are forwarded")
        self.close_all()
        harness.wait_until(lambda: n_files(self.sp.service) < 100, 20, "all are closed")
        self.assert_serves()


if __name__ == "__main__":
    harness.main()

# SPDX-License-Identifier: Apache-2.0
"""A Unix socket that is shared with other users: who listens there first gets nothing, unless he is named."""
import json
import os
import signal
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))
import harness  # noqa: E402
import sender  # noqa: E402
import unix_listener  # noqa: E402

STRANGER, COLLECTOR = 12345, 12346


@harness.needs_root
class SocketUsers(harness.IntegrationTest):
    def setUp(self):
        super().setUp()
        shared = os.path.join(self.directory, "shared")  # as /run/shared or /tmp
        os.mkdir(shared)
        os.chmod(shared, 0o1777)
        self.path = os.path.join(shared, "otlp.sock")
        self.sp = self.spanprof(start=False, sampler=False)
        self.exporter = self.sp.config["exporters"]["otlp_grpc"]
        self.exporter["endpoint"] = "unix://" + self.path
        self.sent = set()

    def listen(self, listener):
        """Instead of whoever listens there."""
        if os.path.exists(self.path):
            os.unlink(self.path)
        self.addCleanup(listener.stop)
        return listener.start()

    def send(self):
        body, ids = sender.request_of(5)
        client = sender.GrpcSender(self.sp.grpc_address)
        client.send(body)
        client.close()
        self.sent |= set(ids)

    def failed(self):
        return self.sp.metric("spanprof_exporter_connections_total", 'outcome="failed"')

    def wait_retried(self):
        before = self.failed()
        harness.wait_until(lambda: self.failed() >= before + 2, 20, "it is tried again")

    def wait_refused(self, thief, why):
        """Tried again and again, as with a backend that is away; without a byte for him."""
        harness.wait_until(lambda: why in self.sp.log(), 20, "the log says " + why)
        self.wait_retried()
        harness.wait_until(lambda: thief.connections() >= 2, 20, "he was connected to")
        self.assertEqual(thief.received(), b"")

    def wait_sent(self, backend):
        harness.wait_until(lambda: self.sent == backend.span_ids(), 20, "all spans are there, none is lost")

    def allow(self, users):
        self.exporter["socket_users"] = users
        with open(self.sp.config_path, "w") as file:
            json.dump(self.sp.config, file)
        old = self.sp.service
        self.sp.process.send_signal(signal.SIGHUP)
        harness.wait_until(lambda: self.sp.service not in (None, old), 20, "the changed configuration is taken")

    def test_a_stranger_gets_nothing(self):
        thief = self.listen(unix_listener.Thief(self.path, STRANGER))
        self.sp.start()
        self.send()
        self.wait_refused(thief, "cannot connect to %s: user %d listens there, who may be a stranger; "
                                 "socket_users: [%d] allows it" % (self.path, STRANGER, STRANGER))
        thief.stop()
        backend = self.listen(unix_listener.Backend(self.path, COLLECTOR))
        self.wait_retried()
        self.assertEqual(backend.span_ids(), set(), "he is not named yet")
        self.allow([COLLECTOR])
        self.wait_sent(backend)
        backend.stop()  # and the path is taken over
        thief = self.listen(unix_listener.Thief(self.path, STRANGER))
        self.send()
        self.wait_refused(thief, "user %d listens there, who is not among socket_users" % STRANGER)
        thief.stop()
        root = self.listen(unix_listener.Backend(self.path, 0))
        harness.wait_until(lambda: self.sent == backend.span_ids() | root.span_ids(), 20, "none is lost")

    def test_root_is_believed(self):
        backend = self.listen(unix_listener.Backend(self.path, 0))
        self.sp.start()
        self.send()
        self.wait_sent(backend)

    def test_a_name_that_has_no_account(self):
        """It is said, and nobody but root may listen: not even who might without the key."""
        self.exporter["socket_users"] = ["spanprof-no-such-user"]
        thief = self.listen(unix_listener.Thief(self.path, STRANGER))
        self.sp.start()
        self.assertIn('otlp_grpc::socket_users: there is no user "spanprof-no-such-user"', self.sp.log())
        self.send()
        self.wait_refused(thief, "who is not among socket_users")


if __name__ == "__main__":
    harness.main()

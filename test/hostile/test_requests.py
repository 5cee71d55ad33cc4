# SPDX-License-Identifier: Apache-2.0
"""A client that sends little, or nothing, and would cost the others much: each has the node to itself no longer than its
share, and the honest tenant does not notice."""
import http.client
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
import neighbour  # noqa: E402
from neighbour import harness  # noqa: E402

SECONDS = 60 if neighbour.FULL else 3
ALONE_SECONDS = 15 if neighbour.FULL else 3
LARGE = (10 << 20, 20 << 20)  # bytes of the Resource, and of the request
MANY = (1000, 8 << 20, 0.7)  # a small Resource, 150,000 spans; and a pause, for the backend gets them all


@harness.needs_root
class Requests(neighbour.HostileTest):
    def setUp(self):
        super().setUp()
        self.health_port = harness.free_port()
        self.instance = self.spanprof(sampler=False, over={
            "receivers": {"otlp": {"protocols": {"grpc": {"max_connections": 200}}}},
            "extensions": {"health_check": {"endpoint": "localhost:%d" % self.health_port}},
            "service": {"extensions": ["sqlite_storage", "health_check"]}})

    def healthy(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.health_port, timeout=10)
        self.addCleanup(connection.close)
        connection.request("GET", "/")
        return connection.getresponse().status == 200

    def counted(self, *names):
        return sum(self.instance.metric("spanprof_" + name) for name in names)

    def attacked(self, tenant, alone_s, name, *arguments):
        attacker = self.attack(name, *arguments)
        attacked_s = tenant.run(SECONDS)
        self.assertIsNone(attacker.processes[0].poll(), "the attack goes on")
        self.assert_unharmed(tenant, alone_s, attacked_s)
        self.assertTrue(self.healthy())
        return attacker

    def bodies_that_do_not_come(self, tenant, alone_s, connections):
        before = self.counted("receiver_expired_total", "receiver_waited_total")
        self.attacked(tenant, alone_s, "starve", self.instance.grpc_port, connections).stop()
        self.assertGreater(self.counted("receiver_expired_total", "receiver_waited_total") - before, 100)

    def idle_connections(self, tenant, alone_s):
        attacker = self.attacked(tenant, alone_s, "idle", self.instance.grpc_port, 400)
        late = self.tenant(self.instance)  # a new connection finds a place
        late.run(0.5, 30)
        late.stop()
        self.assertEqual(late.failures, [])
        self.assert_arrived(late)
        self.assertGreater(self.counted("grpc_server_connections_crowded_out_total"), 10)
        attacker.stop()

    def a_resource_for_each_span(self, tenant, alone_s):
        attacker = self.attacked(tenant, alone_s, "poison", self.instance.http_port, *LARGE)
        attacker.stop()
        self.assertIn(b"answered", attacker.processes[0].stdout.read())

    def many_small_spans(self, tenant, alone_s):
        before = self.counted("spans_received_total")
        self.attacked(tenant, alone_s, "poison", self.instance.http_port, *MANY).stop()
        self.assertGreater(self.counted("spans_received_total") - before, 200_000)

    def test_clients(self):
        """One after the other, beside one tenant."""
        tenant = self.tenant(self.instance)
        alone_s = tenant.run(ALONE_SECONDS)
        for attack, *arguments in ((self.bodies_that_do_not_come, 1), (self.bodies_that_do_not_come, 20),
                                   (self.idle_connections,), (self.a_resource_for_each_span,), (self.many_small_spans,)):
            with self.subTest(attack.__name__, arguments=arguments):
                attack(tenant, alone_s, *arguments)
        tenant.stop()
        self.assert_arrived(tenant)


if __name__ == "__main__":
    harness.main()

# SPDX-License-Identifier: Apache-2.0
"""A client that sends little, or nothing, and would cost the others much: each has the node to itself no longer than its
share, and the honest tenant does not notice."""
import http.client
import os
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
import neighbour  # noqa: E402
from neighbour import harness  # noqa: E402

SECONDS = 60 if neighbour.FULL else 4
ALONE_SECONDS = 15 if neighbour.FULL else 3
PATIENCE_S = 10  # of SDKs, with a request


@harness.needs_root
class Requests(neighbour.HostileTest):
    def attacked(self, instance, name, *arguments):
        """The tenant's p99 alone and beside the attack, which has begun."""
        tenant = self.tenant(instance)
        alone_s = tenant.run(ALONE_SECONDS)
        attacker = self.neighbour()
        process = attacker.script(name, *arguments, stdout=subprocess.PIPE)
        self.addCleanup(process.stdout.close)
        self.assertEqual(process.stdout.readline(), b"attacking\n")
        attacked_s = tenant.run(SECONDS)
        self.assertIsNone(process.poll(), "the attack goes on")
        tenant.stop()
        self.assert_unharmed(tenant, alone_s, attacked_s)
        self.assert_arrived(tenant)
        return attacker

    def healthy(self, instance):
        connection = http.client.HTTPConnection("127.0.0.1", self.health_port, timeout=10)
        self.addCleanup(connection.close)
        connection.request("GET", "/")
        return connection.getresponse().status == 200

    def instance(self, **otlp):
        self.health_port = harness.free_port()
        over = {"extensions": {"health_check": {"endpoint": "localhost:%d" % self.health_port}},
                "service": {"extensions": ["sqlite_storage", "health_check"]}}
        if otlp:
            over["receivers"] = {"otlp": {"protocols": otlp}}
        return self.spanprof(sampler=False, over=over)

    def test_bodies_that_do_not_come(self):
        for connections in (1, 20):
            with self.subTest(connections=connections):
                instance = self.instance()
                self.attacked(instance, "starve", instance.grpc_port, connections)
                self.assertGreater(instance.metric("spanprof_receiver_expired_total")
                                   + instance.metric("spanprof_receiver_waited_total"), 100)
                self.assertTrue(self.healthy(instance))
                instance.stop()

    def test_idle_connections(self):
        instance = self.instance(grpc={"max_connections": 200})
        self.attacked(instance, "idle", instance.grpc_port, 400)
        late = self.tenant(instance)  # a new connection finds a place
        late.run(1)
        late.stop()
        self.assertEqual(late.failures, [])
        self.assertGreater(len(late.acknowledged), 20)
        self.assertGreater(instance.metric("spanprof_grpc_server_connections_crowded_out_total"), 10)

    def test_a_resource_for_each_span(self):
        instance = self.instance()
        tenant = self.tenant(instance)
        attacker = self.neighbour()
        process = attacker.script("poison", instance.http_port, 10 << 20, 20 << 20, stdout=subprocess.PIPE)
        self.addCleanup(process.stdout.close)
        for _ in range(2 if not neighbour.FULL else 20):
            self.assertEqual(process.stdout.readline(), b"answered\n")
        attacker.stop()
        tenant.stop()
        self.assertEqual(tenant.failures, [])
        self.assertLess(max(tenant.seconds), PATIENCE_S * harness.SLOWNESS)
        self.assert_arrived(tenant)
        self.assertTrue(self.healthy(instance))


if __name__ == "__main__":
    harness.main()

# SPDX-License-Identifier: Apache-2.0
"""Several requests on their way to one destination: as many as configured, none lost by kills, and no more
of them twice than were on their way."""
import collections
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))
import harness  # noqa: E402
import receiver_schema  # noqa: E402
import sender  # noqa: E402
import slow_backend  # noqa: E402

CONSUMERS = 4
REQUEST_BYTES = 65536
REQUESTS, SPANS, PADDING = 120, 40, 600  # two of them fit into one of ours
KILLS = 3


class InFlight(harness.IntegrationTest):
    def config(self, protocol, port):
        queue = {"sending_queue": {"num_consumers": CONSUMERS}, "compression": "none",
                 "max_request_size": REQUEST_BYTES, "timeout": "30s",
                 "retry_on_failure": {"initial_interval": "100ms", "max_interval": "1s"}}
        name = "otlp_" + protocol
        endpoint = ("127.0.0.1:%d" if protocol == "grpc" else "http://127.0.0.1:%d") % port
        return {"exporters": {name: {**queue, "endpoint": endpoint, "tls": {"insecure": True}}},
                "service": {"pipelines": {"traces": {"exporters": [name]}}}}

    def fill(self, program):
        client, ids = sender.GrpcSender(program.grpc_address), []
        for _ in range(REQUESTS):
            body, more = sender.request_of(SPANS, PADDING)
            client.send(body)
            ids += more
        client.close()
        return ids

    @staticmethod
    def times_received(backend):
        message = receiver_schema.message(receiver_schema.TRACE_REQUEST)
        times = collections.Counter()
        for body in list(backend.bodies):
            request = message.FromString(body)
            times.update(span.span_id.hex() for resource in request.resource_spans
                         for scope in resource.scope_spans for span in scope.spans)
        return times

    def check(self, protocol):
        port = harness.free_port()
        program = self.spanprof(sampler=False, over=self.config(protocol, port))
        ids = self.fill(program)
        backend = slow_backend.SlowBackend(0.2, protocol, port)
        self.addCleanup(backend.stop)
        for number in range(1, KILLS + 1):
            harness.wait_until(lambda: len(backend.bodies) >= 8 * number, 60, "requests arrive")
            program.kill_all()
            program.start()
        harness.wait_until(lambda: set(ids) <= set(self.times_received(backend)), 60,
                           "all that was acknowledged arrives")
        harness.wait_until(lambda: program.metric("spanprof_outbox_requests") == 0, 20, "nothing waits")
        times = self.times_received(backend)
        twice = sum(times.values()) - len(ids)
        most = KILLS * CONSUMERS * 2 * SPANS
        print("%s: %d spans in %d requests, %d at a time; %d kills: %d spans came twice, at most %d may" % (
            protocol, len(ids), len(backend.bodies), backend.most, KILLS, twice, most))
        self.assertEqual(set(times), set(ids))
        # the backend goes on with what it has when its client was killed
        self.assertIn(backend.most, range(CONSUMERS, 2 * CONSUMERS + 1))
        self.assertLessEqual(twice, most)

    def test_grpc(self):
        self.check("grpc")

    def test_http(self):
        self.check("http")


if __name__ == "__main__":
    harness.main()

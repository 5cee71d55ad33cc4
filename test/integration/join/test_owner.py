# SPDX-License-Identifier: Apache-2.0
"""Whose a span is: programs in cgroups, network namespaces and users of their own send it, or others do for them."""
import os
import sys

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), *path)
                for path in (("..", "support"), ("..", "..", "hostile", "support"))]
import harness  # noqa: E402
import neighbour  # noqa: E402
import traced  # noqa: E402

WAIT_S = 3
FORWARDER_UID, PROGRAM_UID = 65533, 65532
SENT = "of.the.span"  # in each Resource that is sent, and in none that is published
PLAIN = {"service.name": "payments", SENT: "yes"}


@harness.needs_sampling
class Owner(harness.IntegrationTest):
    def start(self, forwarders=None):
        self.socket = os.path.join(self.directory, "otlp.sock")
        spanprof = self.spanprof(start=False, over={
            "receivers": {"otlp/socket": {"protocols": {"http": {"endpoint": self.socket, "transport": "unix",
                                                                 "socket_mode": "0666"}}}},
            "processors": {"join": {"wait": "%ds" % WAIT_S, "forwarders": forwarders or {}}},
            "service": {"pipelines": {"traces": {"receivers": ["otlp", "otlp/socket"]}}}})
        spanprof.config["receivers"]["otlp"]["protocols"]["http"]["endpoint"] = "0.0.0.0:%d" % spanprof.http_port
        spanprof.start()
        spanprof.wait_sampling()
        return spanprof

    def cgroup(self, name=None):
        """A tenant's, which may use all CPUs."""
        cgroup = neighbour.Cgroup(os.cpu_count(), *([name] if name else []))
        self.addCleanup(cgroup.remove)
        return cgroup

    def program(self, spanprof, uid=PROGRAM_UID, network=None, name=None, publish=None, reads=True):
        cgroup = self.cgroup(name)
        program = traced.Traced(launcher=(network.launcher if network else []) + neighbour.as_user(uid), publish=publish,
                                preexec_fn=cgroup.enter)
        self.addCleanup(program.stop)
        program.cgroup = cgroup
        if reads:
            harness.wait_until(lambda: spanprof.reads(program.pid), 20, "its context is read")
        return program

    def worked(self, program):
        ids = traced.new_ids()
        return ids, program.work(ids)

    def span_of(self, ids):
        return harness.wait_until(lambda: next((span for span in self.backend.spans()
                                                if span.span_id == ids["span"]), None), 20, "the span arrives")

    def samples_of(self, ids):
        return [sample for sample in self.backend.samples() if sample.span_id == ids["span"]]

    def assert_joined(self, ids, why):
        with self.subTest(why):
            cpu_ns = self.span_of(ids).cpu_ns
            self.assertIsNotNone(cpu_ns)
            self.assertGreater(cpu_ns, traced.WORK_S * 0.5e9)
            self.backend.wait(lambda: any(sample.attributes.get("span.name") for sample in self.samples_of(ids)), 20,
                              "samples with the span's name")

    def assert_alone(self, ids, why):
        """The span has no CPU time, and the samples a Link without more."""
        with self.subTest(why):
            self.assertIsNone(self.span_of(ids).cpu_ns)
            samples = harness.wait_until(lambda: self.samples_of(ids), WAIT_S + 12, "samples with their Link")
            self.assertEqual({sample.attributes.get("span.name") for sample in samples}, {None})
            self.assertEqual({sample.resource.get(SENT) for sample in samples}, {None})

    def test_evidence(self):
        spanprof = self.start()
        network = traced.Network()
        self.addCleanup(network.remove)
        container = os.urandom(32).hex()
        contained = self.program(spanprof, network=network)
        on_socket = self.program(spanprof)
        known = self.program(spanprof, publish={"service.name": "payments", "service.instance.id": "i-1"})
        in_docker = self.program(spanprof, name="docker-%s.scope" % container)
        stranger = self.program(spanprof, reads=False)

        ids, times = self.worked(contained)
        contained.send("%s:%d" % (network.here, spanprof.http_port), ids, PLAIN, times)
        self.assert_joined(ids, "sent by itself, from a network of its own")
        ids, times = self.worked(on_socket)
        on_socket.send(self.socket, ids, PLAIN, times)
        self.assert_joined(ids, "sent by itself, on a Unix socket")
        ids, times = self.worked(on_socket)
        on_socket.send(spanprof.http_address, ids, dict(PLAIN, **{"process.pid": on_socket.own_pid}), times)
        self.assert_joined(ids, "sent by itself, on the loopback")
        ids, times = self.worked(known)
        stranger.send(spanprof.http_address, ids, dict(PLAIN, **{"service.instance.id": "i-1"}), times)
        self.assert_joined(ids, "sent by another, with the instance that it publishes")
        ids, times = self.worked(in_docker)
        stranger.send(spanprof.http_address, ids, dict(PLAIN, **{"container.id": container[:12]}), times)
        self.assert_joined(ids, "sent by another, with the container that the kernel knows")

        ids, times = self.worked(on_socket)
        stranger.send(spanprof.http_address, ids, dict(PLAIN, **{"process.pid": on_socket.pid}), times)
        self.assert_alone(ids, "sent by another, on the loopback")
        ids, times = self.worked(on_socket)
        stranger.send(self.socket, ids, PLAIN, times)
        self.assert_alone(ids, "sent by another, on a Unix socket")
        ids, times = self.worked(known)
        stranger.send(spanprof.http_address, ids, dict(PLAIN, **{"service.instance.id": "i-2"}), times)
        self.assert_alone(ids, "sent by another, with another instance")
        self.assertGreaterEqual(spanprof.metric("spanprof_join_spans_no_evidence_total", 'sender="other_cgroup"'), 3)
        self.assertGreater(spanprof.metric("spanprof_join_samples_total", 'result="no_evidence"'), 0)
        self.assertGreaterEqual(spanprof.metric("spanprof_peers_total", 'by="noted"'), 3)
        self.assert_conforming()

    def test_named_containers(self):
        spanprof = self.start()
        name = "spanprof-%d" % os.getpid()
        named = self.program(spanprof, name="lxc.payload." + name)
        self.program(spanprof, name="machine-%s.scope" % name)
        stranger = self.program(spanprof, reads=False)
        ids, times = self.worked(named)
        named.send(spanprof.http_address, ids, PLAIN, times)
        self.assert_joined(ids, "sent by itself")
        self.assertEqual({sample.resource.get("container.id") for sample in self.samples_of(ids)}, {name})
        ids, times = self.worked(named)
        stranger.send(spanprof.http_address, ids, dict(PLAIN, **{"container.id": name}), times)
        self.assert_alone(ids, "sent by another, with the name of the container")
        self.assertGreaterEqual(spanprof.metric("spanprof_container_unknown_total", 'reason="form"'), 1)
        self.assert_conforming()

    def test_forwarders(self):
        unit = "spanprof-forwarder-%d" % os.getpid()
        socket = os.path.join(self.directory, "otlp.sock")
        spanprof = self.start({"users": [str(FORWARDER_UID)], "cgroups": ["/" + unit], "sockets": ["unix://" + socket]})
        program = self.program(spanprof, publish={"service.name": "payments"})
        by_user = self.program(spanprof, uid=FORWARDER_UID, reads=False)
        by_cgroup = self.program(spanprof, name=unit, reads=False)
        nobody = self.program(spanprof, reads=False)
        cases = ((by_user, spanprof.http_address, PLAIN, True, "a user's"),
                 (by_cgroup, spanprof.http_address, PLAIN, True, "a cgroup's"),
                 (nobody, self.socket, PLAIN, True, "by a socket"),
                 (nobody, spanprof.http_address, PLAIN, False, "nobody's"),
                 (by_user, spanprof.http_address, dict(PLAIN, **{"service.name": "other"}), False, "for another service"),
                 (by_user, spanprof.http_address, dict(PLAIN, **{"process.pid": program.pid + 1}), False, "for another process"))
        for forwarder, to, resource, joins, why in cases:
            ids, times = self.worked(program)
            forwarder.send(to, ids, resource, times)
            (self.assert_joined if joins else self.assert_alone)(ids, why)
        self.assertEqual(spanprof.metric("spanprof_peers_forwarders_total"), 3)
        self.assert_conforming()


if __name__ == "__main__":
    harness.main()

# SPDX-License-Identifier: Apache-2.0
"""Supervisor, service and symbolizer: rights, deaths, short-lived processes, libraries loaded late."""
import os
import pwd
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))
import harness  # noqa: E402
import sender  # noqa: E402
import truth  # noqa: E402

INCARNATIONS = 2  # of one process in the table: forked, and execed
FORKS_S = 8
STORM = 100000 if harness.SOAK else 2000 if harness.SANITIZE else 5000


@harness.needs_sampling
class Rights(harness.IntegrationTest):
    def assert_no_capabilities(self, pid):
        status = harness.status_of(pid)
        for kind in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
            self.assertEqual(int(status[kind], 16), 0, kind)
        self.assertEqual(status["NoNewPrivs"], "1")

    def test_the_service_has_no_capabilities(self):
        spanprof = self.spanprof()
        self.assert_no_capabilities(spanprof.service)
        symbolizer = harness.status_of(harness.wait_until(lambda: spanprof.symbolizer, 5, "a symbolizer"))
        allowed = sum(1 << bit for bit in (2, 6, 7, 19, 34, 38, 39, 40))
        self.assertEqual(int(symbolizer["CapEff"], 16) & ~allowed, 0, "capabilities of the symbolizer")

    def test_the_service_drops_to_the_owner_of_the_store(self):
        nobody = pwd.getpwnam("nobody")
        spanprof = self.spanprof(start=False)
        os.mkdir(spanprof.store, 0o700)
        os.chown(spanprof.store, nobody.pw_uid, nobody.pw_gid)
        spanprof.start()
        status = harness.status_of(spanprof.service)
        self.assertEqual(status["Uid"].split(), [str(nobody.pw_uid)] * 4)
        self.assertEqual(status["Gid"].split(), [str(nobody.pw_gid)] * 4)
        self.assert_no_capabilities(spanprof.service)
        body, ids = sender.request_of(5)
        sender.GrpcSender(spanprof.grpc_address).send(body)
        self.backend.wait(lambda: set(ids) <= {s.span_id for s in self.backend.spans()}, 10,
                          "spans are forwarded")
        spanprof.wait_sampling()
        self.backend.wait(lambda: self.backend.samples(), 15, "profiles are forwarded")

    def test_the_service_user_of_the_configuration(self):
        spanprof = self.spanprof(start=False, over={"service": {"user": "nobody"}})
        os.chmod(self.directory, 0o777)
        spanprof.start()
        self.assertEqual(harness.status_of(spanprof.service)["Uid"].split()[0],
                         str(pwd.getpwnam("nobody").pw_uid))


@harness.needs_sampling
class Symbolizer(harness.IntegrationTest):
    def run_through(self, trouble):
        """A span, in the middle of which the symbolizer is in trouble: its CPU time is full."""
        spanprof = self.spanprof()
        spanprof.wait_sampling()
        workload = self.read_workload(spanprof, "--duty", "60", "--seconds", 14,
                                      endpoint=spanprof.http_address)
        workload.first("start")
        time.sleep(3)
        trouble(spanprof)
        workload.wait(40)
        record, = workload.of("span")
        self.backend.wait(lambda: self.backend.span(record["span_id"]), 20, "the span is forwarded")
        span = self.backend.span(record["span_id"])
        duty = record["cpu_ns"] / (record["end"] - record["start"])
        limit = truth.tolerance(duty, harness.FREQUENCY * 14)
        self.assertLessEqual(abs((span.cpu_ns or 0) / record["cpu_ns"] - 1), limit)
        self.assertEqual(spanprof.metric("spanprof_process_restarts_total", 'process="service"'), 0)
        return spanprof, record

    def assert_names_again(self, spanprof):
        """A process that starts now gets context and names."""
        workload = self.read_workload(spanprof, "--duty", "80", "--seconds", 4,
                                      endpoint=spanprof.http_address).wait()
        record, = workload.of("span")
        self.backend.wait(lambda: self.backend.span(record["span_id"]), 20, "the span is forwarded")
        self.stop_spanprof(spanprof)
        own = truth.samples_of_span(self.backend.samples(), record["span_id"])
        self.assertGreater(truth.count(own), 0.8 * harness.FREQUENCY * record["cpu_ns"] / 1e9)
        self.assertGreater(truth.share_with_function(own, record["function"]), 0.9)
        self.assert_conforming()

    def test_killed(self):
        def kill(spanprof):
            old = spanprof.symbolizer
            os.kill(old, signal.SIGKILL)
            harness.wait_until(lambda: spanprof.symbolizer not in (None, old), 10, "a new symbolizer")

        spanprof, _ = self.run_through(kill)
        self.assertGreater(spanprof.metric("spanprof_process_restarts_total",
                                           'process="symbolizer"'), 0)
        self.assert_names_again(spanprof)

    def test_stopped(self):
        def stop(spanprof):
            old = spanprof.symbolizer
            os.kill(old, signal.SIGSTOP)
            harness.wait_until(lambda: spanprof.symbolizer not in (None, old), 20,
                               "the supervisor notices and starts a new symbolizer")

        spanprof, _ = self.run_through(stop)
        self.assert_names_again(spanprof)


@harness.needs_sampling
class Storm(harness.IntegrationTest):
    def memory(self, spanprof):
        return sum(harness.pss_kib(pid) for pid in
                   [spanprof.supervisor, spanprof.service, spanprof.symbolizer])

    def run_storm(self, count):
        half = count // 2
        self.workload("--mode", "storm", "--count", half).wait(half / 50 + 60)
        self.workload("--mode", "storm", "--count", half, "--exec").wait(half / 25 + 60)

    def growth_of_a_storm(self, spanprof):
        time.sleep(8)
        before_kib, before = self.memory(spanprof), spanprof.metric("spanprof_processes")
        self.run_storm(STORM)
        time.sleep(8)
        after_kib, after = self.memory(spanprof), spanprof.metric("spanprof_processes")
        print("%d processes: %d -> %d KiB, table %d -> %d" % (STORM, before_kib, after_kib, before,
                                                              after))
        return after_kib - before_kib

    def test_short_lived_processes_leave_nothing_behind(self):
        spanprof = self.spanprof(over={"processors": {"join": {"wait": "2s", "span_totals_ttl": "4s"}},
                                       "receivers": {"sampler": {"frequency": 397}}})
        spanprof.wait_sampling()
        self.run_storm(STORM // 2)
        # Caches fill once, a leak grows with every round.
        grown_kib = [self.growth_of_a_storm(spanprof)]
        while grown_kib[-1] >= 4096 and len(grown_kib) < 3:
            grown_kib.append(self.growth_of_a_storm(spanprof))
        # Processes that others started are in the table too, until the grace of 5 s after their end is over.
        others = Forks()
        harness.wait_until(lambda: spanprof.metric("spanprof_processes") <
                           live_processes() + 100 + INCARNATIONS * others.recent(), 60,
                           "the table holds little more than what lives")
        if not harness.SANITIZE:
            self.assertLess(grown_kib[-1], 4096)
        self.assertEqual(spanprof.metric("spanprof_process_restarts_total"), 0)
        self.assert_conforming()


def live_processes():
    return sum(name.isdigit() for name in os.listdir("/proc"))


class Forks:
    """How many processes the machine has started within the last FORKS_S, longer than a dead one is kept."""

    def __init__(self):
        self.counts = [(time.monotonic(), self.total())]

    @staticmethod
    def total():
        with open("/proc/stat", encoding="ascii") as stat:
            return next(int(line.split()[1]) for line in stat if line.startswith("processes "))

    def recent(self):
        now = time.monotonic()
        self.counts.append((now, self.total()))
        while len(self.counts) > 2 and self.counts[1][0] < now - FORKS_S:
            del self.counts[0]
        return self.counts[-1][1] - self.counts[0][1]


@harness.needs_sampling
class LateLibrary(harness.IntegrationTest):
    def test_a_library_loaded_late_is_noticed(self):
        spanprof = self.spanprof()
        spanprof.wait_sampling()
        library = os.path.join(harness.BUILD, "test", "libworkload_plugin.so")
        workload = self.workload(library, 4, 8, program="workload_host").wait()
        process, record = workload.first("process"), workload.of("span")[0]
        sender.GrpcSender(spanprof.grpc_address).send(sender.request_of_truth(process, [record]))
        self.backend.wait(lambda: self.backend.span(record["span_id"]), 15, "the span is forwarded")
        self.stop_spanprof(spanprof)
        span = self.backend.span(record["span_id"])
        self.assertGreater(span.cpu_ns or 0, 0.7 * record["cpu_ns"])
        own = truth.samples_of_span(self.backend.samples(), record["span_id"])
        self.assertGreater(truth.share_with_function(own, "plugin_burn"), 0.9)
        self.assertIn("libworkload_plugin.so", {os.path.basename(frame.mapping)
                                                for sample in own for frame in sample.frames})
        self.assert_conforming()


if __name__ == "__main__":
    harness.main()

# SPDX-License-Identifier: Apache-2.0
"""What one client can do to the store of all: fill it, empty it for the others, make its log grow for ever."""
import json
import os
import sys
import threading
import time
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
import neighbour  # noqa: E402
import sender  # noqa: E402
from neighbour import harness  # noqa: E402

MIB = 1 << 20
LOG_MIB = 80  # 64, and a transaction
FEW_REQUESTS = 100  # beside a load that makes each slow: the percentile is the slowest


class Store(neighbour.HostileTest):
    SECONDS = 75 if neighbour.FULL else 6

    def start_spanprof(self, history_mib=32, spans_per_second=500):
        self.pages_port, self.health_port = harness.free_port(), harness.free_port()
        return self.spanprof(sampler=False, over={
            "extensions": {"pages": {"endpoint": "localhost:%d" % self.pages_port, "auth": {"required": False}},
                           "health_check": {"endpoint": "localhost:%d" % self.health_port},
                           "history": {"max_size_mib": history_mib, "max_spans_per_second": spans_per_second},
                           "sqlite_storage": {"max_size_mib": 256}},
            "service": {"extensions": ["sqlite_storage", "pages", "history", "health_check"]}})

    def get(self, port, path):
        with urllib.request.urlopen("http://localhost:%d%s" % (port, path), timeout=30) as answer:
            return answer.status, answer.read()

    def services(self):
        traces = json.loads(self.get(self.pages_port, "/api/traces?limit=1000")[1])["traces"]
        return {trace.get("service") for trace in traces}

    def log_bytes(self, spanprof):
        return os.path.getsize(os.path.join(spanprof.store, "spanprof.db-wal"))

    def test_resources_do_not_fill_the_store(self):
        spanprof = self.start_spanprof()
        tenant = self.tenant(spanprof)
        alone_s = tenant.run(2)
        harness.wait_until(lambda: "sender" in self.services(), 15, "a block of the history has the tenant's names")
        flood = self.attack("resources", spanprof.http_address, self.SECONDS).processes[0]
        attacked_s = tenant.run(self.SECONDS)
        sent = int(flood.stdout.read())
        harness.wait_until(lambda: spanprof.metric("spanprof_history_names_bytes") > MIB, 15,
                           "blocks have names of the flood")  # else nothing was tried
        metrics = spanprof.metrics()
        print("%d Resources sent, names %.1f MiB, store %.1f MiB, %d evicted" % (
            sent, metrics["spanprof_history_names_bytes"] / MIB, metrics["spanprof_store_size_bytes"] / MIB,
            metrics["spanprof_history_names_evicted_total"]), file=sys.stderr)
        self.assertGreater(sent, 1000)
        self.assertLessEqual(metrics["spanprof_history_names_bytes"], 32 * MIB / 4)
        self.assertLess(metrics["spanprof_store_size_bytes"], 64 * MIB)
        self.assertEqual(self.get(self.health_port, "/")[0], 200)
        self.assertIn("sender", self.services())
        tenant.stop()
        self.assert_unharmed(tenant, alone_s, attacked_s)
        self.assert_arrived(tenant)

    def load(self, spanprof):
        """Much of others' work, so that the log grows; what ends it."""
        stop = threading.Event()

        def send():
            client = sender.GrpcSender(spanprof.grpc_address)
            bodies = [sender.request_of(600, padding=2000)[0] for _ in range(8)]
            while not stop.is_set():
                client.status(bodies[0])
                bodies.append(bodies.pop(0))
            client.close()
        threads = [threading.Thread(target=send) for _ in range(3)]
        for thread in threads:
            thread.start()

        def end():
            stop.set()
            for thread in threads:
                thread.join()
        self.addCleanup(end)
        return end

    def follow_log(self, spanprof, done):
        """The most that it had."""
        longest = 0
        while not done():
            longest = max(longest, self.log_bytes(spanprof))
            time.sleep(0.05)
        return longest

    def test_questions_do_not_grow_the_log(self):
        spanprof = self.start_spanprof(history_mib=100, spans_per_second=100000)  # so that questions take long
        tenant = self.tenant(spanprof)
        end_load = self.load(spanprof)
        alone_s, before = tenant.run(2, FEW_REQUESTS), len(tenant.seconds)
        questions = self.attack("questions", "localhost:%d" % self.pages_port, 4, self.SECONDS, cpus=1).processes[0]
        longest = self.follow_log(spanprof, lambda: questions.poll() is not None)
        attacked_s = tenant.p99_s(before, FEW_REQUESTS)
        end_load()
        answered = questions.stdout.read().decode().strip()
        metrics = spanprof.metrics()
        print("log at most %.1f MiB, %d restarts, %d waits, answers %s" % (
            longest / MIB, metrics["spanprof_store_log_restarts_total"], metrics["spanprof_store_log_waits_total"],
            answered), file=sys.stderr)
        self.assertLess(longest, LOG_MIB * MIB)
        if longest > 24 * MIB:
            self.assertGreater(metrics["spanprof_store_log_restarts_total"], 0)
        self.assertIn("(200, ", answered)
        tenant.stop()
        self.assert_unharmed(tenant, alone_s, attacked_s)
        self.assertEqual(self.get(self.health_port, "/")[0], 200)


if __name__ == "__main__":
    harness.main()

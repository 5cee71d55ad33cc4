# SPDX-License-Identifier: Apache-2.0
"""Acknowledged means committed: kills under load, a full disk, a corrupt file, a folder without rights."""
import glob
import os
import random
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))
import harness  # noqa: E402
import sender  # noqa: E402

ROUNDS = 200 if harness.SOAK else 20


class Kills(harness.IntegrationTest):
    def test_acknowledged_spans_survive_kills(self):
        spanprof = self.spanprof(sampler=False)
        load = sender.Load(spanprof.grpc_address, senders=3, spans=20)
        dice = random.Random(1)
        for number in range(ROUNDS):
            enough = load.count() + 200
            harness.wait_until(lambda: load.count() >= enough, 20,
                               "round %d: spans are acknowledged" % number)
            time.sleep(dice.uniform(0, 0.2))
            if number % 2:
                spanprof.kill_all()
                spanprof.start()
            else:
                spanprof.kill_service()
        load.stop()
        missing = set()

        def all_there():
            missing.clear()
            missing.update(load.acknowledged - {span.span_id for span in self.backend.spans()})
            return not missing

        try:
            self.backend.wait(all_there, 40)
        except TimeoutError:
            self.fail("%d of %d acknowledged spans are missing" % (len(missing),
                                                                   len(load.acknowledged)))
        strangers = {span.span_id for span in self.backend.spans()} - load.sent
        self.assertEqual(strangers, set())
        print("%d kills, %d spans acknowledged, %d requests sent again" % (
            ROUNDS, len(load.acknowledged), load.refused))

    def test_the_outbox_outlives_a_kill_while_the_backend_is_away(self):
        spanprof = self.spanprof(sampler=False)
        self.backend.stop()
        body, ids = sender.request_of(100)
        sender.GrpcSender(spanprof.grpc_address).send(body)
        spanprof.kill_all()
        self.backend.start()
        spanprof.start()
        self.backend.wait(lambda: set(ids) <= {s.span_id for s in self.backend.spans()}, 20,
                          "the spans are forwarded after the restart")


class Disk(harness.IntegrationTest):
    def send_until_refused(self, spanprof, body, tries):
        client = sender.GrpcSender(spanprof.grpc_address)
        for _ in range(tries):
            code, trailers = client.status(body)
            if code != "OK":
                return code, trailers
        self.fail("%d requests of %d bytes were all taken" % (tries, len(body)))

    def small_disk(self, size_mib):
        mount = os.path.join(self.directory, "small")
        os.mkdir(mount)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=%dm" % size_mib, "tmpfs", mount],
                       check=True)
        self.addCleanup(subprocess.run, ["umount", "-l", mount])
        return mount, {"extensions": {"sqlite_storage": {"directory": os.path.join(mount, "store")}}}

    @harness.needs_root
    def test_a_disk_that_others_fill(self):
        mount, over = self.small_disk(64)
        spanprof = self.spanprof(sampler=False, over=over)
        self.backend.stop()
        body, ids = sender.request_of(500, padding=1000)
        client = sender.GrpcSender(spanprof.grpc_address)
        client.send(body)
        ballast = os.path.join(mount, "ballast")
        free = os.statvfs(mount).f_bavail * os.statvfs(mount).f_frsize
        with open(ballast, "wb") as file:
            file.write(bytes(free - (300 << 10)))
        code, _ = self.send_until_refused(spanprof, body, 20)
        self.assertEqual(code, "UNAVAILABLE")
        self.assertGreater(spanprof.metric("spanprof_requests_refused_total", 'reason="store"'), 0)
        os.unlink(ballast)
        more, more_ids = sender.request_of(500, padding=1000)
        harness.wait_until(lambda: client.status(more)[0] == "OK", 20, "requests are taken again")
        self.backend.start()
        self.backend.wait(lambda: {*ids, *more_ids} <= {s.span_id for s in self.backend.spans()},
                          20, "what was acknowledged is forwarded")
        self.assertEqual(spanprof.metric("spanprof_store_corrupt_total"), 0)

    @harness.needs_root
    def test_a_full_disk_is_answered_and_recovers(self):
        _, over = self.small_disk(8)
        spanprof = self.spanprof(sampler=False, over=over)
        self.backend.stop()
        body, ids = sender.request_of(500, padding=1000)
        code, _ = self.send_until_refused(spanprof, body, 40)
        self.assertEqual(code, "UNAVAILABLE")
        status, headers, _ = sender.post(spanprof.http_address, body)
        self.assertEqual(status, 503)
        self.assertIn("retry-after", headers)
        self.assertGreaterEqual(spanprof.metric("spanprof_requests_refused_total",
                                                'reason="store"'), 2)
        self.backend.start()
        client = sender.GrpcSender(spanprof.grpc_address)
        harness.wait_until(lambda: client.status(sender.request_of(1)[0])[0] == "OK", 30,
                           "requests are taken again")
        self.backend.wait(lambda: set(ids) <= {s.span_id for s in self.backend.spans()}, 20,
                          "what was acknowledged is forwarded")

    def test_the_quota_is_kept(self):
        spanprof = self.spanprof(sampler=False, over={
            "extensions": {"sqlite_storage": {"max_size_mib": 16}}})
        self.backend.stop()
        body, _ = sender.request_of(500, padding=4000)
        code, trailers = self.send_until_refused(spanprof, body, 40)
        self.assertEqual(code, "UNAVAILABLE")
        self.assertIn("grpc-status-details-bin", trailers)
        database = max(glob.glob(os.path.join(spanprof.store, "*")), key=os.path.getsize)
        self.assertLess(os.path.getsize(database), 20 << 20)

    def corrupt(self, spanprof):
        files = [path for path in glob.glob(os.path.join(spanprof.store, "*"))
                 if os.path.isfile(path) and not path.endswith(("-wal", "-shm"))]
        database = max(files, key=os.path.getsize)
        for rest in glob.glob(database + "-*"):
            os.unlink(rest)
        with open(database, "r+b") as file:
            file.write(b"this is not a database " * 400)
        return database

    def test_a_corrupt_database_is_put_aside(self):
        spanprof = self.spanprof(sampler=False)
        sender.GrpcSender(spanprof.grpc_address).send(sender.request_of(10)[0])
        self.stop_spanprof(spanprof)
        database = self.corrupt(spanprof)
        spanprof.start()
        self.assertTrue(glob.glob(database + ".corrupt*"), os.listdir(spanprof.store))
        self.assertGreater(spanprof.metric("spanprof_store_corrupt_total"), 0)
        body, ids = sender.request_of(10)
        sender.GrpcSender(spanprof.grpc_address).send(body)
        self.backend.wait(lambda: set(ids) <= {s.span_id for s in self.backend.spans()}, 10,
                          "spans are forwarded")

    def test_a_file_that_turns_corrupt_in_the_middle_is_put_aside(self):
        spanprof = self.spanprof(sampler=False)
        self.backend.stop()
        sender.GrpcSender(spanprof.grpc_address).send(sender.request_of(2000, padding=500)[0])
        self.stop_spanprof(spanprof)
        files = [p for p in glob.glob(os.path.join(spanprof.store, "*")) if os.path.isfile(p)]
        database = max(files, key=os.path.getsize)
        size = os.path.getsize(database)
        with open(database, "r+b") as file:  # the header stays good
            file.seek(4096)
            file.write(os.urandom(size - 4096))
        spanprof.start()
        self.backend.start()
        body, ids = sender.request_of(10)
        client = sender.GrpcSender(spanprof.grpc_address)
        harness.wait_until(lambda: client.status(body)[0] == "OK", 20, "requests are taken again")
        self.backend.wait(lambda: set(ids) <= {s.span_id for s in self.backend.spans()}, 20,
                          "spans are forwarded")
        self.assertGreater(spanprof.metric("spanprof_store_corrupt_total"), 0)


if __name__ == "__main__":
    harness.main()

# SPDX-License-Identifier: Apache-2.0
"""docs/reliability.md, what takes a whole program: health, a full store, a backlog, damage, outages.

With SPANPROF_SOAK=1 the same in its long form.
"""
import contextlib
import glob
import json
import os
import random
import shutil
import socket
import subprocess
import sys
import time
import unittest
import urllib.error
import urllib.request

import grpc

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))
import harness  # noqa: E402
import sender  # noqa: E402

MIB = 1 << 20
YEARS = 20 * 365 * 86400


def database_of(spanprof):
    return os.path.join(spanprof.store, "spanprof.db")


def waits(spanprof):
    return spanprof.metric("spanprof_outbox_requests")


def loop_disk(test, size_mib):
    """A folder with an ext4 of that size; skips the test where that cannot be."""
    image, mount = test.directory + "/image", test.directory + "/disk"
    os.mkdir(mount)
    with open(image, "wb") as file:
        file.truncate(size_mib * MIB)
    for command in (["mkfs.ext4", "-q", "-F", "-m", "0", image], ["mount", "-o", "loop", image, mount]):
        if not shutil.which(command[0]) or subprocess.run(command, capture_output=True).returncode:
            test.skipTest("no loop file system here: %s fails" % command[0])
    test.addCleanup(subprocess.run, ["umount", "-l", mount])
    return mount


class HealthTest(harness.IntegrationTest):
    def with_health(self, over=None):
        self.health_port = harness.free_port()
        return harness.merge({
            "extensions": {"health_check": {"endpoint": "127.0.0.1:%d" % self.health_port,
                                            "path": "/health"}},
            "service": {"extensions": ["sqlite_storage", "health_check"]}}, over or {})

    def page(self):
        """(HTTP status, what it says)."""
        try:
            with urllib.request.urlopen("http://127.0.0.1:%d/health" % self.health_port,
                                        timeout=5) as answer:
                return answer.status, json.load(answer)["status"]
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)["status"]

    def check(self, spanprof, service=""):
        """The serving status by number; raises grpc.RpcError."""
        request = b"\x0a" + bytes([len(service)]) + service.encode() if service else b""
        with grpc.insecure_channel(spanprof.grpc_address) as channel:
            answer = channel.unary_unary("/grpc.health.v1.Health/Check")(request, timeout=5)
        self.assertEqual((len(answer), answer[0]), (2, 8))
        return answer[1]


class Health(HealthTest):
    def test_well(self):
        spanprof = self.spanprof(sampler=False, over=self.with_health())
        self.assertEqual(self.page(), (200, "Server available"))
        self.assertEqual(self.check(spanprof), 1)
        self.assertEqual(
            self.check(spanprof, "opentelemetry.proto.collector.trace.v1.TraceService"), 1)
        with self.assertRaises(grpc.RpcError) as raised:
            self.check(spanprof, "opentelemetry.proto.collector.logs.v1.LogsService")
        self.assertEqual(raised.exception.code(), grpc.StatusCode.NOT_FOUND)
        with self.assertRaises(urllib.error.HTTPError) as raised:
            urllib.request.urlopen("http://127.0.0.1:%d/" % self.health_port, timeout=5)
        self.assertEqual(raised.exception.code, 404)
        status, headers, _ = sender.post("127.0.0.1:%d" % self.health_port, b"x", path="/health")
        self.assertEqual((status, headers["allow"]), (405, "GET, HEAD"))
        status, _, body = sender.post("127.0.0.1:%d" % self.health_port, None, path="/health",
                                      method="HEAD")
        self.assertEqual((status, body), (200, b""))

    def test_silent_peers_keep_nobody_out(self):
        spanprof = self.spanprof(sampler=False, over=self.with_health())
        address = "127.0.0.1", self.health_port
        with contextlib.ExitStack() as silent:
            for _ in range(100):
                silent.enter_context(socket.create_connection(address, timeout=5))
            began = time.monotonic()
            self.assertEqual(self.page(), (200, "Server available"))
            self.assertLess(time.monotonic() - began, 1)
        self.assertGreaterEqual(spanprof.metric("spanprof_telemetry_connections_ended_total", "crowded_out"), 100 - 16)

    def test_a_full_store_is_not_ready_and_is_again(self):
        spanprof = self.spanprof(sampler=False, over=self.with_health(
            {"extensions": {"sqlite_storage": {"max_size_mib": 16}}}))
        channel = grpc.insecure_channel(spanprof.grpc_address)
        self.addCleanup(channel.close)
        watched = channel.unary_stream("/grpc.health.v1.Health/Watch")(b"", timeout=120)
        self.assertEqual(next(watched), b"\x08\x01")
        self.backend.stop()
        client = sender.GrpcSender(spanprof.grpc_address)
        body, _ = sender.request_of(500, padding=2000)
        harness.wait_until(lambda: client.status(body)[0] != "OK", 30, "it is full")
        small, _ = sender.request_of(10, padding=1000)
        harness.wait_until(lambda: client.status(small)[0] != "OK", 30, "it is full for small ones too")
        self.assertEqual(self.page(), (503, "Store full"))
        self.assertEqual(self.check(spanprof), 2)
        self.assertEqual(next(watched), b"\x08\x02")
        self.backend.start()
        harness.wait_until(lambda: self.page()[0] == 200, 30, "it is ready again")
        self.assertEqual(self.check(spanprof), 1)
        self.assertEqual(next(watched), b"\x08\x01")
        self.stop_spanprof(spanprof)
        with self.assertRaises(grpc.RpcError) as raised:
            next(watched)
        self.assertEqual(raised.exception.code(), grpc.StatusCode.UNAVAILABLE)

    @harness.needs_root
    def test_a_disk_that_hangs(self):
        mount = loop_disk(self, 64)
        spanprof = self.spanprof(sampler=False, over=self.with_health(
            {"extensions": {"sqlite_storage": {"directory": mount + "/store"}}}))
        body, ids = sender.request_of(10)
        call = sender.GrpcSender(spanprof.grpc_address).call
        subprocess.run(["fsfreeze", "-f", mount], check=True)
        try:
            answer = call.future(body, timeout=60)
            harness.wait_until(lambda: self.page() == (503, "Store hangs"), 30, "it says that it hangs")
            self.assertEqual(self.check(spanprof), 2)
            self.assertFalse(answer.done())  # and nothing was acknowledged
        finally:
            subprocess.run(["fsfreeze", "-u", mount], check=True)
        answer.result()
        harness.wait_until(lambda: self.page()[0] == 200, 10, "it is well again")
        self.backend.wait(lambda: set(ids) <= {s.span_id for s in self.backend.spans()}, 20,
                          "the spans are forwarded")


class Full(harness.IntegrationTest):
    def assert_drops_oldest(self, spanprof, client, n):
        """Sends n requests, of which none is refused for long; the newest ones arrive."""
        self.backend.stop()
        sent = []
        for _ in range(n):
            body, ids = sender.request_of(50, padding=2000)
            harness.wait_until(lambda: client.status(body)[0] == "OK", 20, "the newest is taken")
            sent.append(ids)
        waiting = spanprof.metric("spanprof_outbox_items", 'signal="traces"')
        dropped = spanprof.metric("spanprof_outbox_dropped_items_total",
                                  'signal="traces",reason="full"')
        self.assertGreater(dropped, 0)
        self.assertEqual(waiting + dropped, 50 * n)  # each loss is counted
        self.assertGreater(waiting / 50, 40)  # and no more than that is given up
        print("%d requests of %d KiB sent, %d kept" % (n, len(body) >> 10, waiting / 50))
        kept = [span_id for ids in sent[-int(waiting / 50):] for span_id in ids]
        self.backend.start()
        self.backend.wait(lambda: set(kept) <= {s.span_id for s in self.backend.spans()},
                          30, "what was kept arrives")
        early = {span_id for ids in sent[:10] for span_id in ids}  # on their way when given up
        self.assertEqual({s.span_id for s in self.backend.spans()} - set(kept) - early, set())

    def test_quota(self):
        spanprof = self.spanprof(sampler=False, over={"extensions": {"sqlite_storage": {
            "max_size_mib": 16, "when_full": "drop_oldest"}}})
        self.assert_drops_oldest(spanprof, sender.GrpcSender(spanprof.grpc_address), 300)
        self.assertLessEqual(os.path.getsize(database_of(spanprof)), 16 * MIB)
        self.assertEqual(spanprof.metric("spanprof_requests_refused_total"), 0)

    @harness.needs_root
    def test_disk(self):
        mount = os.path.join(self.directory, "small")
        os.mkdir(mount)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", mount], check=True)
        self.addCleanup(subprocess.run, ["umount", "-l", mount])
        spanprof = self.spanprof(sampler=False, over={"extensions": {"sqlite_storage": {
            "directory": mount + "/store", "when_full": "drop_oldest"}}})
        self.assert_drops_oldest(spanprof, sender.GrpcSender(spanprof.grpc_address), 160)



class LoopDisk(harness.IntegrationTest):
    """A small ext4 that others fill while requests are being written."""

    @harness.needs_root
    def test_enospc(self):
        mount = loop_disk(self, 48)
        spanprof = self.spanprof(sampler=False, over={
            "extensions": {"sqlite_storage": {"directory": mount + "/store"}}})
        self.backend.stop()
        load = sender.Load(spanprof.grpc_address, senders=2, spans=50, padding=2000)
        for number in range(20 if harness.SOAK else 3):
            harness.wait_until(lambda: load.count() > 500 * (number + 1), 20, "requests are taken")
            refused = load.refused
            with open(mount + "/ballast", "wb") as file:
                try:
                    while file.write(bytes(MIB)):
                        pass
                except OSError:  # to the last byte: what is being written meets it
                    pass
            harness.wait_until(lambda: load.refused > refused, 20, "requests are refused")
            os.unlink(mount + "/ballast")
        self.backend.start()
        acknowledged = load.count()
        harness.wait_until(lambda: load.count() > acknowledged, 20, "requests are taken again")
        load.stop()
        self.backend.wait(lambda: load.acknowledged <= {s.span_id for s in self.backend.spans()},
                          40, "all that was acknowledged arrives")
        self.assertEqual(spanprof.metric("spanprof_store_corrupt_total"), 0)


class Backlog(harness.IntegrationTest):
    SIZE_MIB = 10240 if harness.SOAK else 200
    QUOTA_MIB = SIZE_MIB * 5 // 4

    def fill(self, spanprof):
        """Several senders, as one thread here is slower than the store."""
        body, _ = sender.request_of(30, padding=32000)  # some 1 MiB
        todo = self.SIZE_MIB * MIB // len(body) + 1
        client = sender.GrpcSender(spanprof.grpc_address)
        while todo:
            n = min(todo, 16)
            for answer in [client.call.future(body, timeout=60) for _ in range(n)]:
                todo -= answer.exception() is None

    def first_accepted(self, spanprof):
        """Seconds from the start of the process to the answer to a request."""
        body, _ = sender.request_of(1)
        began = time.monotonic()
        spanprof.launch()
        while True:
            try:
                status, _, _ = sender.post(spanprof.http_address, body, timeout=60)
                if status == 200:
                    return time.monotonic() - began
            except OSError:
                pass
            time.sleep(0.005)

    def measure(self, spanprof):
        seconds = []
        for _ in range(3):
            spanprof.kill_all()
            seconds.append(self.first_accepted(spanprof))
        return min(seconds), harness.pss_kib(spanprof.service)

    def test_restart(self):
        self.restart(sampler=False)

    @harness.needs_sampling
    def test_restart_sampling(self):
        self.restart(sampler=True)

    def restart(self, sampler):
        if shutil.disk_usage(self.directory).free < 2 * self.SIZE_MIB * MIB:
            self.skipTest("needs twice %d MiB of disk" % self.SIZE_MIB)
        spanprof = self.spanprof(sampler=sampler, over={
            "extensions": {"sqlite_storage": {"max_size_mib": self.QUOTA_MIB}}})
        self.backend.stop()
        empty_s, empty_kib = self.measure(spanprof)
        self.fill(spanprof)
        self.assertGreaterEqual(spanprof.metric("spanprof_outbox_size_bytes"), self.SIZE_MIB * MIB)
        full_s, full_kib = self.measure(spanprof)
        print("start%s to first accepted request: %.0f ms empty, %.0f ms with %d MiB queued; "
              "PSS %d and %d KiB" % (" with the sampler" if sampler else "", 1e3 * empty_s, 1e3 * full_s, self.SIZE_MIB, empty_kib, full_kib))
        self.assertLess(full_s, 1.0 * harness.SLOWNESS)
        self.assertGreaterEqual(spanprof.metric("spanprof_outbox_size_bytes"), self.SIZE_MIB * MIB)
        if not harness.SANITIZE:  # a request or two on their way, and caches
            self.assertLess(full_kib, empty_kib + 16 * 1024)


class Damage(harness.IntegrationTest):
    TRIALS = 500 if harness.SOAK else 25

    def damage(self, dice, spanprof):
        """Overwrites, or cuts, at random places of database and log."""
        paths = [path for path in glob.glob(database_of(spanprof) + "*")
                 if not path.endswith("-shm") and ".corrupt" not in path]
        path = dice.choice([path for path in paths if os.path.getsize(path)])
        size = os.path.getsize(path)
        with open(path, "r+b") as file:
            if dice.random() < 0.1:
                file.truncate(dice.randrange(size))
                return
            for _ in range(dice.choice((1, 1, 4, 64))):
                file.seek(dice.choice((dice.randrange(size), dice.randrange(min(size, 8192)))))
                file.write(dice.randbytes(dice.choice((1, 8, 512, 4096))))

    def test_any_damage(self):
        dice = random.Random(harness.SOAK)
        over = {"processors": {"join": {"wait": "1s"}}, "extensions": {"history": {}},
                "service": {"extensions": ["sqlite_storage", "history"]}}
        spanprof = self.spanprof(sampler=False, over=over)
        self.backend.stop()
        client = sender.GrpcSender(spanprof.grpc_address)
        put_aside = 0
        for trial in range(self.TRIALS):
            for _ in range(4):
                client.status(sender.request_of(20, padding=dice.choice((10, 1000)))[0])
            spanprof.kill_all()
            self.damage(dice, spanprof)
            with self.subTest(trial=trial):
                spanprof.start()  # raises when it does not serve
                body, _ = sender.request_of(1)
                harness.wait_until(lambda: client.status(body)[0] == "OK", 10, "requests are taken")
            put_aside += spanprof.metric("spanprof_store_corrupt_total")
        self.backend.start()
        body, ids = sender.request_of(10)
        harness.wait_until(lambda: client.status(body)[0] == "OK", 10, "requests are taken")
        self.backend.wait(lambda: set(ids) <= {s.span_id for s in self.backend.spans()},
                          30, "the last ones arrive")
        print("%d trials, %d stores put aside" % (self.TRIALS, put_aside))
        self.assertGreater(put_aside, 0)


class Outage(harness.IntegrationTest):
    SECONDS = 600 if harness.SOAK else 6
    PAUSE_S = 0.04 if harness.SOAK else 0  # 1,000 spans/s: the backend of the tests keeps all in memory

    def test_memory_is_flat(self):
        spanprof = self.spanprof(sampler=False, over={
            "extensions": {"sqlite_storage": {"max_size_mib": 20000}}})
        load = sender.Load(spanprof.grpc_address, senders=2, spans=20, padding=1000, pause_s=self.PAUSE_S)
        harness.wait_until(lambda: load.count() > 3000, 30, "there is load")
        before_kib = harness.pss_kib(spanprof.service)
        self.backend.stop()
        time.sleep(self.SECONDS)
        away_kib = harness.pss_kib(spanprof.service)
        load.stop()
        n_waiting, age = waits(spanprof), spanprof.metric("spanprof_outbox_oldest_age_seconds")
        self.backend.start()
        self.backend.wait(lambda: load.acknowledged <= {s.span_id for s in self.backend.spans()},
                          60 + self.SECONDS, "all that was acknowledged arrives")
        after_kib = harness.pss_kib(spanprof.service)
        print("%d s away: %d spans, %d requests waited, the oldest %d s; PSS %d KiB before, %d at "
              "its end, %d after" % (self.SECONDS, load.count(), n_waiting, age, before_kib,
                                     away_kib, after_kib))
        self.assertGreater(n_waiting, 0)
        self.assertGreaterEqual(age, self.SECONDS - 4)
        if not harness.SANITIZE:
            self.assertLess(max(away_kib, after_kib), before_kib + 16 * 1024)


class Clock(harness.IntegrationTest):
    """CLOCK_REALTIME jumps under load (clock_shift.c puts itself before libc's)."""

    @unittest.skipIf(harness.SANITIZE, "a library put before the sanitizer's")
    def test_jumps(self):
        shift = os.path.join(self.directory, "shift")
        self.shift(shift, YEARS)
        os.environ["SPANPROF_TEST_CLOCK_SHIFT"] = shift
        os.environ["LD_PRELOAD"] = os.path.join(harness.BUILD, "test", "libclock_shift.so")
        try:
            spanprof = self.spanprof(sampler=False)
        finally:
            del os.environ["LD_PRELOAD"]
        self.assertIn("\n%d-" % time.gmtime(time.time() + YEARS).tm_year,
                      "\n" + spanprof.log())  # it has seen that time
        load = sender.Load(spanprof.grpc_address, senders=2)
        for jump_s in (3600, -86400, 0, 10 * 365 * 86400, -40 * 365 * 86400, 0):
            self.shift(shift, jump_s)
            enough = load.count() + 400
            harness.wait_until(lambda: load.count() > enough, 20,
                               "requests are taken after a jump by %d s" % jump_s)
            self.backend.wait(lambda: len(self.backend.spans()) > enough - 200, 20, "and forwarded")
            self.assertGreaterEqual(spanprof.metric("spanprof_outbox_oldest_age_seconds"), 0)
        load.stop()
        self.backend.wait(lambda: load.acknowledged <= {s.span_id for s in self.backend.spans()},
                          20, "all that was acknowledged arrives")
        self.assertEqual(spanprof.metric("spanprof_exporter_dropped_items_total"), 0)

    def shift(self, path, seconds):
        with open(path + ".new", "wb") as file:
            file.write(seconds.to_bytes(8, "little", signed=True))
        os.chmod(path + ".new", 0o644)
        os.rename(path + ".new", path)


if __name__ == "__main__":
    harness.main()

# SPDX-License-Identifier: Apache-2.0
"""All attacks at once, beside an honest tenant and programs whose names and spans are looked at: memory and disk stay
within what `spanprof limits` says, and the tenant notices nothing."""
import collections
import http.client
import os
import re
import shutil
import subprocess
import sys
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "support"), os.path.join(os.path.dirname(HERE), "integration", "support")]
import harness  # noqa: E402
import neighbour  # noqa: E402
import traced  # noqa: E402
import tracing  # noqa: E402
import twins  # noqa: E402

SECONDS = 300 if neighbour.FULL else 20
ALONE_SECONDS = 30 if neighbour.FULL else 5
HOLDS = {"memory": 0, "uffd": 0, "link": 0, "overlay": 0, "flood": neighbour.NOBODY}  # and who starts them
ATTACKERS = 7 + len(HOLDS) + 2
CPUS = 0.5 * os.cpu_count() / ATTACKERS  # of each: all together they have half of this machine
WORK_S = 0.5
MIB = 1 << 20
HONEST = "known_by_symtab"


def size_of(directory):
    return sum(os.path.getsize(os.path.join(directory, name)) for name in os.listdir(directory))


@harness.needs_sampling
class All(tracing.TracingTest, twins.TwinsTest):
    def start(self):
        self.pages_port, self.health_port = harness.free_port(), harness.free_port()
        spanprof = self.spanprof(over={
            "processors": {"join": {"wait": "%ds" % tracing.WAIT_S}},
            "extensions": {"pages": {"endpoint": "localhost:%d" % self.pages_port, "auth": {"required": False}},
                           "health_check": {"endpoint": "localhost:%d" % self.health_port}, "history": {}},
            "service": {"extensions": ["sqlite_storage", "pages", "history", "health_check"]}})
        spanprof.wait_sampling()
        return spanprof

    def limits(self, spanprof):
        """(memory of all processes and the kernel, disk), in bytes."""
        text = subprocess.run([harness.BINARY, "limits", "--config", spanprof.config_path], check=True,
                              capture_output=True, text=True).stdout
        memory = int(re.search(r"(\d+) += memory of all processes", text).group(1))
        disk = text.split("\ndisk\n")[1]
        return memory, int(re.search(r"(\d+) +the store", disk).group(1)) + int(
            re.search(r"(\d+) +its write-ahead log", disk).group(1))

    def attack_all(self, spanprof, claimed):
        """Each in a cgroup and of a user of its own; their processes. A forged twin and a thief are there already."""
        users = iter(range(60001, 60100))
        scripts = (("starve", spanprof.grpc_port, 20), ("idle", spanprof.grpc_port, 400),
                   ("poison", spanprof.http_port, 10 << 20, 20 << 20),
                   ("resources", spanprof.http_address, SECONDS),
                   ("questions", "localhost:%d" % self.pages_port, 4, SECONDS),
                   ("claims", spanprof.http_address, 24, claimed["trace"], claimed["span"]),
                   ("rotate", spanprof.http_address))
        started = [self.neighbour(uid=next(users), cpus=CPUS).script(*script, stdout=subprocess.PIPE)
                   for script in scripts]
        for mode, uid in HOLDS.items():
            try:
                started += self.hold(mode, SECONDS, uid=uid, cpus=CPUS).processes
            except unittest.SkipTest as reason:
                harness.note_skipped("All.test_all_at_once, " + mode, reason)
        for process in started[:len(scripts)]:
            self.assertEqual(process.stdout.readline(), b"attacking\n")
        return started

    def memory(self, spanprof):
        """Of all processes, what is shared divided by those who share it."""
        total = 0
        for pid in [spanprof.supervisor, *harness.children_of(spanprof.supervisor)]:
            try:
                total += harness.pss_kib(pid) * 1024
            except (OSError, AttributeError):  # it has ended
                continue
        return total

    def healthy(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.health_port, timeout=10)
        connection.request("GET", "/")
        status = connection.getresponse().status
        connection.close()
        return status == 200

    def names_come(self):
        """Of a program that nobody has seen before; how long it took."""
        program = os.path.join(self.directory, "fresh%d" % time.monotonic_ns())
        shutil.copy(os.path.join(harness.BUILD, "test", "names_program"), program)
        process = self.neighbour(uid=61000, cpus=0.3).start(program, "3")
        self.addCleanup(process.kill)
        began = time.monotonic()
        name = os.path.basename(program)
        try:
            harness.wait_until(lambda: any(sample.frames and sample.frames[0].function == HONEST
                                           for sample in self.backend.samples()
                                           if sample.resource.get("process.executable.name") == name),
                               40, "names of " + name)
        except TimeoutError as error:
            raise TimeoutError("%s; seen of it: %s; counted: %s" % (
                error, self.seen_of(process.pid), self.losses())) from error
        return time.monotonic() - began

    def seen_of(self, pid):
        return collections.Counter(
            (sample.resource.get("process.executable.name"), sample.frames[0].name() if sample.frames else None)
            for sample in self.backend.samples() if sample.resource.get("process.pid") == pid)

    def losses(self):
        return {key: value for key, value in self.node.metrics().items()
                if value and re.search("lost|dropped|late|forgotten|refused|unread|pending", key)}

    def send_spans(self, victim, thief):
        """One that the victim worked on, and one that only the thief did; their ids."""
        own, stolen = traced.new_ids(), traced.new_ids()
        victim.send(self.node.http_address, own, tracing.PAYMENTS, victim.work(own, WORK_S))
        victim.send(self.node.http_address, stolen, tracing.PAYMENTS, thief.work(stolen, WORK_S * CPUS))
        return own, stolen

    def test_all_at_once(self):
        spanprof = self.node = self.sp = self.start()
        memory_limit, disk_limit = self.limits(spanprof)
        supervisor, service = spanprof.supervisor, spanprof.service
        honest, forged = self.place("honest", "site"), self.place("forged", "evil")
        victim, thief, claimed = self.victim(), self.program(self.neighbour()), traced.new_ids()
        tenant = self.tenant(spanprof)
        alone_s = tenant.run(ALONE_SECONDS)
        twin = self.start_forged(forged, honest, cpus=CPUS)
        started, before = self.attack_all(spanprof, claimed), len(tenant.seconds)
        memory = disk = 0
        names, sent, until = [], [], time.monotonic() + SECONDS
        while time.monotonic() < until:
            memory, disk = max(memory, self.memory(spanprof)), max(disk, size_of(spanprof.store))
            self.assertTrue(self.healthy())
            sent.append(self.send_spans(victim, thief))
            if time.monotonic() < until - 10:
                names.append(self.names_come())
                self.assert_true_stacks(self.start_twin(honest, uid=0, cpus=0.3), "honest_function")
            time.sleep(1)
        attacked_s, seconds = tenant.p99_s(before), tenant.seconds[before:]
        tenant.stop()
        print("tenant's p99 in each tenth of the time: %s ms" % " ".join(
            "%.0f" % (1000 * neighbour.p99_of(seconds[i * len(seconds) // 10:(i + 1) * len(seconds) // 10]))
            for i in range(10)), file=sys.stderr)
        metrics = spanprof.metrics()
        print("%d attackers, %d s: memory %.0f MiB of %.0f, disk %.0f MiB of %.0f; names after %s s; readers lost %d, "
              "banned %d, refused %d" % (
                  len(started) + 2, SECONDS, memory / MIB, memory_limit / MIB, disk / MIB, disk_limit / MIB,
                  " ".join("%.1f" % seconds for seconds in names), metrics["spanprof_readers_lost_total"],
                  metrics["spanprof_processes_banned_total"], sum(
                      value for key, value in metrics.items() if key.startswith("spanprof_requests_refused_total"))),
              file=sys.stderr)
        self.assertGreater(metrics["spanprof_readers_lost_total"], 0)
        self.assertLess(memory, memory_limit)
        self.assertLess(disk, disk_limit)
        self.assertEqual((spanprof.supervisor, spanprof.service), (supervisor, service))
        self.assertIsNone(twin.poll())
        self.assert_arrived(tenant, 60)
        victim.send(spanprof.http_address, claimed, tracing.PAYMENTS, victim.work(claimed, WORK_S))
        for ids in (*(own for own, _ in sent), claimed):
            self.assert_joined(ids, WORK_S, tracing.PAYMENTS)
        for _, stolen in sent:
            self.assert_not_joined(stolen, tracing.PAYMENTS)
        self.assert_unharmed(tenant, alone_s, attacked_s)


if __name__ == "__main__":
    harness.main()

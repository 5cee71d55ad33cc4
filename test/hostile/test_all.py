# SPDX-License-Identifier: Apache-2.0
"""All attacks at once, beside an honest tenant and a program whose names are asked for: memory and disk stay within what
`spanprof limits` says, and the tenant notices nothing."""
import http.client
import os
import re
import shutil
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "support"), os.path.join(os.path.dirname(HERE), "integration", "support")]
import harness  # noqa: E402
import neighbour  # noqa: E402

SECONDS = 300 if neighbour.FULL else 20
ALONE_SECONDS = 30 if neighbour.FULL else 5
CPUS = 0.1  # of each attacker: all together they have half of this machine
MIB = 1 << 20
HONEST = "known_by_symtab"


def pss_of(pid):
    """Bytes of memory, what is shared divided by those who share it."""
    try:
        with open("/proc/%d/smaps_rollup" % pid) as file:
            return int(re.search(r"^Pss: +(\d+) kB", file.read(), re.M).group(1)) * 1024
    except (OSError, AttributeError):
        return 0


def size_of(directory):
    return sum(os.path.getsize(os.path.join(directory, name)) for name in os.listdir(directory))


@harness.needs_sampling
class All(neighbour.HostileTest):
    def start(self):
        self.pages_port, self.health_port = harness.free_port(), harness.free_port()
        spanprof = self.spanprof(over={
            "processors": {"join": {"wait": "2s"}},
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

    def attack(self, spanprof):
        """Each in a cgroup and of a user of its own."""
        users = iter(range(60001, 60100))
        scripts = (("starve", spanprof.grpc_port, 20), ("idle", spanprof.grpc_port, 400),
                   ("poison", spanprof.http_port, 10 << 20, 20 << 20),
                   ("resources", spanprof.http_address, SECONDS),
                   ("questions", "localhost:%d" % self.pages_port, 4, SECONDS))
        for script in scripts:
            self.neighbour(uid=next(users), cpus=CPUS).script(*script, stdout=subprocess.DEVNULL)
        os.chmod(self.directory, 0o755)
        for mode in ("memory", "link", "overlay", "flood"):
            directory = os.path.join(self.directory, mode)
            os.mkdir(directory)
            self.neighbour(uid=0, cpus=CPUS).program("hold", mode, directory, SECONDS, stdout=subprocess.DEVNULL)
        return len(scripts) + 4

    def memory(self, spanprof):
        pids = [spanprof.supervisor, *harness.children_of(spanprof.supervisor)]
        return sum(map(pss_of, pids))

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
        harness.wait_until(lambda: any(sample.frames and sample.frames[0].function == HONEST
                                       for sample in self.backend.samples()
                                       if sample.resource.get("process.executable.name") == name),
                           40 * harness.SLOWNESS, "names of " + name)
        return time.monotonic() - began

    def test_all_at_once(self):
        spanprof = self.start()
        memory_limit, disk_limit = self.limits(spanprof)
        supervisor, service = spanprof.supervisor, spanprof.service
        tenant = self.tenant(spanprof)
        alone_s = tenant.run(ALONE_SECONDS)
        n, before = self.attack(spanprof), len(tenant.seconds)
        memory = disk = 0
        names, until = [], time.monotonic() + SECONDS
        while time.monotonic() < until:
            memory, disk = max(memory, self.memory(spanprof)), max(disk, size_of(spanprof.store))
            self.assertTrue(self.healthy())
            if time.monotonic() < until - 10:
                names.append(self.names_come())
            time.sleep(1)
        attacked_s = sorted(tenant.seconds[before:])[int((len(tenant.seconds) - before) * 0.99)]
        tenant.stop()
        metrics = spanprof.metrics()
        print("%d attackers, %d s: memory %.0f MiB of %.0f, disk %.0f MiB of %.0f; names after %s s; readers lost %d, "
              "banned %d, refused %d" % (
                  n, SECONDS, memory / MIB, memory_limit / MIB, disk / MIB, disk_limit / MIB,
                  " ".join("%.1f" % seconds for seconds in names), metrics["spanprof_readers_lost_total"],
                  metrics["spanprof_processes_banned_total"], sum(
                      value for key, value in metrics.items() if key.startswith("spanprof_requests_refused_total"))),
              file=sys.stderr)
        self.assertGreater(metrics["spanprof_readers_lost_total"], 0)
        self.assertLess(memory, memory_limit)
        self.assertLess(disk, disk_limit)
        self.assertEqual((spanprof.supervisor, spanprof.service), (supervisor, service))
        self.assert_unharmed(tenant, alone_s, attacked_s)
        self.assert_arrived(tenant, 60)


if __name__ == "__main__":
    harness.main()

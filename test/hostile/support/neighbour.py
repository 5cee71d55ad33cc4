# SPDX-License-Identifier: Apache-2.0
"""A neighbour on the node that means harm, and an honest tenant beside it.

Neighbour: processes of an unprivileged user in a cgroup of half a CPU, if asked in namespaces of their own.
Tenant: a client that sends small requests one after the other and knows how long each took.
"""
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time

TEST = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(TEST, "integration", "support"))
import harness  # noqa: E402

NOBODY = 65534
SPANS_SHOWN = 100  # of a scope in a request: the tenant's and the victim's have less; attackers send millions
FULL = harness.SOAK  # the full size of an attack; else the short form
LEAST_P99_S = 0.05
LEAST_REQUESTS = 200  # that a percentile is taken of
CPU_PERIOD_US = 100000


def p99_of(seconds):
    ordered = sorted(seconds)
    return ordered[int(len(ordered) * 0.99)] if ordered else float("inf")


def own_cgroup(controller):
    """Of version 1."""
    with open("/proc/self/cgroup") as file:
        for line in file:
            _, controllers, path = line.rstrip("\n").split(":", 2)
            if controller in controllers.split(","):
                return path.lstrip("/")
    return ""


def cgroup_roots():
    """(version 2, the CPU controller of version 1 or None). A share of the CPUs is one of this process's own."""
    unified = cpu = None
    with open("/proc/self/mounts") as file:
        for line in file:
            _, path, kind, options = line.split()[:4]
            if kind == "cgroup2":
                unified = unified or path
            elif kind == "cgroup" and "cpu" in options.split(","):
                own = os.path.join(path, own_cgroup("cpu"))
                cpu = own if os.path.isdir(own) else path  # a container may be shown its own as the root
    return unified, cpu


def write(path, text):
    with open(path, "w") as file:
        file.write(text)


def as_user(uid):
    """What starts a command as this user, without groups."""
    return ["setpriv", "--reuid=%d" % uid, "--regid=%d" % uid, "--clear-groups"]


class Cgroup:
    """Of version 2, by which the kernel tells tenants apart, with a share of the CPUs."""
    made = 0

    def __init__(self, cpus, name=None):
        Cgroup.made += 1
        name = name or "spanprof-test-%d-%d" % (os.getpid(), Cgroup.made)
        unified, cpu = cgroup_roots()
        if not unified:
            raise RuntimeError("no cgroups of version 2 are mounted")
        quota_us = int(cpus * CPU_PERIOD_US)
        self.path = os.path.join(unified, name)
        os.mkdir(self.path)
        self.paths = [self.path]
        if cpu:
            self.paths.append(os.path.join(cpu, name))
            os.mkdir(self.paths[1])
            write(os.path.join(self.paths[1], "cpu.cfs_period_us"), str(CPU_PERIOD_US))
            write(os.path.join(self.paths[1], "cpu.cfs_quota_us"), str(quota_us))
        else:
            write(os.path.join(unified, "cgroup.subtree_control"), "+cpu")
            write(os.path.join(self.path, "cpu.max"), "%d %d" % (quota_us, CPU_PERIOD_US))

    @property
    def id(self):
        """As bpf_get_current_cgroup_id() gives it."""
        return os.stat(self.path).st_ino

    def enter(self):
        """By a child before it execs."""
        for path in self.paths:
            write(os.path.join(path, "cgroup.procs"), "0")

    def pids(self):
        """Empty also once it is removed."""
        try:
            with open(os.path.join(self.path, "cgroup.procs")) as file:
                return [int(line) for line in file]
        except FileNotFoundError:
            return []

    def remove(self):
        """Kills what is in it. A process that cannot die keeps it: the next boot removes it."""
        deadline = time.monotonic() + 5
        while self.pids() and time.monotonic() < deadline:
            for pid in self.pids():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.02)
        for path in self.paths:
            with contextlib.suppress(OSError):
                os.rmdir(path)


class Neighbour:
    """unshare: flags of unshare(1) for namespaces of its own, such as ("--mount", "--map-root-user")."""

    def __init__(self, uid=NOBODY, cpus=0.5):
        self.uid = uid
        self.cgroup = Cgroup(cpus)
        self.processes = []

    def start(self, *command, unshare=(), **options):
        """A process of this user, with no group and no capability."""
        launcher = [*as_user(self.uid), "--inh-caps=-all"]
        if unshare:
            launcher += ["unshare", *unshare]
        process = subprocess.Popen([*launcher, *map(str, command)], preexec_fn=self.cgroup.enter,
                                   env=harness.environment(), **options)
        self.processes.append(process)
        return process

    def program(self, name, *arguments, **options):
        """One of the attack programs, test/hostile/programs."""
        return self.start(os.path.join(harness.BUILD, "test", name), *arguments, **options)

    def script(self, name, *arguments, **options):
        """An attack that is a client: a Python program beside the test."""
        path = os.path.join(TEST, "hostile", "clients", name + ".py")
        return self.start(sys.executable, "-B", path, *arguments, **options)

    def stop(self):
        self.cgroup.remove()
        for process in self.processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(2)

    def close(self):
        """What they said can be read no more."""
        self.stop()
        for process in self.processes:
            if process.stdout:
                process.stdout.close()


class Tenant:
    """Sends a request, waits for the answer, sends the next, from a process of its own: what the test does meanwhile
    does not delay it."""

    def __init__(self, address, spans=5, pause_s=0.01, timeout_s=60):
        self.seconds = []        # of each request that was answered
        self.failures = []       # gRPC's words of each that was not
        self.acknowledged = set()  # span ids
        self._timeout_s = timeout_s
        self._client = subprocess.Popen(
            [sys.executable, "-B", os.path.join(TEST, "hostile", "clients", "tenant.py"),
             address, str(spans), str(pause_s), str(timeout_s)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def _follow(self):
        for line in self._client.stdout:
            answer = json.loads(line)
            self.acknowledged.update(answer["acknowledged"])
            if answer["failure"]:
                self.failures.append(answer["failure"])
            self.seconds.append(answer["seconds"])

    def stop(self):
        """After the request under way."""
        self._client.stdin.close()
        self._thread.join(self._timeout_s + 5)
        self._client.wait(5)
        self._client.stdout.close()
        return self

    def p99_s(self, since=0, least=LEAST_REQUESTS):
        """Of all requests but the first ones; there are enough of them."""
        harness.wait_until(lambda: len(self.seconds) - since >= least, self._timeout_s, "enough requests")
        return p99_of(self.seconds[since:])

    def run(self, seconds, least=LEAST_REQUESTS):
        """As long as that at least; the tenant goes on."""
        before = len(self.seconds)
        time.sleep(seconds)
        return self.p99_s(before, least)


class HostileTest(harness.IntegrationTest):
    """self.neighbour(), self.tenant(); the bound on what an attack may cost the tenant."""

    def setUp(self):
        super().setUp()
        for path in (TEST, harness.BUILD):
            if subprocess.run([*as_user(NOBODY), "test", "-x", path], check=False).returncode:
                self.fail("attacks run as other users, who cannot reach %s: chmod o+x on it and the folders above" % path)

    def start_backend(self, **options):
        return super().start_backend(spans_shown=SPANS_SHOWN, **options)

    def neighbour(self, **options):
        neighbour = Neighbour(**options)
        self.addCleanup(neighbour.close)
        return neighbour

    def tenant(self, spanprof, **options):
        tenant = Tenant(spanprof.grpc_address, **options)
        self.addCleanup(tenant.stop)
        return tenant

    def attack(self, name, *arguments, **options):
        """A client's that has begun, which it says by a line."""
        attacker = self.neighbour(**options)
        process = attacker.script(name, *arguments, stdout=subprocess.PIPE)
        self.assertEqual(process.stdout.readline(), b"attacking\n")
        return attacker

    def hold(self, mode, seconds, **options):
        """A process that holds who looks at it. Begun as root, for what fusermount3 does for a user; all else it does as
        nobody (programs/hold.c)."""
        directory = os.path.join(self.directory, "hold%d" % Cgroup.made)
        os.mkdir(directory)
        os.chmod(directory, 0o777)
        attacker = self.neighbour(**{"uid": 0, **options})
        process = attacker.program("hold", mode, directory, seconds, stdout=subprocess.PIPE)
        line = process.stdout.readline().decode()
        if line.startswith("skip"):
            self.skipTest(line.removeprefix("skip ").strip())
        self.assertTrue(line.startswith("ready"), line)
        return attacker

    def assert_unharmed(self, tenant, alone_p99_s, attacked_p99_s):
        """The tenant's 99th percentile under attack, and nothing of it is refused."""
        bound = max(2 * alone_p99_s, LEAST_P99_S) * harness.SLOWNESS
        print("tenant's p99: alone %.1f ms, attacked %.1f ms, bound %.1f ms"
              % (alone_p99_s * 1e3, attacked_p99_s * 1e3, bound * 1e3), file=sys.stderr)
        self.assertEqual(tenant.failures, [])
        self.assertLessEqual(attacked_p99_s, bound)

    def assert_arrived(self, tenant, timeout=20):
        """All that the tenant was told is safe reaches the backend."""
        self.backend.wait(lambda: tenant.acknowledged <= {span.span_id for span in self.backend.spans()}, timeout,
                          "the tenant's spans arrive")

# SPDX-License-Identifier: Apache-2.0
"""What each process is able to do: a part that fell to an attacker is not the whole."""
import ctypes
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))
import harness  # noqa: E402
import publishing  # noqa: E402

PASSWORD = "password-of-a-program-0123456789"
TOKEN = "token-that-only-the-service-has-0123456789"
# CHOWN, DAC_READ_SEARCH, KILL, SETGID, SETUID, SETPCAP, NET_BIND_SERVICE, IPC_LOCK, SYS_PTRACE, SYSLOG, PERFMON, BPF,
# CHECKPOINT_RESTORE
SUPERVISOR_KEEPS = sum(1 << number for number in (0, 2, 5, 6, 7, 8, 10, 14, 19, 34, 38, 39, 40))
REGIONS = ("/spanprof", "/libc.so", "[stack]", "[heap]")


def addresses(pid):
    """Where program, libc, stack and heap begin."""
    found = {}
    with open("/proc/%d/maps" % pid) as maps:
        for line in maps:
            for region in REGIONS:
                if region in line.rsplit("\n", 1)[0]:
                    found.setdefault(region, line.split("-")[0])
    return found


def memory_holds(pid, text):
    """Whether the bytes are anywhere in what the process can write."""
    with open("/proc/%d/maps" % pid) as maps, open("/proc/%d/mem" % pid, "rb", 0) as memory:
        for line in maps:
            area = re.match(r"([0-9a-f]+)-([0-9a-f]+) rw.. (\S+) (\S+) (\S+)\s*(.*)", line)
            if not area or area.group(6).startswith(("[v", "/dev", "anon_inode")):
                continue
            start, end = int(area.group(1), 16), int(area.group(2), 16)
            try:
                memory.seek(start)
                if text in memory.read(end - start):
                    return True
            except OSError:
                continue
    return False


def score_of(pid):
    with open("/proc/%d/oom_score_adj" % pid) as file:
        return int(file.read())


def write_score(score):
    with open("/proc/self/oom_score_adj", "w") as file:
        file.write(str(score))


def open_files(pid):
    return {os.readlink("/proc/%d/fd/%s" % (pid, fd)) for fd in os.listdir("/proc/%d/fd" % pid)}


@harness.needs_sampling
class Sandbox(harness.IntegrationTest):
    def setUp(self):
        super().setUp()
        os.environ["BACKEND_TOKEN_FOR_TEST"] = TOKEN
        self.addCleanup(os.environ.pop, "BACKEND_TOKEN_FOR_TEST", None)
        self.sp = self.spanprof(over={"exporters": {"otlp_grpc": {
            "headers": {"authorization": "Bearer ${env:BACKEND_TOKEN_FOR_TEST}"}}}})
        self.sp.wait_sampling()

    def test_addresses_are_each_its_own(self):
        """What is learnt of one, or of the one before, says nothing of another."""
        pids = [self.sp.supervisor, self.sp.service, self.sp.symbolizer, self.sp.reader]
        seen = [addresses(pid) for pid in pids]
        self.sp.kill_service()
        seen.append(addresses(self.sp.service))
        for region in REGIONS:
            places = [of[region] for of in seen]
            self.assertEqual(len(set(places)), len(places), (region, places))

    def test_secrets_are_the_service_s(self):
        self.assertTrue(memory_holds(self.sp.service, TOKEN.encode()))
        for pid in (self.sp.symbolizer, self.sp.reader):
            self.assertFalse(memory_holds(pid, TOKEN.encode()))
        for pid in (self.sp.service, self.sp.symbolizer, self.sp.reader):
            with open("/proc/%d/environ" % pid, "rb") as environment:
                self.assertNotIn(TOKEN.encode(), environment.read())

    def test_of_an_environment_only_names_stay(self):
        """What else a program was started with is left nowhere in the processes that read it."""
        program = subprocess.Popen([sys.executable, "-c", "while True: pass"],
                                   env=dict(os.environ, OTEL_SERVICE_NAME="shop", DATABASE_PASSWORD=PASSWORD))
        self.addCleanup(program.wait)
        self.addCleanup(program.kill)
        harness.wait_until(lambda: any(sample.resource.get("service.name") == "shop"
                                       for sample in self.backend.samples()), 30, "its name is known")
        self.assertTrue(memory_holds(program.pid, PASSWORD.encode()))
        self.assertTrue(memory_holds(self.sp.symbolizer, b"shop"))
        for pid in (self.sp.service, self.sp.symbolizer, self.sp.reader):
            self.assertFalse(memory_holds(pid, PASSWORD.encode()), harness.comm_of(pid))

    def test_address_space(self):
        """A file that makes a process read more than it should ends that process alone."""
        for pid, limit in ((self.sp.symbolizer, 512 << 20), (self.sp.reader, 64 << 20)):
            with open("/proc/%d/limits" % pid) as limits:
                self.assertIn(["Max", "address", "space", str(limit), str(limit), "bytes"],
                              [line.split() for line in limits])
            self.assertLess(int(harness.status_of(pid)["VmPeak"].split()[0]) << 10, limit // 2)

    def test_rights(self):
        for pid in (self.sp.service, self.sp.symbolizer, self.sp.reader):
            status = harness.status_of(pid)
            self.assertNotIn("0", status["Uid"].split())
            self.assertEqual(status["NoNewPrivs"], "1")
        for pid in (self.sp.service, self.sp.symbolizer):
            status = harness.status_of(pid)
            self.assertEqual(int(status["CapPrm"], 16) | int(status["CapBnd"], 16), 0)
        for pid in (self.sp.service, self.sp.symbolizer, self.sp.reader):
            self.assertEqual(harness.status_of(pid)["Seccomp"], "2")

    def test_rights_of_the_supervisor(self):
        """What its start alone needs is gone for good, and restarts and reloads work without."""
        self.assert_supervisor_s_rights()
        for pid, again in ((self.sp.reader, lambda: self.sp.reader), (self.sp.symbolizer, lambda: self.sp.symbolizer)):
            os.kill(pid, signal.SIGKILL)
            harness.wait_until(lambda now=again, old=pid: now() not in (None, old), 15, "another one")
        service = self.sp.service
        self.sp.config["receivers"]["sampler"]["frequency"] = 2 * harness.FREQUENCY
        with open(self.sp.config_path, "w") as file:
            file.write(json.dumps(self.sp.config))
        self.sp.process.send_signal(signal.SIGHUP)
        harness.wait_until(lambda: self.sp.service not in (None, service), 15, "another service")
        self.sp.wait_ready()
        self.sp.wait_sampling()
        self.assert_supervisor_s_rights()

    def assert_supervisor_s_rights(self):
        kept = SUPERVISOR_KEEPS
        with open("/proc/sys/kernel/perf_event_paranoid") as file:
            kept |= 1 << 21 if int(file.read()) > 2 else 0  # SYS_ADMIN
        own = harness.status_of(os.getpid())
        status = harness.status_of(self.sp.supervisor)
        for kind in ("CapPrm", "CapEff", "CapBnd"):
            self.assertEqual(int(status[kind], 16), int(own["CapBnd"], 16) & kept, kind)
        self.assertEqual((int(status["CapInh"], 16), int(status["CapAmb"], 16), status["NoNewPrivs"]), (0, 0, "1"))

    def test_memory_is_taken_from_a_child_first(self):
        own = score_of(os.getpid())
        may = int(harness.status_of(os.getpid())["CapEff"], 16) & 1 << 24  # CAP_SYS_RESOURCE
        self.assertEqual([score_of(pid) for pid in (self.sp.supervisor, self.sp.service, self.sp.symbolizer)],
                         [-900 if may else own, own, own])

    def test_memory_is_taken_from_a_child_first_under_the_unit(self):
        """Which starts all with the supervisor's score."""
        self.stop_spanprof(self.sp)
        own = score_of(os.getpid())
        try:
            write_score(-900)
        except PermissionError:
            self.skipTest("no right to lower its score")
        self.addCleanup(write_score, own)
        sp = self.spanprof()
        sp.wait_sampling()
        self.assertEqual([score_of(pid) for pid in (sp.supervisor, sp.service, sp.symbolizer, sp.reader)],
                         [-900, 0, 0, 0])

    def test_descriptors_are_those_that_are_named(self):
        symbolizer = open_files(self.sp.symbolizer)
        self.assertFalse([name for name in symbolizer if name.startswith(self.directory) and not
                          name.endswith(".log")], symbolizer)
        self.assertFalse([name for name in symbolizer if "config" in name or "role" in name], symbolizer)
        service = open_files(self.sp.service)
        self.assertFalse([name for name in service if "bpf-prog" in name or "[perf_event]" in name], service)


ENDED = "ended by its filter"
AGENT_USER = 12345
LANDLOCK_CREATE_RULESET = 444


def has_hook():
    """Whether the program is a debug build, which tries what a test asks for (sandbox/break_out.h)."""
    with open(harness.BINARY, "rb") as program:
        return b"SPANPROF_TEST_BREAK_OUT" in program.read()


def of_http(keys):
    """In the configuration."""
    return {"receivers": {"otlp": {"protocols": {"http": keys}}}}


def has_landlock():
    return ctypes.CDLL(None).syscall(LANDLOCK_CREATE_RULESET, None, 0, 1) > 0  # its version


@harness.needs_sampling
@unittest.skipUnless(has_hook(), "release builds have no hook")
class Fallen(harness.IntegrationTest):
    """A process that does what it must not, from its inside: a debug build tries one thing for each start."""

    def attempt(self, role, name, target="", over=None):
        """How it went: ENDED, or the name of its errno, or None if it succeeded."""
        os.environ["SPANPROF_TEST_BREAK_OUT"] = "%s:%s" % (role, name)
        os.environ["SPANPROF_TEST_BREAK_OUT_TARGET"] = str(target)
        try:
            sp = harness.Spanprof(self.directory, self.backend.address, sampler=True, over=over)
            self._started.append(sp)
            sp.log_path += "." + name
            sp.may_end = sp.breaks_out = True
            sp.launch()
            harness.wait_until(lambda: re.search(r"attempt %s (failed|succeeded)|may not call" % name, sp.log()), 20,
                               "the attempt %s" % name)
            log = sp.log()
        finally:
            sp.kill_all()
            del os.environ["SPANPROF_TEST_BREAK_OUT"], os.environ["SPANPROF_TEST_BREAK_OUT_TARGET"]
        if "attempt %s succeeded" % name in log:
            return None
        failed = re.search(r"attempt %s failed: (\w+)" % name, log)
        return failed.group(1) if failed else ENDED + ": " + re.search(r"may not call (\w+) ", log).group(1)

    def check(self, role, expected, over=None):
        self.start_backend()
        for name, (target, outcomes) in expected.items():
            with self.subTest(role=role, attempt=name):
                self.assertIn(self.attempt(role, name, target, over), outcomes)

    def ended(self, call):
        return ENDED + ": " + call

    def test_service(self):
        outside = os.path.join(self.directory, "outside")
        os.mkdir(outside)
        os.chmod(outside, 0o777)
        with open(os.path.join(outside, "file"), "w") as file:
            file.write("of somebody else")
        landlock = has_landlock()
        places = ["EACCES"] if landlock else ["EACCES", None]
        self.check("service", {
            "read_shadow": ("", ["EACCES"]),
            "read_target": (outside + "/file", places),
            "write_target": (outside + "/new", places),
            "execute": ("", [self.ended("execve")]),
            "start_process": ("", [self.ended("clone")]),
            "trace_supervisor": ("", [self.ended("ptrace")]),
            "signal_supervisor": ("", [self.ended("kill")]),
            "read_supervisor": ("", [self.ended("process_vm_readv")]),
            "packet_socket": ("", ["EAFNOSUPPORT"]),
            "connect_target": (1, ["EACCES"] if landlock else ["EACCES", "ECONNREFUSED"]),
            "listen": ("", [self.ended("bind")]),
            "become_root": ("", [self.ended("setresuid")]),
            "load_program": ("", [self.ended("bpf")]),
            "executable_memory": ("", ["EACCES"]),
            "new_namespace": ("", [self.ended("unshare")]),
            "mount": ("", [self.ended("mount")]),
            "io_uring": ("", [self.ended("io_uring_setup")]),
        })

    def test_symbolizer(self):
        """It parses files of strangers, and opens none."""
        self.check_child("symbolizer", {
            "read_shadow": ("", ["EACCES"]),
            "read_target": ("/etc/passwd", ["EACCES"]),
            "read_supervisor": ("", [self.ended("process_vm_readv")]),
        }, "EACCES")

    def test_reader(self):
        """It sees memory and files of others, and is to do nothing to them."""
        self.check_child("reader", {}, self.ended("openat"))

    def test_config(self):
        """It reads what the user who started spanprof may read."""
        self.check_child("config", {"read_shadow": ("", [None])}, self.ended("openat"))

    def test_files(self):
        """It reads certificates, and has no network."""
        self.check("files", {
            "read_shadow": ("", [None]),
            "write_target": (os.path.join(self.directory, "made"), [self.ended("openat")]),
            "tcp_socket": ("", [self.ended("socket")]),
            "become_root": ("", [self.ended("setresuid")]),
        }, of_http({"tls": {"cert_file": "/etc/hosts", "key_file": "/etc/hosts"}}))

    def test_names(self):
        """It has the network, and is nobody."""
        self.check("names", {
            "read_shadow": ("", ["EACCES"]),
            "write_target": (os.path.join(self.directory, "made"), [self.ended("openat")]),
            "execute": ("", [self.ended("execve")]),
            "signal_supervisor": ("", [self.ended("kill")]),
            "packet_socket": ("", ["EAFNOSUPPORT"]),
            "listen": ("", [self.ended("bind")]),
            "become_root": ("", [self.ended("setresuid")]),
            "executable_memory": ("", ["EACCES"]),
        }, of_http({"endpoint": "host.invalid:4318"}))

    def test_broker(self):
        """It is there while it connects to an Elastic agent, with the agent's ids, and without a way back. Even
        the agent's own files are not written."""
        reason = publishing.why_not("glibc")
        if reason:
            self.skipTest(reason)
        place = os.path.join(self.directory, "of-the-agent")
        os.mkdir(place)
        os.chmod(place, 0o777)
        own = os.path.join(place, "own")
        with open(own, "w"):
            os.chown(own, AGENT_USER, AGENT_USER)
        agent = publishing.Peer("agent", [
            "setpriv", "--reuid=%d" % AGENT_USER, "--regid=%d" % AGENT_USER, "--clear-groups",
            publishing.path("glibc", "late"), "--publish", publishing.source_of("glibc", "elastic_tlsdesc"),
            "--service", "shop", "--socket", os.path.join(place, "agent.sock"), "--cpu-ms", "600000"])
        self.addCleanup(agent.kill)
        agent.first("ready")
        self.check_child("broker", {
            "read_shadow": ("", [self.ended("openat")]),
            "openat2_read_target": ("/etc/shadow", ["EACCES"]),
            "openat2_write_target": (own, ["EACCES"] if has_landlock() else [None]),
            "become_root_for_files": ("", [self.ended("setfsuid")]),
        }, self.ended("openat"))

    def test_supervisor(self):
        """It starts programs and makes sockets; it takes no other process over, and changes no kernel."""
        self.check("supervisor", {
            "trace_supervisor": ("", [self.ended("ptrace")]),
            "mount": ("", [self.ended("mount")]),
            "io_uring": ("", [self.ended("io_uring_setup")]),
            "execute": ("", [self.ended("execve")]),
        })

    def check_child(self, role, more, writing):
        nothing_made = os.path.join(self.directory, "made-by-the-" + role)
        self.check(role, {
            **more,
            "write_target": (nothing_made, [writing]),
            "execute": ("", [self.ended("execve")]),
            "start_process": ("", [self.ended("clone")]),
            "trace_supervisor": ("", [self.ended("ptrace")]),
            "signal_supervisor": ("", [self.ended("kill")]),
            "packet_socket": ("", [self.ended("socket")]),
            "tcp_socket": ("", [self.ended("socket")]),
            "become_root": ("", [self.ended("setresuid")]),
            "load_program": ("", [self.ended("bpf")]),
            "executable_memory": ("", ["EACCES"]),
            "new_namespace": ("", [self.ended("unshare")]),
            "mount": ("", [self.ended("mount")]),
            "io_uring": ("", [self.ended("io_uring_setup")]),
        })
        self.assertFalse(os.path.exists(nothing_made))


class Peers(harness.IntegrationTest):
    def test_the_kernel_says_whose_a_connection_is(self):
        """Without a sampler that notes it: by a netlink socket, made before the sandbox is entered."""
        sp = self.spanprof(sampler=False)
        harness.wait_until(lambda: sp.metric("spanprof_peers_total", 'by="asked"') > 0, 10, "a peer is known")
        self.assertEqual(sp.metric("spanprof_peers_total", 'by="unknown"'), 0)
        self.stop_spanprof(sp)


class Watchdog(harness.IntegrationTest):
    """systemd's, as it would be asked: a sign of life comes from the supervisor's own loop."""

    def signs(self, listener, seconds):
        """How many came in that time."""
        n, deadline = 0, time.monotonic() + seconds
        while time.monotonic() < deadline:
            listener.settimeout(max(deadline - time.monotonic(), 0.001))
            try:
                self.assertEqual(listener.recv(100), b"WATCHDOG=1")
            except socket.timeout:
                break
            n += 1
        return n

    def test_signs_of_life(self):
        path = os.path.join(self.directory, "notify")
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
            listener.bind(path)
            os.environ.update(NOTIFY_SOCKET=path, WATCHDOG_USEC="3000000")
            try:
                sp = self.spanprof(sampler=False)
            finally:
                del os.environ["NOTIFY_SOCKET"], os.environ["WATCHDOG_USEC"]
            self.assertGreater(self.signs(listener, 6), 1)
            os.kill(sp.supervisor, signal.SIGSTOP)
            self.signs(listener, 0.5)  # what was on its way
            self.assertEqual(self.signs(listener, 3), 0)
            os.kill(sp.supervisor, signal.SIGCONT)
            self.assertGreater(self.signs(listener, 3), 0)
            self.stop_spanprof(sp)


if __name__ == "__main__":
    harness.main()

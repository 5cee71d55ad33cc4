# SPDX-License-Identifier: Apache-2.0
"""What the end-to-end tests share: spanprof as a child on free ports, its backend, its workloads.

ctest sets SPANPROF_BINARY (the program under test), SPANPROF_BUILD_DIR (where the workloads were built)
and SPANPROF_SANITIZE (empty, or what the build was instrumented with).
"""
import atexit
import contextlib
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.request

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
sys.path.insert(0, os.path.join(SOURCE, "test", "support", "python"))
import receiver  # noqa: E402

BUILD = os.environ.get("SPANPROF_BUILD_DIR", os.path.join(SOURCE, "build", "release"))
BINARY = os.environ.get("SPANPROF_BINARY", os.path.join(BUILD, "spanprof"))
SANITIZE = os.environ.get("SPANPROF_SANITIZE", "")
SOAK = os.environ.get("SPANPROF_SOAK") == "1"
FREQUENCY = 97
SLOWNESS = receiver.SLOWNESS
SKIP = 77                        # exit code that ctest takes for "skipped"
REPORTS = re.compile(r"(ERROR: (Address|Leak)Sanitizer|WARNING: ThreadSanitizer|runtime error: |"
                     r"LeakSanitizer: detected|Assertion .* failed|SUMMARY: \w+Sanitizer).*")
REFUSED = re.compile(r"this process may not call \w+")


def why_no_sampling():
    """None if the sampler can run here, else the reason."""
    if os.geteuid() != 0:
        return "needs root for BPF"
    if not os.path.exists("/sys/kernel/btf/vmlinux"):
        return "the kernel has no BTF"
    return None


needs_sampling = unittest.skipIf(why_no_sampling(), why_no_sampling())
needs_root = unittest.skipIf(os.geteuid() != 0, "needs root")


ports_taken = []


def take_port(port):
    """Whether it is this process's for as long as that lives. Tests run side by side, and a port of one of them is free
    while its server restarts: what is taken is a name, which none but they ask for."""
    claim = socket.socket(socket.AF_UNIX)
    try:
        claim.bind("\0spanprof-test-port-%d" % port)
    except OSError:
        claim.close()
        return False
    ports_taken.append(claim)
    return True


def free_port():
    """Outside the range that outgoing connections take theirs from: it is still free after a restart.
    No port twice."""
    while True:
        port = random.randrange(15000, 32000)
        if take_port(port):
            with contextlib.suppress(OSError), socket.socket() as probe:
                probe.bind(("127.0.0.1", port))
                return port


def wait_until(condition, timeout, what):
    """Returns what condition() gives once that is true. In a sanitizer's build it may take SLOWNESS times
    as long."""
    deadline = time.monotonic() + timeout * SLOWNESS
    while True:
        result = condition()
        if result:
            return result
        if time.monotonic() > deadline:
            raise TimeoutError("%s: not within %.0f s" % (what, timeout * SLOWNESS))
        time.sleep(0.05)


def children_of(pid):
    """All descendants, from /proc."""
    found, todo = [], [pid]
    while todo:
        parent = todo.pop()
        try:
            for task in os.listdir("/proc/%d/task" % parent):
                with open("/proc/%d/task/%s/children" % (parent, task)) as file:
                    todo += [int(child) for child in file.read().split()]
        except OSError:
            continue
        if parent != pid:
            found.append(parent)
    return found


def status_of(pid):
    with open("/proc/%d/status" % pid) as file:
        return dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)


def pss_kib(pid):
    with open("/proc/%d/smaps_rollup" % pid) as file:
        return int(re.search(r"^Pss:\s+(\d+)", file.read(), re.M).group(1))


def comm_of(pid):
    try:
        with open("/proc/%d/comm" % pid, errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""


def is_listening(port):
    """Whether any process listens there, without connecting."""
    rows = []
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with open(table) as file:
            rows += [line.split() for line in file.readlines()[1:]]
    return any(row[1].endswith(":%04X" % port) and row[3] == "0A" for row in rows)


def merge(base, over):
    """Maps merge, everything else is replaced, as --config files do."""
    for key, value in over.items():
        if isinstance(value, dict) and isinstance(base.get(key), dict):
            merge(base[key], value)
        else:
            base[key] = value
    return base


class Spanprof:
    """One spanprof with a configuration of its own. Restarts keep ports and store.

    config may be changed between __init__ and start(); over is merged into it.
    """

    def __init__(self, directory, backend_address, sampler=True, over=None):
        self.directory = directory
        self.grpc_port, self.http_port, self.metrics_port = (free_port() for _ in range(3))
        self.store = os.path.join(directory, "store")
        self.log_path = os.path.join(directory, "spanprof.log")
        self.config_path = os.path.join(directory, "spanprof.yaml")
        self.process = None
        self.launcher = []   # a command that starts it
        self.extra = []      # arguments
        self.text = None     # instead of config
        self.may_end = True  # until it serves; then only stop() and kill_all() end it
        self.breaks_out = False  # a process is told to try what its sandbox refuses
        self.config = merge(self._config(backend_address, sampler), over or {})

    def _config(self, backend_address, sampler):
        config = {
            "receivers": {"otlp": {"protocols": {
                "grpc": {"endpoint": "127.0.0.1:%d" % self.grpc_port},
                "http": {"endpoint": "127.0.0.1:%d" % self.http_port}}}},
            "processors": {"join": {"wait": "10s"}},
            "exporters": {"otlp_grpc": {
                "endpoint": backend_address, "tls": {"insecure": True},
                "retry_on_failure": {"initial_interval": "100ms", "max_interval": "1s",
                                     "max_elapsed_time": "0s"}}},
            "extensions": {"sqlite_storage": {"directory": self.store}},
            "service": {
                "extensions": ["sqlite_storage"],
                "telemetry": {"logs": {"level": "debug" if sampler else "info"},
                              "metrics": {"address": "127.0.0.1:%d" % self.metrics_port}},
                "pipelines": {"traces": {"receivers": ["otlp"], "processors": ["join"],
                                         "exporters": ["otlp_grpc"]}}}}
        if sampler:
            config["receivers"]["sampler"] = {"frequency": FREQUENCY}
            config["service"]["pipelines"]["profiles"] = {
                "receivers": ["sampler"], "processors": ["join"], "exporters": ["otlp_grpc"]}
        return config

    @property
    def grpc_address(self):
        return "127.0.0.1:%d" % self.grpc_port

    @property
    def http_address(self):
        return "127.0.0.1:%d" % self.http_port

    def launch(self, *arguments):
        """Starts the program and does not wait until it serves."""
        with open(self.config_path, "w") as file:
            file.write(self.text or json.dumps(self.config, indent=1))  # JSON is YAML
        with open(self.log_path, "ab") as log:
            command = [*self.launcher, BINARY, "--config", self.config_path, *self.extra, *arguments]
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            env=environment(), start_new_session=True)
        return self

    def start(self, timeout=15):
        self.launch()
        self.wait_ready(timeout)
        self.may_end = False
        return self

    def wait_ready(self, timeout=15):
        wait_until(self._serves, timeout, "spanprof serves")

    def _serves(self):
        if self.process.poll() is not None:
            raise RuntimeError("spanprof ended with %d:\n%s" % (self.process.returncode,
                                                                self.log_tail()))
        try:
            request = urllib.request.Request(
                "http://127.0.0.1:%d/v1/traces" % self.http_port, b"", method="POST",
                headers={"Content-Type": "application/x-protobuf"})
            with urllib.request.urlopen(request, timeout=5) as answer:
                return answer.status == 200 and bool(self.metrics())
        except OSError:  # refused, or 503 while it starts
            return False

    def wait_sampling(self, timeout=20):
        """Until samples are being taken and the processes that already run are known."""
        wait_until(lambda: self.metric("spanprof_samples_total") > 0, timeout, "samples come in")

    def reads(self, pid):
        """Whether it reads the contexts of that process."""
        return "process %d: its contexts are read:" % pid in self.log()

    def metrics(self):
        url = "http://127.0.0.1:%d/metrics" % self.metrics_port
        with urllib.request.urlopen(url, timeout=5) as answer:
            text = answer.read().decode()
        found = re.findall(r"^([a-z_0-9]+(?:\{[^}]*\})?) ([-0-9.e+]+)", text, re.M)
        return {name: float(value) for name, value in found}

    def metric(self, name, labels=""):
        """The sum over all label sets of the name that contain `labels`."""
        return sum(value for key, value in self.metrics().items()
                   if key.split("{")[0] == name and labels in key)

    @property
    def supervisor(self):
        return self.process.pid

    def child(self, comm):
        return next((pid for pid in children_of(self.supervisor) if comm_of(pid) == comm), None)

    @property
    def service(self):
        """Its pid; None while there is none."""
        return self.child("spanprof-svc")

    @property
    def symbolizer(self):
        return self.child("spanprof-sym")

    @property
    def reader(self):
        return self.child("spanprof-rdr")

    def kill_service(self):
        """kill -9 of the service alone; returns once the supervisor's next one serves."""
        old = wait_until(lambda: self.service, 15, "there is a service")
        os.kill(old, signal.SIGKILL)
        wait_until(lambda: self.service not in (None, old), 15, "there is a next service")
        self.wait_ready()

    def kill_all(self):
        """kill -9 of every process, as a crash of the node would be."""
        self.may_end = True
        for pid in [self.supervisor, *children_of(self.supervisor)]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait()

    def stop(self, timeout=10):
        """SIGTERM; returns the exit code."""
        self.may_end = self.may_end or self.process.poll() is None
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout * SLOWNESS)

    def log(self):
        with open(self.log_path, errors="replace") as file:
            return file.read()

    def log_tail(self, lines=40):
        return "\n".join(self.log().split("\n")[-lines:]) if os.path.exists(self.log_path) else ""

    def reports(self):
        """What sanitizers and assertions said, and calls that a sandbox refused: the next process would hide them."""
        if not os.path.exists(self.log_path):
            return []
        patterns = (REPORTS,) if self.breaks_out else (REPORTS, REFUSED)
        return [match.group(0) for pattern in patterns for match in pattern.finditer(self.log())]


def environment(**more):
    variables = dict(os.environ, **more)
    variables.setdefault("ASAN_OPTIONS", "detect_leaks=1:detect_stack_use_after_return=1")
    variables.setdefault("UBSAN_OPTIONS", "print_stacktrace=1")
    variables.setdefault("TSAN_OPTIONS", "second_deadlock_stack=1")
    return variables


def run_spanprof(*arguments, timeout=20, env=None):
    """A run that is expected to end by itself: (exit code, stdout, stderr)."""
    done = subprocess.run([BINARY, *arguments], capture_output=True, timeout=timeout * SLOWNESS,
                          env=env or environment())
    return done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")


class Workload:
    """A test program and the truth that it tells (test/support/workloads/workload_span.h)."""

    def __init__(self, *arguments, program="workload", endpoint=None):
        command = [os.path.join(BUILD, "test", program)]
        if endpoint:
            command += ["--endpoint", endpoint]
        self.records = []
        self.errors = tempfile.TemporaryFile()
        self.process = subprocess.Popen(command + [str(a) for a in arguments],
                                        stdout=subprocess.PIPE, stderr=self.errors,
                                        env=environment())
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        atexit.register(self.kill)

    def _read(self):
        for line in self.process.stdout:
            self.records.append(json.loads(line))

    def of(self, kind):
        return [record for record in list(self.records) if record["type"] == kind]

    def first(self, kind, timeout=10):
        """Waits for the first record of that type."""
        return wait_until(lambda: self.of(kind), timeout, "a %r record" % kind)[0]

    @property
    def pid(self):
        return self.process.pid

    def wait(self, timeout=60):
        code = self.process.wait(timeout * SLOWNESS)
        self._reader.join(10)
        if code != 0:
            self.errors.seek(0)
            raise RuntimeError("workload ended with %d: %s" % (code, self.errors.read().decode()))
        return self

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def spans(self):
        """span id -> its truth."""
        return {record["span_id"]: record for record in self.of("span")}


class IntegrationTest(unittest.TestCase):
    """Gives self.directory, self.backend, self.spanprof(); looks after what is left behind."""
    maxDiff = None

    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="spanprof-test-")
        os.chmod(self.directory, 0o755)
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)
        self._started = []
        self._workloads = []
        self.backend = None
        self.addCleanup(self._stop_all)

    def start_backend(self, **options):
        self.backend = receiver.Backend(**options)
        return self.backend

    def spanprof(self, start=True, **options):
        """A spanprof that sends to self.backend."""
        if self.backend is None:
            self.start_backend()
        instance = Spanprof(self.directory, self.backend.address, **options)
        self._started.append(instance)
        return instance.start() if start else instance

    def workload(self, *arguments, **options):
        workload = Workload(*arguments, **options)
        self._workloads.append(workload)
        return workload

    def read_workload(self, spanprof, *arguments, **options):
        """A workload that begins once its context is read."""
        workload = self.workload("--await", *arguments, **options)
        workload.first("ready")
        wait_until(lambda: spanprof.reads(workload.pid), 20, "the workload's context is read")
        workload.process.send_signal(signal.SIGUSR1)
        return workload

    def stop_spanprof(self, instance, timeout=10):
        self.assertEqual(instance.stop(timeout), 0, instance.log_tail())

    def _stop_all(self):
        for workload in self._workloads:
            workload.kill()
        problems = []
        for instance in self._started:
            problems += self._stop_one(instance)
        if self.backend:
            self.backend.stop()
        if problems or self._failed():
            for instance in self._started:
                print("--- end of spanprof's log\n" + instance.log_tail(), file=sys.stderr)
        if problems:
            self.fail("\n".join(problems))

    def _stop_one(self, instance):
        if instance.process is None:
            return []
        problems = []
        if instance.process.poll() is not None and not instance.may_end:
            problems.append("spanprof ended by itself with %d" % instance.process.returncode)
        elif instance.process.poll() is None:
            try:
                code = instance.stop()
                if code != 0:
                    problems.append("spanprof ended with %d" % code)
            except subprocess.TimeoutExpired:
                instance.kill_all()
                problems.append("spanprof did not end within 10 s of SIGTERM")
        return problems + ["in the log: " + report for report in instance.reports()]

    def _failed(self):
        """Whether this very test, or a subtest of it, has failed so far."""
        result = getattr(getattr(self, "_outcome", None), "result", None)
        failed = [test for test, _ in result.failures + result.errors] if result else []
        return any(self in (test, getattr(test, "test_case", None)) for test in failed)

    def assert_conforming(self):
        self.assertEqual(self.backend.violations, [], "profiles requests do not conform")


def n_cases(outcomes):
    """Of one case several parts may have ended so."""
    return len({getattr(case, "test_case", case) for case, _ in outcomes})


noted = []


def note_skipped(case, reason):
    """A part of a test that does not run here: main() says so, and ./dev test lists it (python/summary.py)."""
    noted.append((case.replace(" ", "_"), " ".join(str(reason).split())))


def main():
    """Runs the tests of __main__; ends with 77 if all of them were skipped."""
    program = unittest.main(module="__main__", exit=False, verbosity=2)
    result = program.result
    for test, reason in result.skipped:
        note_skipped(getattr(test, "test_case", test).id().replace("__main__.", ""), reason)
    failed = n_cases(result.failures + result.errors) + len(result.unexpectedSuccesses)
    skipped = n_cases(result.skipped)
    print("cases: %d passed, %d failed, %d skipped" % (result.testsRun - failed - skipped, failed,
                                                       skipped), file=sys.stderr)
    for case, reason in noted:
        print("skipped: %s: %s" % (case, reason), file=sys.stderr)
    sys.stdout.flush()
    sys.stderr.flush()
    if failed:
        os._exit(1)  # grpc's threads must not hold the answer back
    os._exit(SKIP if skipped and skipped == result.testsRun else 0)

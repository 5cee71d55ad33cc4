# SPDX-License-Identifier: Apache-2.0
"""Stock services in Go, Rust and C++ with one line more: every sample of what their spans burned is linked to the right
span. Interleave: what is published is the current span, at each step of goroutines, tasks and threads. Each publisher's
own tests, with the toolchain that is here."""
import ctypes
import os
import re
import shutil
import struct
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(os.path.dirname(HERE), "integration", "support"), os.path.join(HERE, "sdk")]
import go_toolchain  # noqa: E402
import harness  # noqa: E402
import native_programs  # noqa: E402
import publisher_services  # noqa: E402
import sdk_clients  # noqa: E402

CHECKS = 100000
LIBRARY_PATH = {"LD_LIBRARY_PATH": native_programs.LIBRARY}


class Service(publisher_services.Service):
    """With the line in its main, under `spanprof exec`, and nothing else. It exports by gRPC, as its code says."""
    complaints = "panic|spanprof"

    def address(self, spanprof):
        return spanprof.grpc_address

    def stop(self):
        output = super().stop()
        assert self.process.returncode == 0, output[-2000:]
        return output


class JobService(Service):
    """Takes numbers of jobs as lines, and says when they are done. It exports by HTTP."""
    burning = 0.8
    done = 0

    def address(self, spanprof):
        return spanprof.http_address

    def answers(self):
        return True

    def load(self, n):
        self.process.stdin.write(b"%d\n" % n)
        self.process.stdin.flush()
        self.done += 1
        harness.wait_until(lambda: self.output().count("done\n") >= self.done, 300, "the jobs are done")


class NativeTest(publisher_services.ServicesTest):
    executables = ["publish", "service"]
    outside = 50

    def need(self, make):
        try:
            return make()
        except (sdk_clients.Missing, go_toolchain.Missing) as reason:
            self.skipTest(str(reason))

    def run_service(self, kind, name, command, **environment):
        def make(spanprof, service):
            return kind(self, spanprof, service, command, OTEL_RESOURCE_ATTRIBUTES="service.instance.id=%s-1" % name,
                        OTEL_BSP_MAX_QUEUE_SIZE="65536", **environment)
        samples = self.judge(name, make)
        self.assertTrue(all(sample.resource.get("service.instance.id") == name + "-1" for sample in samples))

    def assert_interleaved(self, command, cases, **environment):
        """Lines of the program: case, checks, wrong ones."""
        done = subprocess.run(command, stdout=subprocess.PIPE, timeout=600, env={**os.environ, **environment})
        found = [line.split() for line in done.stdout.decode().splitlines()]
        print("; ".join(" ".join(words) for words in found), flush=True)
        self.assertEqual(done.returncode, 0)
        counted = {words[0]: (int(words[1]), int(words[2])) for words in found if len(words) == 3}
        self.assertEqual(set(counted), set(cases))
        self.assertGreaterEqual(sum(checks for checks, _ in counted.values()), CHECKS)
        self.assertEqual(sum(wrong for _, wrong in counted.values()), 0)


# ---- Go ----

MODULE_VERSIONS = [version for version in go_toolchain.VERSIONS if (1, 24) <= tuple(map(int, version.split(".")[:2]))]
OLDEST = next((version for version in go_toolchain.VERSIONS if version.startswith("1.21.")), None)


def process_context(pid):
    """What a reader finds: (version, message), of that process."""
    with open("/proc/%d/maps" % pid) as maps:
        line = next(line for line in maps if "OTEL_CTX" in line)
    with open("/proc/%d/mem" % pid, "rb", buffering=0) as memory:
        memory.seek(int(line.split("-")[0], 16))
        signature, version, size, published, address = struct.unpack("=8sIIQQ", memory.read(32))
        memory.seek(address)
        message = memory.read(size)
    assert signature == b"OTEL_CTX" and published
    return version, message


class Attribute(ctypes.Structure):
    _fields_ = [("key", ctypes.c_char_p), ("value", ctypes.c_char_p)]


def publish_and_wait(attributes):
    """In a process of its own, by libspanprof-context."""
    library = ctypes.CDLL(os.path.join(native_programs.LIBRARY, "libspanprof-context.so.0"))
    array = (Attribute * len(attributes))(*(Attribute(key.encode(), value.encode()) for key, value in attributes))
    if library.spanprof_context_publish(array, ctypes.c_size_t(len(attributes))):
        os._exit(1)
    os.write(1, b"published\n")
    time.sleep(60)


def message_of_library(attributes):
    code = "import sys; sys.path[:0] = %r; import test_publish_native as t; t.publish_and_wait(%r)" % (
        [HERE], attributes)
    child = subprocess.Popen([sys.executable, "-B", "-c", code], stdout=subprocess.PIPE, env=harness.environment())
    try:
        assert child.stdout.readline() == b"published\n"
        return process_context(child.pid)
    finally:
        child.kill()
        child.wait()
        child.stdout.close()


def fields(message):
    """Of a protobuf message whose fields are all length-delimited: (number, bytes)."""
    at = 0
    while at < len(message):
        tag, at, size, shift = message[at], at + 1, 0, 0
        while True:
            byte, at = message[at], at + 1
            size |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                break
        yield tag >> 3, message[at:at + size]
        at += size


def described(message):
    """Attributes of the Resource in a ProcessContext message, in their order."""
    resource = next(value for number, value in fields(message) if number == 1)
    pairs = []
    for _, pair in fields(resource):
        parts = dict(fields(pair))
        pairs.append((parts[1].decode(), dict(fields(parts[2]))[1].decode()))
    return pairs


class Go(NativeTest):
    def see(self, service):
        """The process context is byte for byte what libspanprof-context writes, but for how threads are read."""
        version, message = process_context(service.process.pid)
        of_library = message_of_library(described(message))
        names = dict(described(message))
        self.assertEqual(names["service.name"], "go")
        self.assertIn("telemetry.sdk.language", names)
        resource = [value for number, value in fields(message) if number == 1]
        self.assertEqual((version, resource),
                         (of_library[0], [value for number, value in fields(of_library[1]) if number == 1]))
        how = [[(parts[1], dict(fields(parts[2]))) for parts in (dict(fields(value)) for number, value in fields(of) if number == 2)]
               for of in (message, of_library[1])]
        self.assertEqual(how[0], [(b"threadlocal.schema_version", {1: b"go_pprof_labels_v1"})])
        self.assertEqual(how[1][0], (b"threadlocal.schema_version", {1: b"tlsdesc_v1_dev"}))

    def test_net_http(self):
        program = self.need(lambda: go_toolchain.build_module(native_programs.sources("go"), "publish"))
        self.run_service(Service, "go", [program, "{port}"])

    def module(self, toolchain_go, *arguments, **environment):
        done = subprocess.run([toolchain_go, *arguments], cwd=native_programs.MODULE, capture_output=True, text=True,
                              timeout=1200, env=sdk_clients.go_environment(GOENV="off", **environment))
        self.assertEqual(done.returncode, 0, done.stdout[-3000:] + done.stderr[-2000:])
        return done.stdout

    def test_module(self):
        """Its own tests, with each version of Go that it is for."""
        tried = []
        for version in MODULE_VERSIONS:
            try:
                toolchain = go_toolchain.Toolchain(version)
            except go_toolchain.Missing as reason:
                harness.note_skipped("go " + version, str(reason))
                continue
            output = self.module(os.path.join(toolchain.root, "bin", "go"), "test", "-mod=readonly", "-count=1", "-v", ".",
                                 GOROOT=toolchain.root)
            found = re.search(r"interleave (\d+) checks, (\d+) wrong", output)
            print("go %s: %d tests, interleave %s checks, %s wrong" % (
                version, output.count("--- PASS"), *found.groups()), flush=True)
            self.assertGreaterEqual(int(found.group(1)), CHECKS)
            self.assertEqual(int(found.group(2)), 0)
            tried.append(version)
        if not tried:
            self.skipTest("no toolchain at all")

    def test_module_is_clean(self):
        if not go_toolchain.GO:
            self.skipTest("no go in PATH")
        for architecture in ("amd64", "arm64"):
            self.module(go_toolchain.GO, "vet", "-mod=readonly", ".", GOARCH=architecture)
        gofmt = shutil.which("gofmt") or os.path.join(os.path.dirname(os.path.realpath(go_toolchain.GO)), "gofmt")
        for folder in (native_programs.MODULE, native_programs.sources("go")):
            self.assertEqual(subprocess.run([gofmt, "-l", folder], capture_output=True, text=True).stdout, "")

    def test_oldest(self):
        """It builds with the oldest Go that its go.mod names, where its tests cannot look into labels."""
        if not OLDEST:
            self.skipTest("no Go 1.21 among the versions")
        toolchain = self.need(lambda: go_toolchain.Toolchain(OLDEST))
        self.module(os.path.join(toolchain.root, "bin", "go"), "build", "-mod=readonly", ".", GOROOT=toolchain.root)


# ---- Rust ----


class Rust(NativeTest):
    @classmethod
    def setUpClass(cls):
        cls.why_not = None
        try:
            native_programs.build_rust()
        except sdk_clients.Missing as reason:
            cls.why_not = str(reason)

    def setUp(self):
        super().setUp()
        if self.why_not:
            self.skipTest(self.why_not)

    def test_axum_with_the_observer(self):
        self.run_service(Service, "rust-observer", [native_programs.rust("service"), "{port}"], PUBLISH="observer", **LIBRARY_PATH)

    def test_axum_with_the_layer(self):
        self.run_service(Service, "rust-layer", [native_programs.rust("service"), "{port}"], PUBLISH="layer", **LIBRARY_PATH)

    def test_interleave(self):
        self.assert_interleaved([native_programs.rust("interleave"), "observer"],
                                ("threads", "tasks", "contexts", "fork"), **LIBRARY_PATH)

    def test_interleave_of_the_layer(self):
        self.assert_interleaved([native_programs.rust("interleave"), "layer"], ("threads", "tasks"), **LIBRARY_PATH)

    def test_without_the_library(self):
        """The program goes on, publishes nothing and says nothing but when it is asked."""
        self.assert_inert("no libspanprof-context.so.0", "no_library", LD_LIBRARY_PATH="/nonexistent")
        self.assert_inert("SPANPROF_CONTEXT=off", "", SPANPROF_CONTEXT="off", **LIBRARY_PATH)

    def assert_inert(self, reason, refusal, **environment):
        for debug, said in (("0", ""), ("1", reason)):
            done = subprocess.run([native_programs.rust("interleave"), "inert"], capture_output=True, text=True, timeout=60,
                                  env={**os.environ, "SPANPROF_CONTEXT_DEBUG": debug, **environment})
            self.assertEqual((done.returncode, done.stdout), (0, "inert [%s]\n" % refusal), done.stderr)
            self.assertEqual(bool(done.stderr), bool(said))
            self.assertIn(said, done.stderr)

    def test_crate(self):
        print(native_programs.cargo("test", "--lib", folder=native_programs.CRATE).strip()[-300:])
        native_programs.cargo("fmt", "--check", folder=native_programs.CRATE)
        native_programs.cargo("fmt", "--check", folder=native_programs.sources("rust"))


# ---- C++ ----


class Cpp(NativeTest):
    @classmethod
    def setUpClass(cls):
        cls.why_not = None
        try:
            native_programs.build_cpp()
        except sdk_clients.Missing as reason:
            cls.why_not = str(reason)

    def setUp(self):
        super().setUp()
        if self.why_not:
            self.skipTest(self.why_not)

    def test_threads_of_a_pool(self):
        self.run_service(JobService, "cpp", [native_programs.cpp("service")], **LIBRARY_PATH)

    def test_interleave(self):
        self.assert_interleaved([native_programs.cpp("interleave")], ("threads", "handed", "remote", "fork"),
                                **LIBRARY_PATH)

    def assert_inert(self, mode, refusal, **environment):
        done = subprocess.run([native_programs.cpp("interleave"), mode], capture_output=True, text=True, timeout=60,
                              env={**os.environ, **LIBRARY_PATH, **environment})
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "nothing published [%s]\n" % refusal, ""))

    def test_off(self):
        self.assert_inert("inert", "", SPANPROF_CONTEXT="off")

    def test_another_publisher(self):
        self.assert_inert("taken", "taken")


if __name__ == "__main__":
    harness.main()

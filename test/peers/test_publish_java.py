# SPDX-License-Identifier: Apache-2.0
"""Stock Java services get their spans' CPU by `spanprof exec` alone: every sample of what their handlers burned is linked
to the span of that request. Interleave: what is published is the current span, on each JVM that can be had."""
import glob
import os
import shutil
import subprocess
import sys
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import java_services  # noqa: E402
from java_services import JAR, QUIET, SOURCES, VirtualThreads, agent, compiled, elastic_agents, harness, java  # noqa: E402

CHECKS = 300000  # on each JVM at the least
VERSIONS = (8, 11, 17, 21, 25)


class Interleave(java_services.PublishJava):
    def test_21_events(self):
        self.with_events(21)

    def test_25_events(self):
        self.with_events(25)

    def with_events(self, version):
        """JVMTI's events, where java.lang.VirtualThread is not as expected: as without the class for the hooks."""
        jar = os.path.join(self.directory, "events.jar")
        with zipfile.ZipFile(JAR) as whole, zipfile.ZipFile(jar, "w") as rest:
            for name in whole.namelist():
                if not name.endswith("/Mounted.boot"):
                    rest.writestr(name, whole.read(name))
        self.one(version, jar, "watched, no hooks by error -1")

    def one(self, version, jar=JAR, way="hooked"):
        """The verifier is on for the JVM's own classes too, one of which the hooks change."""
        command = self.have(java, version)
        path = self.have(compiled, "", "Interleave")
        done = subprocess.run([*command, "-Xcheck:jni", "-Xverify:all", *QUIET, "-cp", path + ":" + jar,
                               "spanprof.otel.Interleave"], capture_output=True, timeout=600,
                              env={**os.environ, "SPANPROF_CONTEXT_DEBUG": "1" if version >= 21 else "0"})
        lines = [line.split() for line in done.stdout.decode().splitlines()]
        print("Java", version, "; ".join(" ".join(line) for line in lines), flush=True)
        counted = {name: (int(checks), int(wrong)) for name, checks, wrong in (line for line in lines if len(line) == 3)}
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([name for name in counted if name.startswith("virtual")] != [], version >= 21)
        self.assertGreaterEqual(sum(checks for checks, _ in counted.values()), CHECKS)
        self.assertEqual(sum(wrong for _, wrong in counted.values()), 0)
        said = done.stderr.decode()
        if version >= 21:
            self.assertIn("switches of virtual threads are %s\n" % way, said)
        if version < 24:  # later ones warn of System.load()
            self.assertEqual([line for line in said.splitlines() if not line.startswith("spanprof.otel: ")], [])


for _version in VERSIONS:
    setattr(Interleave, "test_%d" % _version, lambda self, version=_version: self.one(version))


class Quiet(java_services.PublishJava):
    """What does not publish says nothing, but for SPANPROF_CONTEXT_DEBUG=1."""

    def setUp(self):
        super().setUp()
        self.path = self.have(compiled, "", "Quiet")
        self.command = self.have(java, 17)
        self.alone = os.path.join(self.directory, "alone.jar")  # with no library beside it
        shutil.copy(JAR, self.alone)

    def run_it(self, jar, *options, launcher=(), **environment):
        """What it says when it may speak; silent otherwise."""
        said = []
        for debug in ("0", "1"):
            done = subprocess.run([*launcher, *self.command, *QUIET, *options, "-cp", self.path + ":" + jar, "Quiet"],
                                  capture_output=True, timeout=120, text=True,
                                  env={**os.environ, "SPANPROF_CONTEXT_DEBUG": debug, **environment})
            self.assertEqual((done.returncode, done.stdout), (0, "fine\n"), done.stderr)
            said.append(done.stderr)
        self.assertEqual(said[0], "")
        return said[1]

    def test_publishing(self):
        self.assertIn("publishing, with", self.run_it(JAR))

    def test_library_out_of_the_jar(self):
        folder = os.path.join(self.directory, "tmp")
        os.mkdir(folder)
        self.assertIn("publishing, with", self.run_it(self.alone, "-Djava.io.tmpdir=" + folder))
        self.assertEqual(os.listdir(folder), [])

    def test_no_folder_for_it(self):
        self.assertIn("not publishing", self.run_it(self.alone, "-Djava.io.tmpdir=/proc/none"))

    @harness.needs_root
    def test_folder_without_execution(self):
        folder = os.path.join(self.directory, "noexec")
        os.mkdir(folder)
        launcher = ["unshare", "-m", "sh", "-ec", 'mount -t tmpfs -o noexec none "$1"; shift; exec "$@"', "sh", folder]
        self.assertIn("not publishing", self.run_it(self.alone, "-Djava.io.tmpdir=" + folder, launcher=launcher))

    def test_library_that_is_none(self):
        for library in ["/none.so", *glob.glob("/lib/*-linux-gnu/libm.so.6")]:
            self.assertIn("not publishing", self.run_it(JAR, "-Dspanprof.library=" + library))

    def test_another_libc(self):
        """As musl, whose file has another name: no JVM for musl can be had here."""
        folder = os.path.join(self.directory, "libc")
        os.mkdir(folder)
        libc, = glob.glob("/lib/*-linux-gnu/libc.so.6")
        shutil.copy(libc, os.path.join(folder, "other.so"))
        os.symlink("other.so", os.path.join(folder, "libc.so.6"))
        self.assertIn("the JVM's C library is not glibc", self.run_it(JAR, LD_LIBRARY_PATH=folder))

    def test_off(self):
        self.assertEqual(self.run_it(JAR, SPANPROF_CONTEXT="off"), "")

    def test_another_publishes(self):
        library = os.path.join(self.directory, "stranger.so")
        subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, os.path.join(SOURCES, "stranger.c")], check=True)
        self.assertIn("not publishing: error 17", self.run_it(JAR, LD_PRELOAD=library))

    def test_odd_resource(self):
        """Values that are too long, too many, or no text for C."""
        attributes = ["long=" + "x" * 5000, "nul=a%00b", "smile=%F0%9F%98%80%C3%A4", "half=%ED%A0%80"]
        attributes += ["many%d=%s" % (i, "y" * 400) for i in range(200)]
        said = self.run_it(JAR, OTEL_RESOURCE_ATTRIBUTES=",".join(attributes), OTEL_SERVICE_NAME="shop")
        self.assertRegex(said, r"publishing, with [3-9]\d attributes")

    def test_two_copies(self):
        """One in the agent, one on the class path of a program that has an SDK of its own."""
        self.command = [*self.command, self.have(agent)]
        said = subprocess.run([*self.command, *QUIET, "-cp", self.path + ":" + JAR, "Quiet"], capture_output=True, timeout=120,
                              text=True, env={**os.environ, "SPANPROF_CONTEXT_DEBUG": "1", "OTEL_JAVAAGENT_EXTENSIONS": JAR})
        self.assertEqual((said.returncode, said.stdout), (0, "fine\n"), said.stderr)
        self.assertEqual(said.stderr.count("publishing, with"), 1, said.stderr)
        self.assertEqual(said.stderr.count("not publishing: another copy does"), 1, said.stderr)


class Services(java_services.ServicesTest):
    def test_http_server(self):
        self.with_agent("http-server", 17, "HttpService", arguments=["pool"])

    def test_virtual_threads_21(self):
        self.with_agent("virtual-21", 21, "HttpService", kind=VirtualThreads, arguments=["virtual"])

    def test_virtual_threads_25(self):
        self.with_agent("virtual-25", 25, "HttpService", kind=VirtualThreads, arguments=["virtual"])

    def test_spring(self):
        self.with_agent("spring", 17, "SpringService", "spring", release=17)

    def test_webflux(self):
        self.with_agent("webflux", 17, "WebfluxService", "webflux", release=17)

    def test_kotlin_coroutines(self):
        self.with_agent("coroutines", 17, "CoroutinesService", "kotlin", release=17)

    def test_sdk_without_agent(self):
        path = self.have(compiled, "", "SdkService", "Truth.java")
        self.run_service("sdk", [*self.have(java, 17), "-cp", path + ":" + JAR, "service.SdkService", "{port}"])

    def test_beside_elastic(self):
        """Its agent writes into variables of its own: ours counts."""
        samples = self.with_agent("elastic", 17, "HttpService", arguments=["pool"], beside=elastic_agents.APM_AGENT,
                                  ELASTIC_APM_UNIVERSAL_PROFILING_INTEGRATION_ENABLED="true", ELASTIC_APM_LOG_LEVEL="OFF",
                                  ELASTIC_APM_SERVER_URL="http://127.0.0.1:1", ELASTIC_APM_CLOUD_PROVIDER="NONE",
                                  ELASTIC_APM_DISABLE_INSTRUMENTATIONS="opentelemetry")  # it would take the API over
        sources = {sample.attributes.get("spanprof.context.source") for sample in samples if sample.span_id}
        self.assertEqual(sources, {"otel_thread"})


if __name__ == "__main__":
    harness.main()

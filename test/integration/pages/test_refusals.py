# SPDX-License-Identifier: Apache-2.0
"""Stock services whose publisher cannot work there: they run as without it and say nothing; /api/status says why."""
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
TEST = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [os.path.join(os.path.dirname(HERE), "support"), os.path.join(TEST, "peers")]
import harness  # noqa: E402
import java_services  # noqa: E402
import publisher_services  # noqa: E402
import publishing_node  # noqa: E402
import python_services  # noqa: E402
import test_pages  # noqa: E402

publisher_services.INSTALL_TIMEOUT_S = 200  # here it is left out rather than waited for
java_services.elastic_agents.TIMEOUT_S = 60
MISSING = (publisher_services.Missing, java_services.sdk_clients.Missing)
STOCK = ("opentelemetry-distro==0.52b1", "opentelemetry-exporter-otlp-proto-http==1.31.1",
         "opentelemetry-instrumentation-flask==0.52b1", "flask==3.1.0")  # as test_publishers_python.py has them

PYTHON = """
import time
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
while True:
    with TracerProvider().get_tracer("stock").start_as_current_span("work"):
        end = time.process_time() + 0.1
        while time.process_time() < end:
            sum(i * i for i in range(1000))
"""

NODE = """
const { NodeTracerProvider } = require('@opentelemetry/sdk-trace-node');
const provider = new NodeTracerProvider();
provider.register();
function work() {
  provider.getTracer('stock').startActiveSpan('work', (span) => {
    const begun = Date.now();
    while (Date.now() - begun < 100) Math.sqrt(Math.random());
    span.end();
  });
  setImmediate(work);
}
work();
"""

JAVA = """
public class Burn {
    public static void main(String[] arguments) {
        double x = 0;
        for (long i = 0; ; i++) x += Math.sqrt(i ^ (long) x);
    }
}
"""


MEMFD = """
import mmap, os
file = os.memfd_create("spanprof-refused-taken")
os.ftruncate(file, mmap.PAGESIZE)
shown = mmap.mmap(file, mmap.PAGESIZE, prot=mmap.PROT_READ)
os.close(file)
while True:
    sum(i * i for i in range(1000))
"""


@harness.needs_sampling
class Refusals(test_pages.Pages):
    def setUp(self):
        super().setUp()
        self.publishers = os.path.join(self.directory, "publishers")
        shutil.copytree(publisher_services.PUBLISHERS, self.publishers)

    def need(self, what, *arguments):
        try:
            return what(*arguments)
        except MISSING as reason:
            return self.skipTest(str(reason))

    def spoil(self, path):
        with open(os.path.join(self.publishers, path), "w") as file:
            file.write("not a library")

    def row(self, pid):
        return next((row for row in self.json("/api/status")["processes"] if pid in row["pids"]), None)

    def assert_refused(self, state, why, command, **environment):
        """It runs, and its row says why; it has written nothing."""
        running = self.start(sampler=True)
        running.wait_sampling()
        log = os.path.join(self.directory, "service.log")
        with open(log, "wb") as file:
            process = subprocess.Popen(
                [harness.BINARY, "exec", "--publishers", self.publishers, "--", *command], stdout=file, stderr=file,
                env={"PATH": os.environ["PATH"], "HOME": self.directory, "OTEL_SERVICE_NAME": "stock", **environment})
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        row = harness.wait_until(lambda: (lambda row: row and row["publisher"] == state and row)(self.row(process.pid)), 60,
                                 "it is " + state)
        self.assertIn(why, row["why"])
        self.assertIsNone(process.poll())
        with open(log) as file:
            self.assertEqual(file.read(), "")

    def test_memfd(self):
        """As publishers in Go, Rust and C++ show it, which are a part of the program."""
        self.assert_refused("taken", "another", ["/usr/bin/python3", "-I", "-c", MEMFD])

    def test_python(self):
        if python_services.NOT_BUILT:
            self.skipTest(python_services.NOT_BUILT)
        python = os.path.join(self.need(python_services.venv, "flask", python_services.STOCK, *STOCK), "python")
        self.spoil("python/spanprof_otel/_native.abi3.so")
        self.assert_refused("no_library", "library cannot be loaded", [python, "-c", PYTHON], PYTHONDONTWRITEBYTECODE="1")

    def node(self):
        node = shutil.which("nodejs") or shutil.which("node")
        if not node or publishing_node.why_not_built():
            self.skipTest(publishing_node.why_not_built() or "no nodejs")
        return node, self.need(publishing_node.packages)

    def test_node(self):
        node, packages = self.node()
        self.spoil("node/spanprof_context.node")
        self.assert_refused("no_library", "library cannot be loaded", [node, "-e", NODE], NODE_PATH=packages)

    def test_java(self):
        """The library is not beside the jar, and where the one in the jar would be unpacked is no folder."""
        if not os.path.exists(java_services.JAR) or not shutil.which("javac"):
            self.skipTest("the publisher is not built: no JDK")
        agent = self.need(java_services.agent)
        for name in os.listdir(os.path.join(self.publishers, "java")):
            if name.endswith(".so"):
                os.unlink(os.path.join(self.publishers, "java", name))
        with open(os.path.join(self.directory, "Burn.java"), "w") as file:
            file.write(JAVA)
        subprocess.run(["javac", "Burn.java"], cwd=self.directory, check=True, timeout=120)
        self.assert_refused("no_library", "library cannot be loaded", [
            "java", "-Xshare:off", agent, "-Djava.io.tmpdir=/proc/none", *java_services.QUIET, "-Dotel.javaagent.logging=none", "-cp",
            self.directory, "Burn"])


if __name__ == "__main__":
    harness.main()

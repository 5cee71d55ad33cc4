# SPDX-License-Identifier: Apache-2.0
"""A stock Flask service on Debian's Python, started by `spanprof exec`: its samples are linked to its spans. The short
form of test/peers/test_publish_python.py."""
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import harness  # noqa: E402
import publisher_services  # noqa: E402
import python_services  # noqa: E402

publisher_services.INSTALL_TIMEOUT_S = 200  # here it is left out rather than waited for
PACKAGES = ("opentelemetry-distro==0.52b1", "opentelemetry-exporter-otlp-proto-http==1.31.1",
            "opentelemetry-instrumentation-flask==0.52b1", "flask==3.1.0")
SAMPLES = 1500


def environment(test):
    """Its bin directory; skips the test where it cannot be had."""
    if python_services.NOT_BUILT:
        test.skipTest(python_services.NOT_BUILT)
    try:
        return python_services.venv("flask", python_services.STOCK, *PACKAGES)
    except publisher_services.Missing as reason:
        return test.skipTest(str(reason))


class Flask(publisher_services.ServicesTest):
    def test_flask(self):
        make = python_services.maker(self, environment(self), ["flask", "--app", "flask_app", "run", "--port", "{port}"])
        self.judge("flask", make, SAMPLES)


class Start(harness.IntegrationTest):
    """Of an interpreter under `spanprof exec`, by an SDK that is set up in code."""
    PROGRAM = os.path.join(python_services.SOURCES, "report.py")

    def run_python(self, *arguments, with_exec=True, **variables):
        """(standard output, standard error)"""
        command = [os.path.join(environment(self), "python"), *arguments]
        if with_exec:
            command[:0] = [harness.BINARY, "exec", "--publishers", publisher_services.PUBLISHERS, "--"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, env={
            "PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1", **variables})
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout, done.stderr

    def assert_report(self, right, *options, errors="", **variables):
        output, said = self.run_python(*options, self.PROGRAM, "span", **variables)
        self.assertEqual(said, errors)
        self.assertEqual((json.loads(output)["right"], json.loads(output)["contexts"]), (right, int(right)))

    def test_sdk_in_code(self):
        self.assert_report(True)

    def test_isolated(self):
        """-I and -E hide PYTHONPATH: nothing is published, and nothing is said."""
        for option in ("-I", "-E"):
            self.assert_report(False, option)

    def test_children_that_are_isolated(self):
        child = "import subprocess, sys; from opentelemetry import context; " \
            "sys.exit(subprocess.call([sys.executable, '-I', '-c', 'from opentelemetry import context']))"
        self.assertEqual(self.run_python("-c", child), ("", ""))

    def test_isolated_flask(self):
        for option in ("-I", "-E"):
            text = self.run_python(option, "-m", "flask", "--app", os.path.join(python_services.SOURCES, "flask_app"), "routes",
                                   TRUTH=self.directory)
            self.assertIn("/render", text[0])
            self.assertEqual(text[1], "")

    def test_another_name(self):
        """The user's choice counts, as without us: also where it cannot be had."""
        output, errors = self.run_python(self.PROGRAM, "span", OTEL_PYTHON_CONTEXT="nonesuch")
        self.assertIn("nonesuch", errors)
        self.assertNotIn("spanprof", errors)
        self.assertTrue(json.loads(output)["right"])

    def test_the_sitecustomize_behind_it(self):
        for text in ("import sys; print(sys.modules['sitecustomize'].__file__)", "import nonesuch",
                     "raise ValueError", "import sys; from opentelemetry import context; sys.stderr.write('imported')"):
            with open(os.path.join(self.directory, "sitecustomize.py"), "w") as file:
                file.write(text)
            ran = [self.run_python("-c", "import sys; print('sitecustomize' in sys.modules)", with_exec=with_exec,
                                   PYTHONPATH=self.directory) for with_exec in (True, False)]
            self.assertEqual(*ran)
            self.assertNotEqual(ran[0], ("True\n", ""))
        self.assert_report(True, PYTHONPATH=self.directory, errors="imported")  # by the last of them, the context


if __name__ == "__main__":
    harness.main()

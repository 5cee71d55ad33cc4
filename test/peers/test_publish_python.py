# SPDX-License-Identifier: Apache-2.0
"""Stock Python services get their spans' CPU by `spanprof exec` alone: every sample of what their handlers burned is
linked to the span of that request. Interleave: what is published is the current span, on each version of Python."""
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "integration", "support"))
import harness  # noqa: E402
import publisher_services  # noqa: E402
import publishing  # noqa: E402
import python_services  # noqa: E402

SOURCES, TREE = python_services.SOURCES, python_services.TREE
CHECKS = 60000  # of each version: 300,000 in all
INTERLEAVED = ("opentelemetry-sdk", "greenlet", "gevent", "uvloop")


def environment(test, name, version, *packages):
    """Its bin directory; skips the test where it cannot be had."""
    if python_services.NOT_BUILT:
        test.skipTest(python_services.NOT_BUILT)
    try:
        return python_services.venv(name, python_services.interpreter(version), *packages)
    except publisher_services.Missing as reason:
        test.skipTest(str(reason))


class Interleave(publishing.PublishersTest):
    def one(self, version):
        bin_path = environment(self, version, version, *INTERLEAVED)
        done = subprocess.run([os.path.join(bin_path, "python"), "-W", "ignore", os.path.join(SOURCES, "interleave.py")],
                              stdout=subprocess.PIPE, timeout=600,
                              env={**os.environ, "PYTHONPATH": TREE, "OTEL_PYTHON_CONTEXT": "spanprof"})
        lines = [line.split() for line in done.stdout.decode().splitlines()]
        print(version, "; ".join(" ".join(line) for line in lines), flush=True)
        counted = {name: (int(checks), int(wrong)) for name, checks, wrong in (line for line in lines if len(line) == 3)}
        self.assertEqual(done.returncode, 0)
        self.assertGreater(sum(checks for checks, _ in counted.values()), CHECKS)
        self.assertEqual(sum(wrong for _, wrong in counted.values()), 0)


for _version in python_services.VERSIONS:
    setattr(Interleave, "test_" + _version.replace(".", "_"), lambda self, version=_version: self.one(version))


class Allocations(publishing.PublishersTest):
    SWITCHES = 2000
    OF_SPANS = 100  # those of a case are few

    def counted(self, bin_path, library, **variables):
        done = subprocess.run([os.path.join(bin_path, "python"), os.path.join(SOURCES, "allocations.py"), str(self.SWITCHES)],
                              check=True, stdout=subprocess.PIPE, text=True, timeout=120,
                              env={**os.environ, "PYTHONPATH": TREE, "OTEL_PYTHON_CONTEXT": "spanprof",
                                   "PYTHONMALLOC": "malloc", "LD_PRELOAD": library, **variables})
        return {name: int(n) for name, n in (line.split() for line in done.stdout.splitlines())}

    def test_switches_allocate_nothing(self):
        """No more than without the publisher."""
        if not shutil.which("cc"):
            self.skipTest("no cc")
        library = os.path.join(self.directory, "allocations.so")
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", library,
                        os.path.join(os.path.dirname(SOURCES), "allocations.c")], check=True)
        for version in python_services.VERSIONS:
            with self.subTest(version):
                try:
                    bin_path = python_services.venv(version, python_services.interpreter(version), *INTERLEAVED)
                except publisher_services.Missing as reason:
                    harness.note_skipped(version, str(reason))
                    continue
                stock = self.counted(bin_path, library, SPANPROF_CONTEXT="off")
                ours = self.counted(bin_path, library)
                print(version, {name: (stock[name], ours[name]) for name in stock}, flush=True)
                for name in stock:
                    self.assertLess(ours[name] - stock[name], self.OF_SPANS, name)


class FastApi(publisher_services.Service):
    paths = ["/render", "/wait", "/sync"]


class Services(publisher_services.ServicesTest):
    """On Debian's Python, but for one."""

    def run_service(self, name, command, version="3.11", packages="requirements", end="\0", **variables):
        bin_path = environment(self, packages, version, "-r", os.path.join(SOURCES, packages + ".txt"))
        self.judge(name, python_services.maker(self, bin_path, command, **variables), end=end)

    def test_flask(self):
        self.run_service("flask", ["flask", "--app", "flask_app", "run", "--port", "{port}"])

    def test_fastapi_on_uvloop(self):
        self.run_service("fastapi", ["uvicorn", "--loop", "uvloop", "--log-level", "warning", "--port", "{port}",
                                     "fastapi_app:app"], kind=FastApi)

    def test_fastapi_on_python_3_14(self):
        self.run_service("fastapi-3-14", ["uvicorn", "--loop", "uvloop", "--log-level", "warning", "--port", "{port}",
                                          "fastapi_app:app"], kind=FastApi,
                         version="3.14", packages="requirements_latest")

    def test_django_under_gunicorn(self):
        self.run_service("django", ["gunicorn", "-w", "2", "--threads", "2", "-b", "127.0.0.1:{port}", "django_app"],
                         DJANGO_SETTINGS_MODULE="django_settings")

    def test_gunicorn_with_gevent(self):
        self.run_service("gevent", ["gunicorn", "-k", "gevent", "-w", "2", "-b", "127.0.0.1:{port}", "gevent_app:app"],
                         end="Handling signal: term")  # the SDK's own thread, patched by gevent

    def uwsgi(self, name, *options):
        home = os.path.join(python_services.BUILT, "requirements")
        self.run_service(name, ["uwsgi", "--http-socket", "127.0.0.1:{port}", "--home", home, "--module", "uwsgi_app:app",
                                "--master", "--die-on-term", "--processes", "2", "--threads", "2", "--enable-threads",
                                "--disable-logging", *options])

    def test_uwsgi_that_forks_after_the_import(self):
        self.uwsgi("uwsgi")

    def test_uwsgi_with_lazy_apps(self):
        self.uwsgi("uwsgi-lazy", "--lazy-apps")


class CeleryWorker(publisher_services.Service):
    """Takes its tasks from a folder."""
    asked = 0

    def answers(self):
        if not self.asked:
            self.ask("/wait", 1)
        return self.done() == self.asked

    def ask(self, paths, n):
        """By a program of its own, which traces nothing."""
        self.asked += n
        subprocess.run(["python", os.path.join(SOURCES, "celery_app.py"), paths, str(n)], check=True,
                       env=self.environment)

    def done(self):
        return sum(record["type"] == "done" for record in self.records())

    def load(self, n):
        self.ask(",".join(self.paths), n * len(self.paths))
        harness.wait_until(lambda: self.done() == self.asked, 120, "all tasks are done")


class Tasks(publisher_services.ServicesTest):
    def run_worker(self, name, *options):
        bin_path = environment(self, "requirements", "3.11", "-r", os.path.join(SOURCES, "requirements.txt"))
        broker = os.path.join(self.directory, "broker")
        os.makedirs(os.path.join(broker, "control"))
        self.judge(name, python_services.maker(self, bin_path, ["celery", "-A", "celery_app", "worker", "-l", "warning",
                                                                *options], kind=CeleryWorker, BROKER=broker))

    def test_celery_prefork(self):
        self.run_worker("celery", "--pool", "prefork", "--concurrency", "2")

    def test_celery_threads(self):
        self.run_worker("celery-threads", "--pool", "threads", "--concurrency", "4")


if __name__ == "__main__":
    harness.main()

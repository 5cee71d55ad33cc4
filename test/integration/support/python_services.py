# SPDX-License-Identifier: Apache-2.0
"""Interpreters of each version of Python, environments with packages from PyPI, and stock Python services in them."""
import glob
import os

import debian_python
import harness
import publisher_services

TREE = os.path.join(publisher_services.PUBLISHERS, "python")
SOURCES = os.path.join(harness.SOURCE, "test", "peers", "publishers", "python")
BUILT = os.path.join(harness.SOURCE, "build", "peers", "publish_python")
VERSIONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
STOCK = "/usr/bin/python3"  # Debian's
NOT_BUILT = None if glob.glob(os.path.join(TREE, "spanprof_otel", "_native*.so")) else \
    "the publisher for Python is not built: no python3-dev"


def interpreter(version):
    """The path of one. Raises Missing."""
    number, threads = version.rstrip("t"), "t" if version.endswith("t") else ""  # 3.14t: free-threaded
    found = sorted(glob.glob(os.path.expanduser("~/.pyenv/versions/%s.*[0-9]%s/bin/python3" % (number, threads))))
    for candidate in ["/usr/bin/python" + version, "/usr/local/bin/python" + version, *found]:
        if os.access(candidate, os.X_OK):
            return candidate
    if version == debian_python.VERSION:
        return debian_python.fetch(os.path.join(BUILT, "debian"))
    raise publisher_services.Missing("no Python " + version)


def venv(name, python, *packages):
    """The bin directory of an environment, which is made once. Raises Missing."""
    folder = os.path.join(BUILT, name)
    ready, wanted = os.path.join(folder, "ready"), " ".join(packages)
    if not has_text(ready, wanted):
        if python.startswith(BUILT):
            publisher_services.run([python, "-m", "venv", "--clear", "--without-pip", folder])
            publisher_services.run([*pip(folder), "install", *packages])
        else:
            publisher_services.run([python, "-m", "venv", "--clear", folder])
            publisher_services.run([os.path.join(folder, "bin", "pip"), "-q", "install", *packages])
        with open(ready, "w") as file:
            file.write(wanted)
    return os.path.join(folder, "bin")


def has_text(path, text):
    try:
        with open(path) as file:
            return file.read() == text
    except OSError:
        return False


def pip(environment):
    """The command of a pip that installs there; Debian's python3.14 has none of its own."""
    folder = os.path.join(BUILT, "pip")
    program, ready = os.path.join(folder, "bin", "pip"), os.path.join(folder, "ready")
    if not os.path.exists(ready):
        publisher_services.run([STOCK, "-m", "venv", "--clear", folder])
        publisher_services.run([program, "-q", "install", "--upgrade", "pip"])
        open(ready, "w").close()
    return [program, "-q", "--disable-pip-version-check", "--python", os.path.join(environment, "bin", "python")]


def maker(test, bin_path, command, kind=publisher_services.Service, **environment):
    """For ServicesTest.judge(): makes a service under opentelemetry-instrument."""
    def make(spanprof, name):
        return kind(test, spanprof, name, ["opentelemetry-instrument", *command], SOURCES, bin_path, **VARIABLES,
                    **environment)
    return make


VARIABLES = {"PYTHONDONTWRITEBYTECODE": "1", "OTEL_METRICS_EXPORTER": "none", "OTEL_LOGS_EXPORTER": "none"}

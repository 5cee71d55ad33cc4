#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the wheel of spanprof_otel, the publisher for Python, from its built tree: one file for CPython 3.10 and later.

    packaging/wheel.py BUILD/publishers/python DIRECTORY

Prints the wheel's path. Its platform is what the compiled module needs: manylinux with the newest version of a glibc
symbol in it, or musllinux. The same tree gives the same bytes."""
import base64
import glob
import hashlib
import os
import re
import subprocess
import sys
import tempfile
import zipfile

LICENSE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "LICENSE")
OLDEST_GLIBC = {"x86_64": (2, 5), "aarch64": (2, 17)}  # that a wheel may name
MUSL = "musllinux_1_2"                                 # musl has no versions of symbols: the one it is built with
MOMENT = (1980, 1, 1, 0, 0, 0)                         # of each file; the first that a zip file can name


class Refused(Exception):
    """The tree cannot become a wheel; the text says why."""


def readelf(path, *options):
    return subprocess.run(["readelf", "--wide", *options, path], check=True, capture_output=True, text=True).stdout


def platform_of(module):
    """The platform tag of the compiled module."""
    machine = {"Advanced Micro Devices X86-64": "x86_64", "AArch64": "aarch64"}.get(
        re.search(r"Machine:\s+(.*)", readelf(module, "--file-header")).group(1).strip())
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", readelf(module, "--dynamic"))
    if not machine:
        raise Refused("%s is for no machine that wheels are made for" % module)
    if needed == ["libc.so"]:
        return "%s_%s" % (MUSL, machine)
    if needed != ["libc.so.6"]:
        raise Refused("%s needs %s; a wheel may need libc alone" % (module, ", ".join(needed)))
    versions = re.findall(r"GLIBC_(\d+)\.(\d+)", readelf(module, "--version-info"))
    newest = max([(int(major), int(minor)) for major, minor in versions] + [OLDEST_GLIBC[machine]])
    return "manylinux_%d_%d_%s" % (*newest, machine)


def stripped(module):
    """Its bytes without debug information."""
    with tempfile.TemporaryDirectory() as directory:
        copy = os.path.join(directory, "module")
        subprocess.run(["objcopy", "--strip-debug", module, copy], check=True)
        return read(copy)


def read(path):
    with open(path, "rb") as file:
        return file.read()


def contents(tree):
    """name in the wheel -> bytes. A file beside the folders is for PYTHONPATH alone: sitecustomize.py is the site's own."""
    found = {}
    for folder, folders, names in os.walk(tree):
        names = [] if folder == tree else names
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted(names):
            path = os.path.join(folder, name)
            found[os.path.relpath(path, tree)] = stripped(path) if name.endswith(".so") else read(path)
    return found


def record(files, name):
    rows = ["%s,sha256=%s,%d" % (path, base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode(),
                                 len(data)) for path, data in files.items()]
    return "\n".join([*rows, name + ",,", ""]).encode()


def write(path, files):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name, MOMENT)
            entry.external_attr = (0o100755 if name.endswith(".so") else 0o100644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = 3  # Unix: the modes count
            wheel.writestr(entry, data)


def make(tree, directory):
    modules = glob.glob(os.path.join(tree, "spanprof_otel", "_native.abi3.so"))
    infos = glob.glob(os.path.join(tree, "*.dist-info"))
    if len(modules) != 1 or len(infos) != 1:
        raise Refused("%s is not the built tree of the publisher: it has %d compiled modules and %d dist-info folders" % (
            tree, len(modules), len(infos)))
    info = os.path.basename(infos[0])
    tag = "cp310-abi3-" + platform_of(modules[0])
    files = contents(tree)
    files[info + "/WHEEL"] = ("Wheel-Version: 1.0\nGenerator: spanprof\nRoot-Is-Purelib: false\nTag: %s\n" % tag).encode()
    files[info + "/licenses/LICENSE"] = read(LICENSE)
    files[info + "/RECORD"] = record(files, info + "/RECORD")
    path = os.path.join(directory, "%s-%s.whl" % (info[:-len(".dist-info")], tag))
    os.makedirs(directory, exist_ok=True)
    write(path, files)
    return path


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    try:
        print(make(*sys.argv[1:]))
    except (Refused, subprocess.CalledProcessError, OSError) as reason:
        sys.exit("wheel.py: %s" % reason)


if __name__ == "__main__":
    main()

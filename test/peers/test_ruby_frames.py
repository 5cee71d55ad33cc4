# SPDX-License-Identifier: Apache-2.0
"""Ruby frames of Debian's other releases: their packages are unpacked into a folder, with their own libc, and the program
runs with these. For each, the frames of running threads against what they have said (caller_locations)."""
import glob
import os
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "integration", "support"))
sys.path.insert(0, HERE)
from elastic_agents import PEERS  # noqa: E402
import debian_python  # noqa: E402
import publisher_services  # noqa: E402

BUILD = os.environ["SPANPROF_BUILD_DIR"]
FOLDER = os.path.join(PEERS, "ruby")
SOURCE = "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] %s %s main\n"
STATUS = 'Dir::State::status "{0}/status";\nAcquire::Languages "none";\n'
LIBRARIES = ("libc6", "libgmp10", "zlib1g", "libcrypt1", "libgcc-s1", "libyaml-0-2")
RELEASES = {"2.7": "bullseye", "3.3": "trixie"}
LAUNCHER = """#!/bin/sh
RUBYLIB=%(lib)s exec %(loader)s --library-path %(path)s %(program)s --disable-gems "$@"
"""
TIMEOUT_S = 600


def unpack(version, folder):
    """The packages of that release. Raises Missing."""
    apt, root = os.path.join(folder, "apt"), os.path.join(folder, "root")
    for name in ("lists/partial", "cache/archives/partial"):
        os.makedirs(os.path.join(apt, name), exist_ok=True)
    open(os.path.join(apt, "status"), "w").close()
    for name, text in (("sources.list", SOURCE % (debian_python.archive(), RELEASES[version])),
                       ("apt.conf", (debian_python.CONFIG + STATUS).format(apt))):
        with open(os.path.join(apt, name), "w") as file:
            file.write(text)
    apt_get = {"cwd": apt, "env": {**os.environ, "APT_CONFIG": os.path.join(apt, "apt.conf")}}
    publisher_services.run(["apt-get", "-q", "update"], **apt_get)
    publisher_services.run(["apt-get", "-q", "download", "ruby" + version, "libruby" + version, *LIBRARIES], **apt_get)
    for package in glob.glob(os.path.join(apt, "*.deb")):
        publisher_services.run(["dpkg-deb", "-x", package, root])


def launcher(version):
    """The path of a script that runs the interpreter."""
    folder = os.path.join(FOLDER, version)
    root, script = os.path.join(folder, "root"), os.path.join(folder, "ruby")
    if os.path.exists(script):
        return script
    unpack(version, folder)
    loaders = (glob.glob(os.path.join(root, "lib", "*", "ld-[0-9]*.so")) +
               glob.glob(os.path.join(root, "usr", "lib", "*", "ld-linux-*.so.*")))
    paths = glob.glob(os.path.join(root, "lib", "*-linux-gnu")) + glob.glob(os.path.join(root, "usr/lib/*-linux-gnu"))
    libraries = [os.path.join(root, "usr/lib/ruby", version + ".0")]
    libraries += glob.glob(os.path.join(root, "usr/lib/*/ruby", version + ".0"))
    with open(script, "w", encoding="utf-8") as file:
        file.write(LAUNCHER % {"lib": ":".join(libraries), "loader": loaders[0], "path": ":".join(paths),
                               "program": os.path.join(root, "usr/bin/ruby" + version)})
    os.chmod(script, 0o755)
    return script


def release_test(version):
    def test(self):
        try:
            ruby = launcher(version)
        except publisher_services.Missing as missing:
            self.skipTest(str(missing))
        done = subprocess.run([os.path.join(BUILD, "test", "test_bpf_ruby"), "20", ruby], check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=TIMEOUT_S)
        text = done.stdout.decode(errors="replace")
        print("".join(line + "\n" for line in text.splitlines() if line.startswith(ruby)), end="", flush=True)
        if done.returncode == 77:
            self.skipTest("BPF cannot be tried")
        self.assertEqual(done.returncode, 0, text)
    return test


class RubyFrames(unittest.TestCase):
    pass


for one in RELEASES:
    setattr(RubyFrames, "test_" + one.replace(".", "_"), release_test(one))


if __name__ == "__main__":
    outcome = unittest.main(exit=False).result
    sys.exit(1 if not outcome.wasSuccessful() else 77 if len(outcome.skipped) == outcome.testsRun else 0)

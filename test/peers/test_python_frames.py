# SPDX-License-Identifier: Apache-2.0
"""Python frames of every version that can be had: pyenv's that are installed, and builds from Maven Central, of which a
jar has the interpreter, its library and its standard library. For each: frames against sys._getframe, lines of the
whole standard library, and running programs in the kernel."""
import glob
import os
import stat
import subprocess
import sys
import unittest
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from elastic_agents import Missing, PEERS, maven  # noqa: E402

BUILD = os.environ["SPANPROF_BUILD_DIR"]
FOLDER = os.path.join(PEERS, "python")
MAVEN = ["3.9.6-1.5.6", "3.10.8-1.5.8", "3.11.3-1.5.9", "3.12.1-1.5.10", "3.13.5-1.5.12", "3.14.3-1.5.13"]
CLASSIFIER = "linux-x86_64"
UNITS = "100000000"  # all
TIMEOUT_S = 600
LAUNCHER = """#!/bin/sh
PYTHONHOME=%(home)s LD_LIBRARY_PATH=%(home)s exec %(program)s "$@"
"""


def unpack(version, home):
    """The path of a script that runs the interpreter."""
    jar = os.path.join(FOLDER, "cpython-%s-%s.jar" % (version, CLASSIFIER))
    if not os.path.exists(jar):
        maven("copy", "-Dartifact=org.bytedeco:cpython:%s:jar:%s" % (version, CLASSIFIER),
              "-DoutputDirectory=" + FOLDER)
    with zipfile.ZipFile(jar) as archive:
        archive.extractall(home)
    root = os.path.join(home, "org", "bytedeco", "cpython", CLASSIFIER)
    minor = version.split(".")[1]
    program = os.path.join(root, "bin", "python3." + minor)
    os.chmod(program, 0o755)
    launcher = os.path.join(home, "python")
    with open(launcher, "w", encoding="utf-8") as file:
        file.write(LAUNCHER % {"home": root, "program": program})
    os.chmod(launcher, 0o755)
    subprocess.run([launcher, "-m", "compileall", "-q", os.path.join(root, "lib", "python3." + minor)], check=False,
                   capture_output=True, timeout=TIMEOUT_S)
    return launcher


def from_maven(version):
    home = os.path.join(FOLDER, version)
    launcher = os.path.join(home, "python")
    if not os.path.exists(launcher) or not os.stat(launcher).st_mode & stat.S_IXUSR:
        launcher = unpack(version, home)
    return launcher


class PythonFrames(unittest.TestCase):
    def check(self, python):
        skipped = []
        for test, *before in (("test_python_frames",), ("test_python_lines", UNITS), ("test_bpf_python", "20")):
            done = subprocess.run([os.path.join(BUILD, "test", test), *before, python], check=False,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=TIMEOUT_S)
            text = done.stdout.decode(errors="replace")
            print("".join(line + "\n" for line in text.splitlines() if line.startswith(python)), end="", flush=True)
            if done.returncode == 77:
                skipped.append(test)
            else:
                self.assertEqual(done.returncode, 0, text)
        if len(skipped) == 3:
            self.skipTest("nothing ran")

    def test_pyenv(self):
        pythons = sorted(glob.glob(os.path.expanduser("~/.pyenv/versions/3.*/bin/python3")))
        pythons = [path for path in pythons if int(path.split("/3.")[1].split(".")[0]) >= 8]
        if not pythons:
            self.skipTest("no pyenv")
        for python in pythons:
            with self.subTest(python=python):
                self.check(python)


def maven_test(version):
    def test(self):
        try:
            python = from_maven(version)
        except Missing as missing:
            self.skipTest(str(missing))
        self.check(python)
    return test


for one in MAVEN:
    setattr(PythonFrames, "test_maven_" + one.split("-")[0].replace(".", "_"), maven_test(one))


if __name__ == "__main__":
    outcome = unittest.main(exit=False).result
    sys.exit(1 if not outcome.wasSuccessful() else 77 if len(outcome.skipped) == outcome.testsRun else 0)

# SPDX-License-Identifier: Apache-2.0
"""Go toolchains of many versions, fetched by a `go` of this machine from its module proxy; all that they
write is below build/peers/go.

SPANPROF_GO_VERSIONS="1.22.12 1.26.8" chooses; the default is one of each minor version that is read.
"""
import json
import os
import platform
import shutil
import stat
import subprocess

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HOME = os.path.join(SOURCE, "build", "peers", "go")
PROGRAMS = os.path.join(SOURCE, "test", "peers", "go")
VERSIONS = os.environ.get("SPANPROF_GO_VERSIONS", "1.13.15 1.14.15 1.15.15 1.16.15 1.17.13 1.18.10 1.19.13 "
                          "1.20.14 1.21.13 1.22.12 1.23.12 1.24.13 1.25.7 1.26.8 1.27.0").split()
ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
GO = shutil.which("go")


class Missing(Exception):
    """A toolchain that cannot be had here; the text says why."""


def program(name, variable):
    """The path of one that this does not build: what the variable of the environment says, else in bin below HOME
    or in PATH; None."""
    return os.environ.get(variable) or shutil.which(
        name, path=os.pathsep.join([os.path.join(HOME, "bin"), os.environ["PATH"]]))


def run(command, timeout=600, **options):
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, **options)
    if done.returncode:
        raise RuntimeError("%s: %s" % (" ".join(command), done.stderr[-2000:] or done.stdout[-2000:]))
    return done.stdout


def environment(version, **more):
    """Nothing of the user's own settings; no modules: the programs are in the standard library's terms."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("GO", "CGO"))}
    variables.update(GOENV="off", GOTOOLCHAIN="local", GO111MODULE="off", GOPATH=os.path.join(HOME, "path"),
                     GOCACHE=os.path.join(HOME, "cache-" + version), **more)
    return variables


def build_module(folder, name, package="."):
    """The path of a program of the module in that folder, whose go.mod and go.sum say all that it needs. An
    incremental build is quick, so it is always of the sources at hand."""
    if not GO:
        raise Missing("no go in PATH")
    output = os.path.join(HOME, "bin", name)
    variables = dict(os.environ, GOPATH=os.path.join(HOME, "path"), GOCACHE=os.path.join(HOME, "cache-modules"),
                     GOFLAGS="-modcacherw", GO111MODULE="on", CGO_ENABLED="0")
    try:
        run([GO, "build", "-trimpath", "-o", output, package], timeout=1800, cwd=folder, env=variables)
    except (RuntimeError, subprocess.TimeoutExpired) as error:
        raise Missing("%s cannot be built: %s" % (name, error)) from error
    return output


def make_executable(root):
    """Module archives carry no modes."""
    for folder in ("bin", os.path.join("pkg", "tool")):
        for path, _, names in os.walk(os.path.join(root, folder)):
            for name in names:
                file = os.path.join(path, name)
                os.chmod(file, os.stat(file).st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)


def download(version):
    module = "golang.org/toolchain@v0.0.1-go%s.linux-%s" % (version, ARCHITECTURE)
    variables = dict(os.environ, GOPATH=os.path.join(HOME, "path"), GOFLAGS="-modcacherw",
                     GOTOOLCHAIN="local", GO111MODULE="on")
    os.makedirs(HOME, exist_ok=True)
    try:
        answer = json.loads(run([GO, "mod", "download", "-json", module], env=variables, cwd=HOME))
    except (RuntimeError, subprocess.TimeoutExpired) as error:
        raise Missing("no toolchain go%s: %s" % (version, error)) from error
    make_executable(answer["Dir"])
    os.remove(answer["Zip"])
    return answer["Dir"]


class Toolchain:
    """root: the GOROOT of exactly that version."""

    def __init__(self, version):
        if not GO:
            raise Missing("no go in PATH")
        self.version = version
        self.root = os.path.join(HOME, "path", "pkg", "mod", "golang.org", "toolchain@v0.0.1-go%s.linux-%s"
                                 % (version, ARCHITECTURE))
        local = run([GO, "env", "GOROOT", "GOVERSION"], env=environment(version)).split()
        if local[1:] == ["go" + version]:
            self.root = local[0]
        elif not os.access(os.path.join(self.root, "bin", "go"), os.X_OK):
            self.root = download(version)

    def build(self, program, variant, *arguments, **variables):
        """The executable made of test/peers/go/PROGRAM."""
        output = os.path.join(HOME, "bin", self.version, "%s-%s" % (program, variant))
        variables = environment(self.version, GOROOT=self.root, **variables)
        run([os.path.join(self.root, "bin", "go"), "build", "-o", output, *arguments, "."], env=variables,
            cwd=os.path.join(PROGRAMS, program))
        return output

#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The shipped unit, started by systemd on stock Debian in an emulated machine.

    unit_boot.py BUILD DIRECTORY JUNIT [RELEASE ...]    RELEASE: bookworm, trixie; default: both

The machine has Debian's packages of systemd, Debian's kernel with its sysctls, and what `cmake --install`
installs, with its unit, accounts and configuration as they are. unit_check (in here) is what it does then.
DIRECTORY keeps the packages' root, kernels and logs. Libraries that the build is linked with and that
stock Debian lacks lie in /opt/lib.
"""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

import kernels
import runtime_files

HERE = os.path.dirname(os.path.abspath(__file__))
KERNELS = {"bookworm": "6.1", "trixie": "6.12"}
PACKAGES = "systemd-sysv,procps"
EXPOSURE_MAX = 3.8
GLIBC = re.compile(r"/(ld-linux|libc|libm|libresolv|libpthread|libdl|librt)\b")
SPARED = ["/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*", "/usr/share/info/*",
          "/usr/lib/udev/hwdb.d/*", "/usr/share/i18n/*"]


def make_root(release, directory):
    """Debian's packages alone, as a tar file."""
    path = os.path.join(directory, "root-%s.tar" % release)
    if not os.path.exists(path):
        spared = ["--dpkgopt=path-exclude=" + pattern for pattern in SPARED]
        kernels.run_tool("mmdebstrap", "--variant=minbase", "--format=tar", "--include=" + PACKAGES, *spared, release,
                         path + ".new", within_s=1200)
        os.rename(path + ".new", path)
    return path


def run_in(root, *command):
    return kernels.run_tool("chroot", root, *command)


def install_libraries(root, program):
    for library in runtime_files.libraries_of(program):
        if not GLIBC.search(library):
            kernels.put(root, library, "/opt/lib/" + os.path.basename(library))


def install(root, build):
    """What a package would do."""
    kernels.run_tool("env", "DESTDIR=" + root, "cmake", "--install", build, "--prefix", "/usr")
    install_libraries(root, os.path.join(build, "spanprof"))
    workload = "/usr/local/bin/kernel_workload"
    kernels.put(root, os.path.join(build, "test/kernel_workload_framed"), workload)
    kernels.put(root, os.path.join(HERE, "unit_check"), "/usr/local/bin/unit_check")
    kernels.put(root, os.path.join(HERE, "unit-check.service"), "/etc/systemd/system/unit-check.service")
    libraries = root + "/etc/systemd/system/spanprof.service.d"
    os.makedirs(libraries)
    with open(libraries + "/libraries.conf", "w") as file:
        file.write("[Service]\nEnvironment=LD_LIBRARY_PATH=/opt/lib\n")
    run_in(root, "systemd-sysusers")
    run_in(root, "systemctl", "enable", "spanprof.service", "unit-check.service")


def make_initramfs(release, build, directory):
    path = os.path.join(directory, "initramfs-" + release)
    with tempfile.TemporaryDirectory(dir=directory) as root:
        os.chmod(root, 0o755)
        kernels.run_tool("tar", "-C", root, "-xf", make_root(release, directory))
        install(root, build)
        for waste in ("/var/cache/apt", "/var/lib/apt", "/usr/share/zoneinfo", "/boot"):
            shutil.rmtree(root + waste, ignore_errors=True)
        os.symlink("/lib/systemd/systemd", root + "/init")
        with open(path, "wb") as archive:
            subprocess.run("find . | cpio -o -H newc --quiet", shell=True, cwd=root, stdout=archive, check=True)
    return path


def check_exposure(results, release, text):
    value = float(text.rsplit(" ", 1)[1])
    results.add(release, "exposure", "ok" if value <= EXPOSURE_MAX else "failed", text)


def follow(results, release, machine):
    ended = False
    for line in machine:
        if line is None:
            break
        if line == "ended":
            ended = True
        elif line.startswith("exposure "):
            check_exposure(results, release, line)
        else:
            kernels.add_line(results, release, line)
    results.add(release, "unit_check", "ok" if ended else "failed", "at %.0f s" % machine.age())
    if not ended:
        print(kernels.tail(machine.log), flush=True)


def run(results, release, build, directory):
    for tool in ("qemu-system-x86_64", "mmdebstrap", "cpio"):
        if not shutil.which(tool):
            raise kernels.Unavailable("there is no " + tool)
    image = kernels.kernel_image(KERNELS[release], directory)
    initramfs = make_initramfs(release, build, directory)
    machine = kernels.Machine(image, initramfs, os.path.join(directory, "unit-%s.log" % release),
                              memory_mib=3072, arguments="systemd.unit=multi-user.target SYSTEMD_COLORS=0")
    try:
        follow(results, release, machine)
    finally:
        machine.off()
        os.unlink(initramfs)


def main():
    build, directory, junit, *releases = sys.argv[1:]
    build, directory = os.path.abspath(build), os.path.abspath(directory)
    os.makedirs(directory, exist_ok=True)
    results = kernels.Results("unit")
    for release in releases or KERNELS:
        try:
            run(results, release, build, directory)
        except kernels.Unavailable as reason:
            results.add(release, "all", "skipped", str(reason))
    results.write(junit)
    return 1 if results.failed else 0


if __name__ == "__main__":
    sys.exit(main())

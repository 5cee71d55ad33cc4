#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""spanprof on Debian's kernels, each in an emulated machine, and on the one that runs here.

    kernels.py BUILD DIRECTORY JUNIT [--short | --runtimes] [KERNEL ...]
                                                               KERNEL: host, 6.1, 6.12; default: all

BUILD has spanprof and the tests, DIRECTORY keeps kernels and logs, JUNIT gets the outcomes. Each machine
boots with an initramfs of busybox, spanprof, kernel_check and (not with --short) the tests of the bpf
suite: nothing else is on it, and no module is loaded. unit_check is kernel_check with the capabilities of
the shipped unit, and so with what Debian asks for perf events. With --runtimes the machine has, instead of
tests, the stock Python, Java, Node, Ruby and PHP of this one; default: RUNTIMES_KERNEL. Emulated throughout:
no KVM is needed.
"""
import glob
import os
import queue
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import xml.etree.ElementTree as ElementTree

import runtime_files

HERE = os.path.dirname(os.path.abspath(__file__))
KERNELS = ("host", "6.1", "6.12")
CHECKS = ("unit_check", "runtimes_check")  # scripts
MACHINE_WITHIN_S = 1200 # from switching on to the last test
SILENT_S = 260          # longer than any test may take
CHECK_WITHIN_S = 240
LOG_TAIL = 40
RUNTIMES_KERNEL = "6.1"  # the oldest one
MEMORY_MIB, RUNTIMES_MEMORY_MIB = 1024, 3072
RUNTIMES_SILENT_S = 600  # a JVM starts in a minute there
PROGRAMS = ("spanprof", "test/kernel_check", "test/kernel_workload_framed",
            "test/kernel_workload_frameless")
# What the tests of the bpf suite run, load or look up, beside what they are linked with.
TEST_FILES = ("test/context_host", "test/*.so")
SYSTEM_FILES = ("/bin/sleep", "/bin/true", "/usr/bin/ip", "/usr/bin/setpriv", "/etc/passwd", "/etc/group", "/lib/*/libresolv.so.2")
# Tests that fail for what an emulated CPU is: each instruction takes its own time, so that ticks cost ten
# times as much of the CPU time that they measure, and the clocks of two CPUs do not agree.
NOT_EMULATED = {"test_periods_stay_true", "test_budget", "test_order_across_cpus"}


class Unavailable(Exception):
    """A kernel or a tool cannot be had here: its tests are skipped."""


class Results:
    """Printed as they come, written as JUnit at the end."""

    def __init__(self, name):
        self.suite = ElementTree.Element("testsuite", name=name)
        self.failed = False

    def add(self, kernel, step, outcome, text=""):
        print("%-8s %-7s %s%s" % (kernel, outcome, step, ": " + text if text else ""), flush=True)
        case = ElementTree.SubElement(self.suite, "testcase", name="%s.%s: %s" % (self.suite.get("name"), kernel, step))
        if outcome == "skipped":
            ElementTree.SubElement(case, "skipped", message=text)
        elif outcome != "ok":
            ElementTree.SubElement(case, "failure", message=text)
            self.failed = True

    def figure(self, kernel, text):
        print("%-8s %-7s %s" % (kernel, "", text), flush=True)

    def write(self, path):
        ElementTree.ElementTree(self.suite).write(path)


# ---- kernels ----

def by_version(name):
    return [int(number) for number in re.findall(r"\d+", name)]


def run_tool(*command, directory=".", within_s=300):
    """Its output; Unavailable with what it said last if it fails or is not there."""
    try:
        run = subprocess.run(command, cwd=directory, timeout=within_s, capture_output=True, text=True,
                             check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(str(error)) from error
    if run.returncode:
        raise Unavailable("%s: %s" % (command[0], (run.stderr.strip() or "?").splitlines()[-1]))
    return run.stdout


def packages_of(series):
    """The signed cloud kernels of the series that apt offers."""
    found = run_tool("apt-cache", "--names-only", "search", "^linux-image-.*-cloud-amd64$")
    return re.findall(r"^(linux-image-%s\.[0-9][^ ]*-cloud-amd64) " % re.escape(series), found, re.M)


def download(series, directory):
    if not packages_of(series):
        run_tool("apt-get", "-q", "update")
    packages = packages_of(series)
    if not packages:
        raise Unavailable("apt offers no linux-image-%s.*-cloud-amd64" % series)
    with tempfile.TemporaryDirectory(dir=directory) as place:
        run_tool("apt-get", "-q", "download", max(packages, key=by_version), directory=place)
        run_tool("dpkg-deb", "-x", glob.glob(place + "/*.deb")[0], place)
        shutil.move(glob.glob(place + "/boot/vmlinuz-*")[0], directory)


def kernel_image(series, directory):
    pattern = os.path.join(directory, "vmlinuz-%s.[0-9]*" % series)
    if not glob.glob(pattern):
        download(series, directory)
    return max(glob.glob(pattern), key=by_version)


# ---- initramfs ----

def bpf_tests(build):
    return sorted(os.path.basename(path) for path in glob.glob(build + "/test/test_bpf_*"))


def files_of(build, tests):
    """All that is copied, each to where it is here: tests know some paths by heart."""
    wanted = [os.path.join(build, name) for name in PROGRAMS]
    wanted += [os.path.join(build, "test", test) for test in tests if test not in CHECKS]
    for pattern in [os.path.join(build, name) for name in TEST_FILES] + list(SYSTEM_FILES):
        wanted += glob.glob(pattern)
    return set(wanted).union(*map(runtime_files.libraries_of, wanted))


def unit_capabilities():
    """Those of the shipped unit, as setpriv takes them."""
    with open(os.path.join(HERE, "../../packaging/spanprof.service")) as file:
        names = re.findall(r"CAP_(\w+)", " ".join(re.findall(r"^CapabilityBoundingSet=(.*)$", file.read(), re.M)))
    return ",".join(["-all", *("+" + name.lower() for name in names)])


def put(root, source, place):
    target = root + place
    os.makedirs(os.path.dirname(target), exist_ok=True)
    shutil.copy(source, target)


def make_initramfs(build, tests, path, more=()):
    """A cpio archive of a root directory; the kernel takes it as it is."""
    with tempfile.TemporaryDirectory() as root:
        os.chmod(root, 0o755)  # it becomes /
        for directory in ("proc", "sys", "dev", "run", "tmp"):
            os.mkdir(os.path.join(root, directory))
        os.chmod(os.path.join(root, "tmp"), 0o1777)
        put(root, shutil.which("busybox"), "/bin/busybox")
        put(root, os.path.join(HERE, "init"), "/init")
        put(root, os.path.join(HERE, "runtimes_check"), "/runtimes_check")
        for file in files_of(build, tests).union(more):
            put(root, file, file)
        with open(root + "/unit_capabilities", "w") as file:
            file.write(unit_capabilities())
        with open(root + "/tests", "w") as file:
            file.writelines(test + "\n" for test in tests)
        with open(path, "wb") as archive:
            subprocess.run("find . | cpio -o -H newc -R 0:0 --quiet", shell=True, cwd=root, stdout=archive,
                           check=True)


# ---- machines ----

class Machine:
    """One emulated machine; what it says on its second serial port comes as lines."""

    def __init__(self, image, initramfs, log, memory_mib, arguments, silent_s=SILENT_S):
        self.log, self.silent_s = log, silent_s
        self.started = time.monotonic()
        self.lines = queue.Queue()
        self.process = subprocess.Popen(
            ["qemu-system-x86_64", "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2",
             "-m", str(memory_mib), "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
             "-kernel", image, "-initrd", initramfs, "-serial", "file:" + log, "-serial", "stdio",
             "-append", "console=ttyS0 rdinit=/init panic=-1 " + arguments],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, errors="replace")
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.put(line.strip())
        self.lines.put(None)

    def __iter__(self):
        """Lines until it is off; None if it hangs."""
        while True:
            left = self.started + MACHINE_WITHIN_S - time.monotonic()
            try:
                line = self.lines.get(timeout=max(0, min(left, self.silent_s)))
            except queue.Empty:
                yield None
                return
            if line is None:
                return
            yield line

    def age(self):
        return time.monotonic() - self.started

    def off(self):
        self.process.kill()
        self.process.wait()

    def failed_in(self, test):
        """The tests of a program that failed, by its report on the console."""
        with open(self.log, errors="replace") as file:
            report = file.read().rpartition("== %s\n" % test)[2]
        return set(re.findall(r"^\[  FAILED  \] (\w+)$", report, re.M))


def tail(log):
    with open(log, errors="replace") as file:
        return "".join(file.readlines()[-LOG_TAIL:])


def add_end(results, kernel, name, status, seconds):
    outcome = {0: "ok", 77: "skipped"}.get(status, "failed")
    results.add(kernel, name, outcome, "exit %d, at %.1f s" % (status, seconds))


def add_line(results, kernel, line):
    """What kernel_check says, a line a step."""
    word, _, rest = line.partition(" ")
    step, _, text = rest.partition(": ")
    if word in ("ok", "failed", "skipped"):
        results.add(kernel, step, word, text)
    elif word == "figure":
        results.figure(kernel, rest)


def in_machine(results, series, tests, switch_on):
    """switch_on: makes the machine for the tests that it is given."""
    for is_last in (False, True):
        machine = switch_on(tests)
        try:
            tests = follow(results, series, machine, tests, is_last)
        finally:
            machine.off()
        if not tests:
            return


def run_machine(results, series, build, directory, tests):
    image = kernel_image(series, directory)

    def switch_on(left):
        initramfs = os.path.join(directory, "initramfs")
        make_initramfs(build, left, initramfs)
        return Machine(image, initramfs, os.path.join(directory, series + ".log"), MEMORY_MIB, "BUILD=" + build)
    in_machine(results, series, ["kernel_check", "unit_check", *tests], switch_on)


def run_runtimes(results, series, build, directory):
    """Stock runtimes, whose frames the oldest kernel's BPF must walk."""
    image = kernel_image(series, directory)
    initramfs, programs = (os.path.join(directory, name) for name in ("initramfs_runtimes", "programs"))
    os.makedirs(programs, exist_ok=True)
    try:
        make_initramfs(build, ["runtimes_check"], initramfs, runtime_files.files(programs))
    except runtime_files.Missing as reason:
        raise Unavailable(str(reason)) from reason

    def switch_on(_):
        return Machine(image, initramfs, os.path.join(directory, series + "_runtimes.log"), RUNTIMES_MEMORY_MIB,
                       "BUILD=%s PROGRAMS=%s JAVA=%s" % (build, programs, runtime_files.java()), RUNTIMES_SILENT_S)
    in_machine(results, series, ["runtimes_check"], switch_on)


def follow(results, kernel, machine, tests, is_last):
    """Tests that failed, for another try unless it is_last: they and spanprof have seconds for what takes
    an emulated CPU many when others use the real ones."""
    left, said = ["boots", *tests], []
    for line in machine:
        if line is None:
            break
        word, _, rest = line.partition(" ")
        if word == "booted":
            results.add(kernel, "boots", "ok", "%s in %.1f s" % (rest, machine.age()))
            left.remove("boots")
        elif word == "ended":
            name, status = rest.split()
            if ended(results, kernel, machine, name, int(status), said, is_last):
                left.remove(name)
            said = []
        else:
            said.append(line)
    if is_last or "boots" in left:
        for name in left:
            results.add(kernel, name, "failed", "it never ended")
        return []
    return left


def ended(results, kernel, machine, name, status, said, is_last):
    """False if it is to be tried again. The exit status of a test is the number of its cases that failed."""
    excused = machine.failed_in(name) & NOT_EMULATED if status != 77 else set()
    status -= len(excused)
    if status not in (0, 77):
        print(tail(machine.log), flush=True)
        if not is_last:
            for line in [*said, "%s: exit %d, is tried again" % (name, status)]:
                results.figure(kernel, line)
            return False
    for line in said:
        add_line(results, kernel, line)
    for test in sorted(excused):
        results.add(kernel, test, "skipped", "it failed, as it may on an emulated CPU")
    add_end(results, kernel, name, status, machine.age())
    return True


def run_host(results, build, directory):
    started = time.monotonic()
    log = os.path.join(directory, "host.log")
    with tempfile.TemporaryDirectory() as place, open(log, "w") as errors:
        os.chmod(place, 0o711)  # the service is not root
        run = subprocess.run([os.path.join(build, "test/kernel_check"), os.path.join(build, "spanprof"),
                              os.path.join(build, "test"), place], timeout=CHECK_WITHIN_S,
                             stdout=subprocess.PIPE, stderr=errors, text=True, check=False)
    for line in run.stdout.splitlines():
        add_line(results, "host", line)
    add_end(results, "host", "kernel_check", run.returncode, time.monotonic() - started)
    if run.returncode not in (0, 77):
        print(tail(log), flush=True)


def need_tools():
    for tool in ("qemu-system-x86_64", "busybox", "cpio"):
        if not shutil.which(tool):
            raise Unavailable("there is no " + tool)


def run_kernel(results, kernel, build, directory, option):
    try:
        if kernel != "host":
            need_tools()
        if option == "--runtimes":
            run_runtimes(results, kernel, build, directory)
        elif kernel == "host":
            run_host(results, build, directory)
        else:
            run_machine(results, kernel, build, directory, [] if option == "--short" else bpf_tests(build))
    except Unavailable as reason:
        results.add(kernel, "all", "skipped", str(reason))


def main():
    build, directory, junit, *kernels = sys.argv[1:]
    build, directory = os.path.abspath(build), os.path.abspath(directory)
    option = next((word for word in kernels if word.startswith("--")), None)
    os.makedirs(directory, exist_ok=True)
    results = Results("kernels")
    default = [RUNTIMES_KERNEL] if option == "--runtimes" else KERNELS
    for kernel in [kernel for kernel in kernels if kernel != option] or default:
        run_kernel(results, kernel, build, directory, option)
    results.write(junit)
    return 1 if results.failed else 0


if __name__ == "__main__":
    sys.exit(main())

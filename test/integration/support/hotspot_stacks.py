# SPDX-License-Identifier: Apache-2.0
"""Stacks of a JVM: what hotspot_inspect says, and what the JVM's own jstack does."""
import collections
import os
import re
import shutil
import subprocess

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
INSPECT, TICKS, STEPS = (os.path.join(os.environ["SPANPROF_BUILD_DIR"], "test", "hotspot_" + name)
                         for name in ("inspect", "ticks", "steps"))
PROGRAMS = os.path.join(SOURCE, "test", "peers", "java")
SECONDS = 60
TRIES = 10

# jstack leaves frames out that the JVM made for itself.
HIDDEN = re.compile(r"LambdaForm|\$\$Lambda|\$Holder\.|\.enterSpecial$|\.linkToTargetMethod$")

Line = collections.namedtuple("Line", "function file line kind")
Frame = collections.namedtuple("Frame", "kind outcome lines")


class Stack:
    def __init__(self, tid, end):
        self.tid, self.end, self.frames, self.code = tid, end, [], ""

    def complete(self):
        return self.end == 0

    def lines(self):
        """Those of methods, innermost first."""
        return [line for frame in self.frames for line in frame.lines if frame.kind in ("compiled", "interpreted")]

    def functions(self):
        return [line.function for line in self.lines()]


def inspect(mode, pid, *arguments):
    done = subprocess.run([INSPECT, mode, str(pid), *map(str, arguments)], capture_output=True, text=True, check=True,
                          timeout=5 * SECONDS)
    stacks = []
    for text in done.stdout.splitlines():
        fields = text.split("\t")
        if fields[0] == "thread":
            stacks.append(Stack(int(fields[1]), int(fields[2])))
        elif fields[0] == "native":
            stacks[-1].frames.append(Frame("native", "", []))
        elif fields[0] == "line":
            frame = stacks[-1].frames[-1]
            frame.lines.append(Line(fields[1], fields[2], int(fields[3]), frame.kind))
        elif fields[0] == "code":
            stacks[-1].code = fields[1]
        else:
            stacks[-1].frames.append(Frame(fields[0], fields[1], []))
    return stacks


def ticks(pid, seconds, hz, *functions):
    """Numbers by name, as the sampler's stacks are; None: it may not sample."""
    done = subprocess.run([TICKS, str(pid), str(seconds), str(hz), *functions], capture_output=True, text=True,
                          timeout=seconds + SECONDS)
    if done.returncode == 77:
        return None
    return {name: int(number) for name, number in re.findall(r"(\w+) (\d+)\b", done.stdout)}


def steps(pid):
    """By stub: its instructions that ran, and a text for each whose caller was not found."""
    done = subprocess.run([STEPS, str(pid)], capture_output=True, text=True, check=True, timeout=20 * SECONDS)
    stubs = collections.defaultdict(lambda: [0, []])
    for text in done.stdout.splitlines():
        _, wrong, name, *place = text.split("\t")
        stubs[name][0] += 1
        stubs[name][1] += place and [name + " " + " ".join(place)] if int(wrong) else []
    return stubs


def normal(function):
    """A method as jstack prints it: without module, and without what is different in each process."""
    function = re.sub(r"^[\w.@-]+@[\w.+-]+/", "", function)
    function = re.sub(r"(\$\$Lambda)(\$\d+)?[/+]0x[0-9a-f]+", r"\1", function)
    return re.sub(r"[/+]0x[0-9a-f]+", "", function)


def jstack(java, pid):
    """By thread id: name and methods, as (function, "File.java:12" or "Native Method" ...)."""
    tool = os.path.join(os.path.dirname(os.path.realpath(java)), "jstack")
    done = subprocess.run([tool, str(pid)], capture_output=True, text=True, check=True, timeout=SECONDS)
    threads, methods = {}, None
    for text in done.stdout.splitlines():
        head = re.match(r'^"(.*)".* nid=(\w+)', text)
        if head:
            methods = []
            threads[int(head.group(2), 0)] = (head.group(1), methods)
        elif text.startswith('"'):
            methods = None
        method = re.search(r"\tat (.*)\((.*)\)$", text)  # 17 writes no line break behind "eliminated"
        if method and methods is not None:
            place = re.sub(r"^[\w.@-]+@[\w.+-]+/", "", method.group(2))
            methods.append((normal(method.group(1)), place))
    return threads


def places(stacks):
    return {stack.tid: [(line.function, line.line) for line in stack.lines()] for stack in stacks}


def threads(java, pid):
    """What jstack says of a JVM that waits, and what we do, once nothing has moved in between."""
    for _ in range(TRIES):
        stacks, theirs = inspect("threads", pid), jstack(java, pid)
        if places(inspect("threads", pid)) == places(stacks):
            break
    return theirs, stacks


def same(theirs, ours):
    function, place = theirs
    if function != ours.function:
        return False
    if ":" not in place:
        return ours.line == 0
    file, line = place.rsplit(":", 1)
    return (file, int(line)) == (os.path.basename(ours.file), ours.line)


def differences(threads, stacks):
    """Methods that were equal, and a text for each that was not."""
    equal, different = 0, []
    ours = {stack.tid: stack for stack in stacks}
    for tid, (name, methods) in threads.items():
        if not methods:
            continue
        rest = ours[tid].lines() if tid in ours else []
        for method in methods:
            while rest and not same(method, rest[0]) and HIDDEN.search(rest[0].function):
                rest = rest[1:]
            if rest and same(method, rest[0]):
                equal += 1
            else:
                different.append("%s: %s, not %s" % (name, rest[0] if rest else None, method))
            rest = rest[1:]
        different += ["%s: %s is too much" % (name, line) for line in rest if not HIDDEN.search(line.function)]
    return equal, different


class Programs:
    """The programs of test/peers/java, compiled for all versions from 11 on."""

    def __init__(self, directory, javac=None):
        self.directory, self.javac = directory, javac or shutil.which("javac")
        self.running = []

    def compile(self):
        sources = [os.path.join(PROGRAMS, name + ".java")
                   for name in ("Deopt", "Intrinsics", "Natives", "Stacks", "Unload", "Virtual")]
        subprocess.run([self.javac, "--release", "11", "-g", "-d", self.directory, *sources], check=True,
                       capture_output=True, timeout=SECONDS)

    def library(self):
        """What Natives calls, without unwind tables. None: there is no compiler, or the JDK has no headers."""
        headers = os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(self.javac))), "include")
        if not os.path.isdir(headers) or not shutil.which("cc"):
            return None
        path = os.path.join(self.directory, "libnatives.so")
        subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-fomit-frame-pointer", "-fno-asynchronous-unwind-tables",
                        "-fno-unwind-tables", "-I" + headers, "-I" + os.path.join(headers, "linux"), "-o", path,
                        os.path.join(PROGRAMS, "natives.c")], check=True, timeout=SECONDS)
        return path

    def start(self, java, flags, *arguments):
        """A process that has said it waits; None: this JVM has not these flags."""
        process = subprocess.Popen([java, *flags, "-cp", self.directory, *arguments], stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True)
        self.running.append(process)
        for text in process.stdout:
            if "waiting" in text:
                return process
        return None

    def end(self):
        for process in self.running:
            process.kill()
            process.wait()
            process.stdout.close()
        self.running = []

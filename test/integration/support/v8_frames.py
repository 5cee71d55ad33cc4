# SPDX-License-Identifier: Apache-2.0
"""Stacks of Node by v8_walk (test/support/programs/v8_walk.c), beside what V8 itself says of them."""
import collections
import json
import os
import subprocess
import time

import harness

PROGRAMS = os.path.join(harness.SOURCE, "test", "support", "runtimes", "v8")
WALK = os.path.join(harness.BUILD, "test", "v8_walk")

Call = collections.namedtuple("Call", "function file line column how")


class Sample:
    """calls: of JavaScript, innermost first; outcomes: of frames of V8; end: why the walk ended. later: frames by what
    they were named some time after; poorer: their code was gone, so line and inlined calls were, too."""

    def __init__(self):
        self.calls, self.outcomes, self.later = [], collections.Counter(), collections.Counter()
        self.end, self.requests, self.different = None, 0, []


def walk(tid, samples=1, *times_us):
    """Samples of the thread."""
    done = subprocess.run([WALK, str(tid), str(samples), *map(str, times_us)], check=False, capture_output=True,
                          text=True, timeout=600)
    found, sample, how = [], Sample(), ""
    for line in done.stdout.splitlines():
        fields = line.split("\t")
        if fields[0] == "later":
            found[-1].later.update({name: int(count) for name, count in (field.split() for field in fields[1:])})
        elif fields[0] in ("different", "---"):
            found[-1].different.append(line)
        elif line.startswith("\t"):
            sample.calls.append(Call(fields[1], fields[2], int(fields[3]), int(fields[4]), how))
        elif fields[0] == "end":
            sample.end, sample.requests = fields[1], int(fields[3].split()[0])
            found.append(sample)
            sample = Sample()
        elif fields[0].startswith("v8"):
            how = fields[0]
            sample.outcomes[fields[1]] += 1
    return found


class Node:
    """A program of test/support/runtimes/v8 on a Node; it ends with the test."""

    def __init__(self, test, command, program, *arguments, flags=()):
        self.process = subprocess.Popen([*command, *flags, os.path.join(PROGRAMS, program), *arguments],
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        test.addCleanup(self.stop)

    def stop(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def told(self):
        """The stack as V8 tells it: calls that are not V8's own."""
        line = self.process.stdout.readline()
        return [(site["function"], site["file"] or "", site["line"], site["column"])
                for site in json.loads(line) if site["line"] is not None and not site["async"]]

    def started(self):
        """It runs outer()."""
        harness.wait_until(lambda: any(call.function == "outer" for sample in walk(self.process.pid)
                                       for call in sample.calls), 20, "its start")

    def waiting(self):
        """The sample of the thread that waits in the program."""
        time.sleep(0.2)
        for tid in sorted(map(int, os.listdir("/proc/%d/task" % self.process.pid))):
            for sample in walk(tid):
                if any(call.function == "outer" for call in sample.calls):
                    return sample
        return None


def differences(told, calls):
    """What is not equal. A name that V8 makes at run time, of a receiver or a symbol, is not in memory. The innermost
    function waits in the line behind the one in which it told."""
    found = [call for call in calls if call.file or call.line]
    wrong = []
    if told and found:
        told = [(*told[0][:2], told[0][2] + 1, found[0].column), *told[1:]]
    for i in range(max(len(told), len(found))):
        here = told[i] if i < len(told) else None
        ours = found[i] if i < len(found) else None
        made = here and (not here[0] or here[0] == "eval" or here[0].startswith("["))
        if not here or not ours or here[1:] != ours[1:4] or (
                not made and here[0].removeprefix("get ") != ours.function):
            wrong.append((here, ours))
    return wrong

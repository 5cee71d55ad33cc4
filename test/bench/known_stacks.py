# SPDX-License-Identifier: Apache-2.0
"""Stacks of test/support/loads/phases.*: what can be true of them is read from the text of the load, and each stack
that a profiler told is judged by that, whichever profiler it was.

A frame of the load is judged by its function, by its line, and by the frame that it called. Frames of the runtime's own
library may lie outside the outermost one, inside the innermost one, and where the text says that a library calls
(`calls NAME` in a comment); they are not judged. Kernel frames, native frames and frames without a file do not count.
"""
import collections
import os
import re

LOADS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support", "loads")
DEPTH = 24
TOP = "(top)"  # what the text outside all functions is, if the runtime has a frame for it

Frame = collections.namedtuple("Frame", "function file line")


class Language:
    """kind: profile.frame.type. is_root(frame, name): whether there is no frame of the language outside this one."""

    def __init__(self, kind, load, definition, is_root):
        self.kind, self.path, self.is_root = kind, os.path.join(LOADS, load), is_root
        self.truth = Truth(self.path, definition)


class Truth:
    """functions: name -> its lines. calls: (caller, called) -> lines of the caller. through: those of them that a
    library makes. recursive: functions that come DEPTH + 1 times, together."""

    def __init__(self, path, definition):
        self.file, self.functions = os.path.basename(path), {}
        self.calls, self.through = collections.defaultdict(set), set()
        with open(path) as file:
            lines = dict(enumerate(file.read().split("\n"), 1))
        for number, line in lines.items():
            found = re.match(definition, line)
            if found:
                self.functions[found.group(1)] = range(number, function_end(lines, number))
        inside = {number for own in self.functions.values() for number in own}
        self.functions[TOP] = [number for number in lines if number not in inside]
        for name, own in self.functions.items():
            for number in own[name != TOP:]:
                self._find_calls(name, number, lines[number])
        self.recursive = {name for name in self.functions if name in self.reached(name)}

    def _find_calls(self, caller, number, line):
        code, _, told = line.partition("calls ")
        for called in self.functions:
            if called in told.split():
                self.through.add((caller, called))
            elif not re.search(r"(?<![.\w])%s\(" % re.escape(called), code):
                continue
            self.calls[caller, called].add(number)

    def reached(self, name):
        """All that it calls, and that these call."""
        found, todo = set(), [name]
        while todo:
            caller = todo.pop()
            new = {called for who, called in self.calls if who == caller} - found
            found |= new
            todo += new
        return found


def function_end(lines, start):
    """The line behind it: of the text that is indented no more than its first line, but for a bracket."""
    indent = re.match(" *", lines[start]).group()
    return next((number for number in range(start + 1, len(lines) + 1)
                 if re.match(indent + r"[^\s})]", lines[number])), len(lines) + 1)


def plain_name(function):
    """`int Phases.burn(long)`, `Phases.burn` and `burn` are one; text outside all functions has several names."""
    name = function.split("(")[0].split(" ")[-1].rpartition(".")[2]
    return name if re.fullmatch(r"\w+", name) else TOP


class Verdict:
    """frames: of the load. names, lines: how many of them are wrong. no_lines: how many have none. whole: none is
    missing, out to the language's outermost one. other_time: it is a stack of another phase: stale, or the profiler's
    clock is off. faults: what is not as it should be, in words."""

    def __init__(self):
        self.frames = self.names = self.lines = self.no_lines = 0
        self.whole, self.other_time, self.faults = True, False, []

    def fault(self, why, names=0, lines=0, whole=True):
        self.names += names
        self.lines += lines
        self.whole = self.whole and whole
        self.faults.append(("name: " if names else "line: " if lines else "not whole: ") + why)


def judge(language, frames, phase):
    """frames: of the language, innermost first, inlined ones too. phase: the function that ran then."""
    truth, verdict = language.truth, Verdict()
    frames = [frame for frame in frames if frame.file]
    own = [(at, frame, plain_name(frame.function)) for at, frame in enumerate(frames)
           if os.path.basename(frame.file) == truth.file]
    verdict.frames = len(own)
    for _, frame, name in own:
        if name not in truth.functions:
            verdict.fault("no such function: %s" % frame.function, names=1)
    judge_lines(truth, own, verdict)
    for inner, outer in zip(own, own[1:]):
        judge_call(truth, inner, outer, verdict)
    names = [name for _, _, name in own]
    if not own or not language.is_root(frames[-1], plain_name(frames[-1].function)) or "main" not in names:
        verdict.fault("outermost: %s" % (frames[-1] if frames else None,), whole=False)
    elif phase not in names:
        verdict.other_time = True
        verdict.faults.append("%s ran, and it is not there" % phase)
    judge_depth(truth, names, verdict)
    return verdict


def judge_lines(truth, own, verdict):
    verdict.no_lines = sum(not frame.line for _, frame, _ in own)
    if own and own[0][1].line and own[0][1].line not in truth.functions.get(own[0][2], (own[0][1].line,)):
        verdict.fault("innermost: %s" % (own[0][1],), lines=1)
    for (_, _, called), (_, frame, caller) in zip(own, own[1:]):
        lines = truth.calls.get((caller, called))
        if lines and frame.line and frame.line not in lines:
            verdict.fault("call of %s: %s" % (called, frame), lines=1)


def judge_call(truth, inner, outer, verdict):
    (at, frame, called), (at_outer, caller_frame, caller) = inner, outer
    if caller not in truth.functions or called not in truth.functions:
        return
    if (caller, called) not in truth.calls:
        missing = called in truth.reached(caller)
        verdict.fault("%s cannot call %s" % (caller_frame, frame), names=not missing, whole=False)
    elif at_outer - at > 1 and (caller, called) not in truth.through:
        verdict.fault("something between %s and %s" % (caller_frame, frame), names=1)


def judge_depth(truth, names, verdict):
    depth = sum(name in truth.recursive for name in names)
    below = names and names[0] not in truth.recursive and depth
    if depth > DEPTH + 1:
        verdict.fault("%d deep" % depth, names=depth - DEPTH - 1, whole=False)
    elif below and depth != DEPTH + 1:
        verdict.fault("%d deep" % depth, whole=False)


LANGUAGES = {
    "python": Language("cpython", "phases.py", r"def (\w+)\(", lambda frame, name: name == TOP),
    "java": Language("jvm", "Phases.java", r" +(?:public |static )+[\w\[\]]+ (\w+)\(",
                     lambda frame, name: name == "main"),
    "node": Language("v8js", "phases.js", r"function (\w+)\(",
                     lambda frame, name: frame.file.startswith("node:internal/main/")),
}

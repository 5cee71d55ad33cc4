# SPDX-License-Identifier: Apache-2.0
"""Programs whose stacks are known (test/support/stacks), and whether exported stacks are exactly those.

A stack is written as words, leaf first: functions of the program by their names, each ended by a
blank; frames of libraries, also of static ones, as @MODULE:NAME; kernel frames as k:NAME; why it
was cut short as !REASON.
"""
import bisect
import collections
import os
import re
import subprocess

import harness

DIRECTORY = os.path.join(harness.BUILD, "test", "stacks")
BELOW_MAIN = {"glibc": "@ @__libc_start_main _start", "musl": "@musl_start* _start? !?"}
MUSL_START = "(?:libc_start_main_stage2|__libc_start_main|_start_c)"


class Expected:
    """One mode: words as in the module's comment; beside them NAME*N, `@` one frame of a library,
    `@+` some, `@NAME` one whose name begins so, `k+` some kernel frames, `~` any of these
    or none; `...` what calls main(), `!?` cut short or not."""

    def __init__(self, words, leaf=None, musl=True, frame_pointer=True, has=None):
        self.words = words.split()
        self.leaf = re.compile(leaf or re.escape(self.words[0]) + " ")  # of what is judged
        self.has = has  # a kernel function that is in all that is judged
        self.musl = musl  # without libc's unwind information, which musl has not
        self.frame_pointer = frame_pointer  # also if the program has them

    def is_for(self, program):
        return ((program.libc != "musl" or self.musl)
                and (program.name != "O2_frame_pointer" or self.frame_pointer))

    def functions(self):
        return {word.split("*")[0] for word in self.words if word[0] not in "@.k"}

    def pattern(self, libc):
        words = []
        for word in self.words:
            words += BELOW_MAIN[libc].split() if word == "..." else [word]
        return re.compile("".join(word_pattern(word) for word in words))


def word_pattern(word):
    name, _, times = word.partition("*")
    if word == "@":
        return r"@\S+ "
    if word in ("@+", "k+"):
        return r"(?:%s\S+ ){1,40}" % re.escape(word[0] + (":" if word[0] == "k" else ""))
    if word == "~":
        return r"(?:[@k]\S+ )*"
    if word == "!?":
        return r"(?:!\S+ )?"
    if word == "@musl_start*":
        return r"(?:@\S+:%s )*" % MUSL_START
    if word.endswith("?"):
        return "(?:%s )?" % word[:-1]
    if word.startswith("@"):
        return r"@\S+:_*%s\S* " % re.escape(word[1:].lstrip("_"))
    return "(?:%s ){%s}" % (re.escape(name), times or 1)


MODES = {
    "plain": Expected("burn plain main ..."),
    "recursion": Expected("burn descend*300 recursion main ..."),
    "moving_stack": Expected("burn with_alloca with_array with_aligned moving_stack main ..."),
    "tail_call": Expected("burn tail_called tail_call main ..."),
    "indexed": Expected("spin_indexed indexed main ..."),
    "leaf": Expected("spin spin_long leaf main ..."),
    "through_library": Expected("burn compare @+ through_library main ...", musl=False),
    "through_no_info": Expected("burn without_unwind_info through_no_info main ..."),
    "generated": Expected("burn @ generated main ..."),
    "thread": Expected("burn on_thread @ @", musl=False),
    # Nothing tells that it is the first: unwind information of glibc's makecontext() goes on.
    "coroutine": Expected("burn in_coroutine @ !?", musl=False, frame_pointer=False),
    "in_handler": Expected("burn on_signal @ interrupted in_handler main ...", musl=False),
    "in_handler_on_other_stack": Expected(
        "burn on_signal @ interrupted in_handler_on_other_stack main ...", musl=False),
    "in_handler_of_call": Expected("burn on_signal @ @kill in_handler_of_call main ...", musl=False),
    "in_handler_in_handler": Expected(
        "burn on_signal @ @kill on_first_signal @ interrupted in_handler_in_handler main ...",
        musl=False),
    "in_handler_at_entry": Expected(
        "burn on_trap @ trap_at_entry in_handler_at_entry main ...", musl=False),
    "in_kernel": Expected("k+ @read in_kernel main ...", has="vfs_read", musl=False),
    "in_vdso": Expected("@ @clock_gettime in_vdso main ...", leaf=r"@(\[vdso\]|\?):", musl=False),
}
# With what burn() itself calls.
BURNING = Expected("~ burn plain main ...", leaf=r".*\bburn ")
UNOPTIMIZED = {"tail_call": Expected("burn tail_called tail_caller tail_call main ...")}
CPP_MODES = {
    "in_catch": Expected("burn in_catch main ..."),
    "in_unwinding": Expected("burn Guard::~Guard guarded in_unwinding main ..."),
    "in_end_of_catch": Expected("burn Error::~Error @+ in_end_of_catch main ..."),
    "in_catch_in_catch": Expected("burn in_catch in_catch_in_catch main ..."),
    "in_search": Expected("burn on_terminate @+ throwing*3 never_throws in_search main ..."),
}
TOO_DEEP = "descend"
OWN = set().union(*(mode.functions() for mode in (*MODES.values(), *UNOPTIMIZED.values(),
                                                   *CPP_MODES.values())))
OWN |= {"%s_%s" % (library, function) for library in ("alpha", "beta")
        for function in ("burn", "inner", "run")}
OWN |= {"_start", "too_deep", "forking", "in_parent", "in_child", "plugin", "mapped_over"}


def plain_name(name):
    """Without arguments, namespaces without names, and which part of the function it is."""
    name = name.replace("(anonymous namespace)::", "").replace(" [clone .cold]", "")
    return re.sub(r"\.(cold|part\.\d+|constprop\.\d+)$", "", name.split("(")[0])


class Symbols:
    """Functions of a file by address, as binutils sees them."""

    def __init__(self, path):
        listing = subprocess.run(["nm", "-C", "-n", "-S", "--defined-only", path], check=True,
                                 capture_output=True, text=True).stdout
        found = re.findall(r"^([0-9a-f]+)(?: ([0-9a-f]+))? [tTwWi] (.*)$", listing, re.M)
        self.table = [(int(start, 16), int(size, 16) if size else 1, plain_name(name))
                      for start, size, name in found]
        self.starts = [start for start, _, _ in self.table]

    def at(self, address):
        """All names of the innermost function there."""
        index = bisect.bisect_right(self.starts, address)
        start = self.starts[index - 1] if index else None
        names = []
        while index and self.starts[index - 1] == start:
            index -= 1
            names += [self.table[index][2]] if address < start + self.table[index][1] else []
        return names

    def address_of(self, name):
        return next(start for start, _, own in self.table if own == name)


class Program:
    """A variant: its file, and where its symbols are."""

    def __init__(self, name, symbols=None, libc=None):
        self.name = name
        self.path = os.path.join(DIRECTORY, name)
        self.symbols = Symbols(os.path.join(DIRECTORY, symbols or name))
        self.libc = libc or ("musl" if name in ("musl_static", "debug_frame") else "glibc")
        self.has_names = symbols is None
        self.words = {}

    def word(self, frame):
        key = (frame.mapping, frame.address, frame.function)
        if key not in self.words:
            self.words[key] = self._word(frame)
        return self.words[key]

    def _word(self, frame):
        if frame.kind == "kernel":
            return "k:%s " % frame.function
        module = os.path.basename(frame.mapping.replace(" (deleted)", "")) or "?"
        if not self.is_own(frame):
            return "@%s:%s " % (module, frame.function)
        names = self.symbols.at(frame.address)
        own = next((name for name in names if name in OWN), None)
        return own + " " if own else "@%s:%s " % (module, names[0] if names else "?")

    def is_own(self, frame):
        return os.path.basename(frame.mapping.replace(" (deleted)", "")) == os.path.basename(self.path)

    def has_wrong_name(self, frame):
        """Another than the symbol table's."""
        if not self.is_own(frame) or frame.kind == "kernel" or not frame.function:
            return False
        return plain_name(frame.function) not in self.symbols.at(frame.address)

    def lacks_name(self, frame):
        return (self.has_names and self.is_own(frame) and not frame.function
                and bool(self.symbols.at(frame.address)))


class Layers:
    """A program and libraries of it, as one."""

    def __init__(self, program, libraries):
        self.programs = [*libraries, program]
        self.libc = program.libc

    def of(self, frame):
        return next((p for p in self.programs if p.is_own(frame)), self.programs[-1])

    def word(self, frame):
        return self.of(frame).word(frame)

    def has_wrong_name(self, frame):
        return self.of(frame).has_wrong_name(frame)

    def lacks_name(self, frame):
        return self.of(frame).lacks_name(frame)


def programs_of(names):
    return [Program(name, symbols="O2" if name == "stripped" else None) for name in names
            if os.path.exists(os.path.join(DIRECTORY, name))]


class Run:
    """A program that burns CPU time once it is told to go."""

    def __init__(self, program, mode, *more, ms, command=None):
        self.title = "%s %s" % (program.name, mode)
        self.program = program
        self.process = subprocess.Popen(
            command or [program.path, mode, str(ms), *more], text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.pid = self.process.pid
        self.output = ""

    def ready(self):
        while "ready" not in self.output:
            line = self.process.stdout.readline()
            if not line:
                raise RuntimeError("%s ended with %s" % (self.title, self.process.wait()))
            self.output += line
        return self

    @property
    def burned_ns(self):
        """In burn(), by all processes."""
        return sum(int(ns) for ns in re.findall(r"^burned (\d+)", self.output, re.M))

    def begin(self):
        """It goes, and is not waited for: go() does."""
        self.process.stdin.close()
        self.process.stdin = None
        return self

    def go(self):
        output, _ = self.process.communicate(timeout=60 * harness.SLOWNESS)
        self.output += output
        if self.process.returncode != 0:
            raise RuntimeError("%s ended with %d" % (self.title, self.process.returncode))
        return self


def wait_sampling(spanprof, run):
    """Until run(), a program that is sampled, gives samples: others may be filtered out."""
    def sampled():
        run()
        return spanprof.metric("spanprof_samples_total") > 0
    harness.wait_until(sampled, 20, "samples come in")


class Verdict:
    """Of the samples of one run whose leaf is the known one."""

    def __init__(self, title):
        self.title = title
        self.n = self.right = self.wrong_names = self.unnamed = 0
        self.others = collections.Counter()

    def add(self, sample, text, good, program):
        count = sample.count()
        self.n += count
        self.right += count if good else 0
        wrong = [frame for frame in sample.frames if program.has_wrong_name(frame)]
        self.wrong_names += count * bool(wrong)
        self.unnamed += count * any(program.lacks_name(frame) for frame in sample.frames)
        if wrong:
            self.others["%#x is not %s" % (wrong[0].address, wrong[0].function)] += count
        if not good:
            self.others[text] += count

    def is_good(self, least):
        return (self.n >= least and self.right >= 0.99 * self.n and self.wrong_names == 0
                and self.unnamed <= 0.01 * self.n)

    def __str__(self):
        shown = "".join("\n    %d x %s" % (count, text if len(text) < 600 else
                                           "%s ... %s" % (text[:300], text[-300:]))
                        for text, count in self.others.most_common(3))
        return "%s: %d of %d exact, %d with wrong names, %d with names missing%s" % (
            self.title, self.right, self.n, self.wrong_names, self.unnamed, shown)


def is_judged(expected, sample, words):
    if any(word.startswith("@ld-") and "_dl_map_object" in word for word in words):
        return False  # the program is still being loaded
    if expected.has:
        return any(frame.kind == "kernel" and frame.function == expected.has
                   for frame in sample.frames)
    return expected.leaf.match("".join(words) if expected.words[0] == "~" else words[0]) is not None


def judge(title, program, expected, samples):
    pattern = expected.pattern(program.libc)
    verdict = Verdict(title)
    for sample in samples:
        words = [program.word(frame) for frame in sample.frames]
        if words and is_judged(expected, sample, words):
            cut = sample.frames[-1].attributes.get("spanprof.frame.truncated")
            text = "".join(words) + ("!%s " % cut if cut else "")
            verdict.add(sample, text, pattern.fullmatch(text) is not None, program)
    return verdict

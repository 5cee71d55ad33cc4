# SPDX-License-Identifier: Apache-2.0
"""Stacks of known programs, from the leaf to the first instruction: exactly what they must be."""
import concurrent.futures
import os
import re
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))
import harness  # noqa: E402
import stacks  # noqa: E402
import truth  # noqa: E402

FREQUENCY = 997
BURN_MS = 100
LONGER = {"in_vdso": 3}  # little of its time is the vdso's
FILE_MS = 1000
LEAST = 30
WARM_MS = 20
VARIANTS = ("O2", "static") if harness.SANITIZE else (
    "O0", "O2", "O2_frame_pointer", "O3", "Os", "clang_O2", "static", "static_pie", "no_table",
    "musl_static", "debug_frame", "debug_zlib", "stripped")
COPIES = ("deleted", "replaced", "inside", "separate")
CPP_VARIANTS = ("cpp_O2",) if harness.SANITIZE else ("cpp_O0", "cpp_O2", "cpp_static")


@harness.needs_sampling
@unittest.skipUnless(os.path.isdir(stacks.DIRECTORY), "programs of test/support/stacks are for x86-64")
class StacksTest(harness.IntegrationTest):
    def run_of(self, program, mode, *more, ms=BURN_MS, **how):
        return stacks.Run(program, mode, *more, ms=ms, **how)

    def start(self):
        sampler = {"frequency": FREQUENCY, "include": {"executables": [*VARIANTS, *CPP_VARIANTS, *COPIES]}}
        self.sp = self.spanprof(over={"receivers": {"sampler": sampler}})
        stacks.wait_sampling(self.sp, lambda: stacks.Run(
            stacks.programs_of(["O2"])[0], "plain", ms=WARM_MS).ready().go())

    def finish(self, runs):
        """Once all samples of the runs are there, as far as can be told."""
        least = 0.9 * sum(run.burned_ns for run in runs) * FREQUENCY / 1e9
        try:
            harness.wait_until(lambda: truth.count(self.backend.samples()) > least,
                               20, "%.0f samples" % least)
        except TimeoutError:
            pass  # then too few will be found
        self.counted = {name: value for name, value in self.sp.metrics().items()
                        if value and re.match(r"spanprof_(unwind|stacks|samples|symbolizer)_", name)}
        self.stop_spanprof(self.sp)
        self.by_pid = {}
        for sample in self.backend.samples():
            self.by_pid.setdefault(sample.resource.get("process.pid"), []).append(sample)

    def assert_exact(self, cases):
        """cases: (title, program, pid, what is expected). The figures of all are printed."""
        verdicts = [stacks.judge(title, program, expected, self.by_pid.get(pid, []))
                    for title, program, pid, expected in cases]
        bad = [verdict for verdict in verdicts if not verdict.is_good(LEAST)]
        print("%d cases, %d samples, %d exact" % (len(verdicts), sum(v.n for v in verdicts),
                                                  sum(v.right for v in verdicts)))
        if bad:
            self.fail("%d cases of %d:\n%s\n%s" % (len(bad), len(verdicts), "\n".join(map(str, bad)),
                                                  self.counted))
        self.assert_conforming()


class Matrix(StacksTest):
    """Each way to build a program with each thing that it does to its stack."""

    def run_all(self, wanted):
        """(program, mode) -> runs, two at a time; each program has been seen before."""
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            first = {program.path: (program, mode) for program, mode in wanted}
            list(pool.map(lambda case: self.run_of(*case, ms=WARM_MS).ready().go(), first.values()))
            return list(pool.map(lambda case: self.run_of(
                *case, ms=BURN_MS * LONGER.get(case[1], 1)).ready().go(), wanted))

    def run_matrix(self, names, modes):
        wanted = [(program, mode) for program in stacks.programs_of(names) for mode in modes
                  if modes[mode].is_for(program)]
        self.start()
        runs = self.run_all(wanted)
        self.finish(runs)
        self.assert_exact([
            (run.title, program, run.pid,
             stacks.UNOPTIMIZED.get(mode, modes[mode]) if program.name == "O0" else modes[mode])
            for run, (program, mode) in zip(runs, wanted)])

    def test_c(self):
        self.run_matrix(VARIANTS, stacks.MODES)

    @unittest.skipUnless(stacks.programs_of(CPP_VARIANTS), "needs g++")
    def test_cpp(self):
        self.run_matrix(CPP_VARIANTS, stacks.CPP_MODES)

    def test_too_deep(self):
        """As many frames as there may be, leaf first, and the last one says that more follow."""
        self.start()
        run, = self.run_all([(stacks.programs_of(["O2"])[0], "too_deep")])
        self.finish([run])
        deep = [sample for sample in self.by_pid[run.pid]
                if sample.frames and run.program.word(sample.frames[0]) == "burn "]
        self.assertGreaterEqual(truth.count(deep), LEAST)
        for sample in deep:
            words = [run.program.word(frame) for frame in sample.frames]
            self.assertGreaterEqual(len(words), 512)
            self.assertEqual(set(words[1:]), {stacks.TOO_DEEP + " "})
            self.assertEqual(sample.frames[-1].attributes.get("spanprof.frame.truncated"), "depth")
        self.assert_conforming()


class Changes(StacksTest):
    """Files and code that come, go and are replaced; processes of their own view of the system.
    Who is to read a file that has no name any more needs its process alive for a while."""

    def setUp(self):
        super().setUp()
        self.original = stacks.programs_of(["O2"])[0]
        self.recursion = stacks.MODES["recursion"]

    def copy(self, name):
        path = os.path.join(self.directory, name)
        shutil.copy(self.original.path, path)
        program = stacks.Program("O2")
        program.name, program.path = name, path
        return program

    def run_deleted(self):
        program = self.copy("deleted")
        run = self.run_of(program, "recursion", ms=FILE_MS).ready()
        os.unlink(program.path)
        return run.go()

    def run_replaced(self):
        """By a file in which everything is elsewhere."""
        program = self.copy("replaced")
        run = self.run_of(program, "recursion", ms=FILE_MS).ready()
        other = os.path.join(self.directory, "other")
        shutil.copy(os.path.join(stacks.DIRECTORY, "O0"), other)
        os.rename(other, program.path)
        return run.go()

    def run_in_namespaces(self):
        """Of mounts and pids; nobody else sees the file."""
        place = os.path.join(self.directory, "mounted")
        os.mkdir(place)
        program = stacks.Program("O2")
        program.name, program.path = "inside", os.path.join(place, "inside")
        script = 'mount -t tmpfs none "$1" && cp "$2" "$1/inside" && exec "$1/inside" recursion "$3"'
        run = self.run_of(program, "recursion", command=[
            "unshare", "--mount", "--pid", "--fork", "sh", "-c", script, "sh", place,
            self.original.path, str(FILE_MS)]).ready()
        self.assertFalse(os.path.exists(program.path))
        run.pid, = harness.children_of(run.pid)
        return run.go()

    def test_files(self):
        self.start()
        runs = [self.run_deleted(), self.run_replaced(), self.run_in_namespaces()]
        self.finish(runs)
        self.assert_exact([(run.title, run.program, run.pid, self.recursion) for run in runs])

    def run_beside_its_debug_file(self):
        """In a root of its own, where the file lies as its build id says."""
        root = os.path.join(self.directory, "root")
        program = stacks.Program("separate", symbols="separate.whole")
        notes = subprocess.run(["readelf", "-n", program.path], check=True, capture_output=True, text=True).stdout
        build_id, = re.findall(r"Build ID: ([0-9a-f]+)", notes)
        debug = os.path.join(root, "usr/lib/debug/.build-id", build_id[:2], build_id[2:] + ".debug")
        os.makedirs(os.path.dirname(debug))
        shutil.copy(program.path + ".debug", debug)
        shutil.copy(program.path, root)
        return self.run_of(program, "recursion", command=[
            "chroot", root, "/separate", "recursion", str(FILE_MS)]).ready().go()

    def test_separate_debug_file(self):
        self.start()
        run = self.run_beside_its_debug_file()
        self.finish([run])
        run.program.has_names = True  # in that file, too
        self.assert_exact([(run.title, run.program, run.pid, self.recursion)])

    def test_fork_and_exec(self):
        self.start()
        run = self.run_of(self.original, "forking").ready().go()
        pids = dict(line.split() for line in run.output.splitlines() if line.startswith(("child", "exec")))
        self.finish([run])
        self.assert_exact([
            ("parent", run.program, run.pid, stacks.Expected("burn in_parent forking main ...")),
            ("child", run.program, int(pids["child"]), stacks.Expected("burn in_child forking main ...")),
            ("exec", run.program, int(pids["exec"]), self.recursion)])

    def library(self, name):
        return os.path.join(stacks.DIRECTORY, "lib%s.so" % name)

    def assert_libraries(self, run, below):
        """One and then the other at the same address, each with frames of its own size."""
        cases = []
        for name in ("alpha", "beta"):
            library = stacks.Program("lib%s.so" % name)
            text = "%s_burn %s_inner %s_run" % (name, name, name)
            cases.append((text, library))
        program = stacks.Layers(run.program, [library for _, library in cases])
        self.assert_exact([(run.title + " " + text, program, run.pid,
                            stacks.Expected("%s %s main ..." % (text, below))) for text, _ in cases])

    def test_another_library_at_the_same_place(self):
        self.start()
        arguments = [word for name in ("alpha", "beta")
                     for word in (self.library(name), name + "_run")]
        run = self.run_of(self.original, "plugin", *arguments).ready().go()
        places = [int(line.split()[1], 16) >> 16 for line in run.output.splitlines() if "_run" in line]
        self.assertEqual(places[0], places[1], "the second library lies elsewhere")
        self.finish([run])
        self.assert_libraries(run, "plugin")

    def test_mapped_over(self):
        self.start()
        arguments = [word for name in ("alpha", "beta") for word in (
            self.library(name),
            "%x" % stacks.Symbols(self.library(name)).address_of(name + "_run"))]
        run = self.run_of(self.original, "mapped_over", *arguments).ready().go()
        self.finish([run])
        self.assert_libraries(run, "mapped_over")


if __name__ == "__main__":
    harness.main()

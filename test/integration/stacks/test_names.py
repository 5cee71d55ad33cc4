# SPDX-License-Identifier: Apache-2.0
"""Functions of a stripped program have the names of the symbols that lie compressed in it; those of one with DWARF
also the lines that they were at, and what was inlined into them. All of them, also if the symbolizer was busy."""
import lzma
import os
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))
import harness  # noqa: E402
import stacks  # noqa: E402
import truth  # noqa: E402

SECONDS = 3
TAKEN_FOR_HUNG = 4.5  # the symbolizer, almost, if it says nothing for as many seconds
# The loop of lines_program.c: its statement, or the counting.
INLINED = [[("innermost", "lines_innermost.h", line), ("middle", "lines_middle.h", 202),
            ("outer", "lines_program.c", 302)] for line in (102, 103)]
SHOWN = {"known_by_symtab": "", "shop::Cart::total": "_ZN4shop4Cart5totalEid",
         "till::total": "_RNvCs1234_4till5total"}


@harness.needs_sampling
class Names(harness.IntegrationTest):
    def stripped_program(self):
        """Without symbols, but with them in .gnu_debugdata."""
        built = os.path.join(os.environ["SPANPROF_BUILD_DIR"], "test", "names_program")
        section, program = (os.path.join(self.directory, name) for name in ("section", "shopper"))
        with open(built + ".debug", "rb") as symbols, open(section, "wb") as file:
            file.write(lzma.compress(symbols.read()))
        subprocess.run(["objcopy", "--add-section", ".gnu_debugdata=" + section, built + ".stripped", program],
                       check=True)
        return program

    def leaves(self, program):
        """Once for each sample that was taken."""
        return [sample.frames[0] for sample in self.backend.samples() for _ in range(sample.count())
                if sample.resource.get("process.executable.name") == program
                and sample.frames and sample.frames[0].kind == "native"]

    def leaf_names(self):
        return {frame.function for frame in self.leaves("shopper")}

    def inlined_leaves(self):
        """Whose function is outer(): as (function, name of the file, line), innermost first."""
        return [[(function, os.path.basename(file), line) for function, file, line in frame.lines]
                for frame in self.leaves("gcc5") if frame.function == "outer"]

    def system_names(self):
        names = {}
        for request in self.backend.requests("profiles"):
            strings = request.message.dictionary.string_table
            names.update((strings[function.name_strindex], strings[function.system_name_strindex])
                         for function in request.message.dictionary.function_table)
        return names

    def test_stripped(self):
        spanprof = self.spanprof(over={"processors": {"join": {"wait": "2s"}}})
        spanprof.wait_sampling()
        subprocess.run([self.stripped_program(), str(SECONDS)], check=True, stdout=subprocess.DEVNULL)
        harness.wait_until(lambda: set(SHOWN) <= self.leaf_names(), 30, "the names of its functions")
        self.stop_spanprof(spanprof)
        names = self.system_names()
        self.assertEqual({name: names[name] for name in SHOWN}, SHOWN)
        self.assert_conforming()

    def run_inlined(self, **over):
        program = os.path.join(os.environ["SPANPROF_BUILD_DIR"], "test", "lines", "gcc5")
        spanprof = self.spanprof(over={"processors": {"join": {"wait": "2s"}}, **over})
        spanprof.wait_sampling()
        subprocess.run([program, str(SECONDS)], check=True, stdout=subprocess.DEVNULL)
        harness.wait_until(lambda: len(self.inlined_leaves()) > 50, 30, "samples of outer()")
        self.stop_spanprof(spanprof)
        self.assert_conforming()
        return self.inlined_leaves()

    def test_inlined(self):
        leaves = self.run_inlined()
        told = [chain for chain in leaves if chain in INLINED]
        self.assertGreater(len(told), 0.99 * len(leaves), [chain for chain in leaves if chain not in INLINED])

    def test_without_lines(self):
        leaves = self.run_inlined(receivers={"sampler": {"symbols": {"lines": False}}})
        self.assertEqual(leaves, [[("outer", "", 0)]] * len(leaves))


@harness.needs_sampling
@unittest.skipUnless(os.path.isdir(stacks.DIRECTORY), "programs of test/support/stacks are for x86-64")
class BusySymbolizer(harness.IntegrationTest):
    WINDOW = 5.0

    def window_closes(self, sp):
        before = sp.metric("spanprof_window_requests_total")
        harness.wait_until(lambda: sp.metric("spanprof_window_requests_total") > before,
                           3 * self.WINDOW, "a profile window closes")

    def run_while_stopped(self, sp, program):
        """With stacks that are new and names that nobody knows; until a window has closed over them."""
        run = stacks.Run(program, "moving_stack", ms=500).ready()
        self.window_closes(sp)
        time.sleep(self.WINDOW - 1.2)
        symbolizer = sp.symbolizer
        os.kill(symbolizer, signal.SIGSTOP)
        try:
            run.begin()
            harness.wait_until(lambda: sp.metric("spanprof_stacks_unfinished", 'what="names"'),
                               TAKEN_FOR_HUNG / harness.SLOWNESS, "stacks wait for names")
        finally:
            os.kill(symbolizer, signal.SIGCONT)
        run.go()
        self.assertEqual(sp.symbolizer, symbolizer, "it was taken for hung")
        return run

    def test_all_names(self):
        program, = stacks.programs_of(["O2"])
        sp = self.spanprof()
        sp.wait_sampling()
        stacks.Run(program, "plain", ms=300).ready().go()  # so that stacks need no symbolizer
        run = self.run_while_stopped(sp, program)
        least = 0.5 * run.burned_ns * harness.FREQUENCY / 1e9
        harness.wait_until(lambda: truth.count(self.backend.samples(run.pid)) > least, 30, "its samples")
        for result in ("late", "room", "full", "memory", "stopping"):
            self.assertEqual(sp.metric("spanprof_stacks_unfinished_total", 'what="names",result="%s"' % result), 0)
        self.stop_spanprof(sp)
        frames = [frame for sample in self.backend.samples(run.pid) for frame in sample.frames]
        self.assertIn("with_alloca", {frame.function for frame in frames})
        self.assertEqual([frame for frame in frames if program.lacks_name(frame)], [])
        self.assert_conforming()


if __name__ == "__main__":
    harness.main()

#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The same benchmarks on two builds in turns: REF's, and that of the working tree.

    compare.py REF [--turns N] [--no-instructions] [BENCH...]

BENCH: `store` for bench_store, `service` for bench_service.py; default: the short C benchmarks. REF's sources are
unpacked into build/compare/COMMIT and built there. A turn runs each benchmark once on either build; which build goes
first changes with each turn, so that a machine that grows slower does so for both.

For each figure: the median of either build, its spread (the distance of the quartiles, in percent of the median) and
the difference of the medians. `<` marks a difference beyond 3 % and beyond both spreads. Which direction is good is
the reader's to know: a rate should grow, a time should not.

Benchmarks that do a fixed amount of work are also run twice under valgrind (cachegrind without its cache model), which
counts the instructions of the whole program: what the machine does beside it does not show there.

Exit 1 if a benchmark failed.
"""
import argparse
import glob
import os
import re
import statistics
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import figures  # noqa: E402

TREE = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
PERCENT = 3
# Under 20 s each.
SHORT = ("symbolizer", "context", "correlation", "export", "go", "intake", "intake_stacks", "json", "labels", "lines",
         "names", "outbox", "perf_map", "store", "unwind")
# Minutes of history instead of an hour: ten turns should end.
ARGUMENTS = {"history": ["300"], "history_reader": ["300"], "pages": ["300"]}
# A fixed amount of work, on one thread: their instructions differ by less than 0.1 % from run to run.
FIXED_WORK = ("context", "go", "intake_stacks", "json", "labels", "lines", "names", "outbox",
              "perf_map", "store", "unwind")
COUNTED = re.compile(r"I +refs: +([\d,]+)")
RUN_WITHIN_S = 1800
TRUSTED = ("-c", "safe.directory=*")  # root may compare in the tree of a user


def run(*command, **options):
    return subprocess.run(command, check=True, text=True, **options)


class Side:
    """A tree and its release build."""

    def __init__(self, name, tree):
        self.name, self.tree = name, tree
        self.build = os.path.join(tree, "build", "release")

    def make(self):
        print("building %s" % self.name, file=sys.stderr)
        log = os.path.join(TREE, "build", "compare", "build.log")
        for command in (["cmake", "--preset", "release"], ["cmake", "--build", "--preset", "release"]):
            with open(log, "w") as output:
                if subprocess.run(command, cwd=self.tree, stdout=output, stderr=output, check=False).returncode:
                    sys.exit("compare: %s does not build, see %s" % (self.name, log))

    def command(self, bench):
        """How the benchmark is run; None where this side has none. Folders differ between commits, names do not."""
        programs = glob.glob(os.path.join(self.build, "**", "bench_" + bench), recursive=True)
        scripts = glob.glob(os.path.join(self.tree, "test", "bench", "**", "bench_%s.py" % bench), recursive=True)
        if programs:
            return [max(programs, key=os.path.getmtime), *ARGUMENTS.get(bench, [])]
        return ["/usr/bin/python3", "-B", scripts[0]] if scripts else None


def unpack(ref):
    """The tree of a commit, in a folder of its own that later comparisons find again."""
    found = subprocess.run(["git", *TRUSTED, "rev-parse", "--verify", "--quiet", ref + "^{commit}"], cwd=TREE,
                           stdout=subprocess.PIPE, text=True, check=False)
    if found.returncode:
        sys.exit("compare: there is no commit '%s'" % ref)
    commit = found.stdout.strip()[:12]
    tree = os.path.join(TREE, "build", "compare", commit)
    if not os.path.isdir(tree):
        os.makedirs(tree + ".part", exist_ok=True)
        archive = subprocess.Popen(["git", *TRUSTED, "archive", commit], cwd=TREE, stdout=subprocess.PIPE)
        run("tar", "-x", "-C", tree + ".part", stdin=archive.stdout)
        if archive.wait():
            sys.exit("compare: git archive of %s failed" % ref)
        os.rename(tree + ".part", tree)
    return tree, commit


def execute(command, side):
    environment = {**os.environ, "SPANPROF_BUILD_DIR": side.build,
                   "SPANPROF_BINARY": os.path.join(side.build, "spanprof")}
    return subprocess.run(command, cwd=side.tree, env=environment, capture_output=True, text=True, check=False,
                          timeout=RUN_WITHIN_S)


class Series:
    """One figure: its values on both sides."""

    def __init__(self, unit):
        self.unit, self.values = unit, ([], [])

    def medians(self):
        return [statistics.median(values) for values in self.values]

    def spreads(self):
        """The distance of the quartiles in percent of the median."""
        spreads = []
        for values in self.values:
            low, median, high = statistics.quantiles(values, method="inclusive") if len(values) > 1 else values * 3
            spreads.append(100 * (high - low) / abs(median) if median else 0)
        return spreads

    def difference(self):
        """In percent of the first side's median; None where that is 0 and the other is not."""
        before, after = self.medians()
        if before == after:
            return 0.0
        return 100 * (after - before) / abs(before) if before else None

    def is_marked(self):
        difference = self.difference()
        return difference is None or abs(difference) > max(PERCENT, *self.spreads())


def note(table, lines, index):
    for name, value, unit in figures.figures(lines, other=lambda text: None):
        table.setdefault(name, Series(unit)).values[index].append(value)


def turn(number, benches, sides, table, failed):
    for bench in benches:
        for index in ((0, 1) if number % 2 == 0 else (1, 0)):
            done = execute(sides[index].command(bench), sides[index])
            note(table, done.stdout.splitlines(), index)
            if done.returncode:
                failed.add("bench_%s of %s ended with %d: %s" % (bench, sides[index].name, done.returncode,
                                                                 done.stderr.strip()[-200:]))


def count_instructions(benches, sides, table, failed):
    for bench in benches:
        for index in (0, 1) * 2:
            side = sides[index]
            done = execute(["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null",
                            *side.command(bench)], side)
            # Children report as well; the program itself ends last.
            counts = COUNTED.findall(done.stderr)
            if done.returncode or not counts:
                failed.add("bench_%s of %s under valgrind ended with %d" % (bench, side.name, done.returncode))
                break
            series = table.setdefault("bench_%s, instructions" % bench, Series("million"))
            series.values[index].append(int(counts[-1].replace(",", "")) / 1e6)


def print_table(table, sides):
    width = max(map(len, table), default=0)
    print("%-*s %12s %6s  %12s %6s %9s" % (width, "", sides[0].name[:12], "spread", sides[1].name[:12], "spread",
                                           "change"))
    for name, series in table.items():
        if not all(series.values):
            print("%-*s only in %s" % (width, name, sides[0 if series.values[0] else 1].name))
            continue
        (before, after), (first, second), change = series.medians(), series.spreads(), series.difference()
        print("%-*s %12.6g %5.1f%%  %12.6g %5.1f%% %9s %s %s" % (
            width, name, before, first, after, second, "new" if change is None else "%+.1f %%" % change,
            "<" if series.is_marked() else " ", series.unit))
    marked = [name for name, series in table.items() if all(series.values) and series.is_marked()]
    print("%d figures, %d beyond %d %% and beyond the spread%s" % (
        len(table), len(marked), PERCENT, ": " + ", ".join(marked) if marked else ""))


def choose(benches, sides):
    """Those that both sides have; what one side lacks is said."""
    both = []
    for bench in benches:
        there = [side.name for side in sides if side.command(bench)]
        if len(there) == 2:
            both.append(bench)
        else:
            print("bench_%s: %s" % (bench, "only in " + there[0] if there else "in neither build"), file=sys.stderr)
    return both


def main():
    parser = argparse.ArgumentParser(prog="./dev bench --compare", description="The same benchmarks on two builds.")
    parser.add_argument("ref")
    parser.add_argument("bench", nargs="*", help="such as: store outbox service")
    parser.add_argument("--turns", type=int, default=10)
    parser.add_argument("--no-instructions", action="store_true")
    parser.add_argument("--build-only", action="store_true", help="make both builds, run nothing")
    parser.add_argument("--no-build", action="store_true", help="both builds are up to date")
    options = parser.parse_intermixed_args()
    tree, commit = unpack(options.ref)
    sides = (Side(commit, tree), Side("working tree", TREE))
    for side in sides if not options.no_build else ():
        side.make()
    if options.build_only:
        return 0
    benches = choose(options.bench or SHORT, sides)
    table, failed = {}, set()
    for number in range(options.turns):
        print("turn %d of %d" % (number + 1, options.turns), file=sys.stderr)
        turn(number, benches, sides, table, failed)
    if not options.no_instructions:
        print("counting instructions", file=sys.stderr)
        count_instructions([bench for bench in benches if bench in FIXED_WORK], sides, table, failed)
    print_table(table, sides)
    for text in sorted(failed):
        print("failed: " + text)
    return 1 if failed or not table else 0


if __name__ == "__main__":
    sys.exit(main())

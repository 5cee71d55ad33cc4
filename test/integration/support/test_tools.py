# SPDX-License-Identifier: Apache-2.0
"""What ./dev is made of: skipped cases are found, and only those on the list pass; a comparison marks what differs;
functions, their callers and cycles are found."""
import contextlib
import io
import os
import tempfile
import unittest
from xml.sax.saxutils import escape

import harness
import compare
import sizes
import summary

CMOCKA = """[==========] Running 3 test(s).
[ RUN      ] first
skipped: no root: none at all
[  SKIPPED ] first
[ RUN      ] second
[       OK ] second
[ RUN      ] third
[  SKIPPED ] third
[==========] 3 test(s) run.
[  SKIPPED ] 2 test(s), listed below:
[  SKIPPED ] first
[  SKIPPED ] third
"""
PYTHON = """test_a (__main__.Some.test_a) ... skipped 'no disk'
skipped: Some.test_a: no disk
"""
SKIPPED = '<skipped message="SKIP_RETURN_CODE=77"/>'


class Summary(unittest.TestCase):
    def setUp(self):
        self.directory = self.enterContext(tempfile.TemporaryDirectory())

    def file(self, name, text):
        path = os.path.join(self.directory, name)
        with open(path, "w") as file:
            file.write(text)
        return path

    def rows(self, *cases):
        """cases: (name, what ctest says of it, output)"""
        text = "".join('<testcase name="%s">%s<system-out>%s</system-out></testcase>' % (name, said, escape(output))
                       for name, said, output in cases)
        return summary.read(self.file("junit.xml", "<testsuite>%s</testsuite>" % text))

    def total(self, rows, patterns=None):
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            status = summary.total(rows, patterns)
        return status, output.getvalue().splitlines()

    def test_cases_skipped_inside_a_test(self):
        rows = self.rows(("unit.a", "", CMOCKA), ("integration.b", "", PYTHON))
        self.assertEqual(rows, [("unit.a", "passed", ""),
                                ("unit.a: first", "skipped", "no root: none at all"),
                                ("unit.a: third", "skipped", summary.NO_REASON),
                                ("integration.b", "passed", ""),
                                ("integration.b: Some.test_a", "skipped", "no disk")])
        status, lines = self.total(rows)
        self.assertEqual((status, lines[-1]), (0, "2 passed, 0 failed, 3 skipped"))
        self.assertIn("skipped: integration.b: Some.test_a: no disk", lines)

    def test_whole_tests(self):
        rows = self.rows(("bpf.a", SKIPPED, "skipped: no bpffs: not permitted\n"), ("bpf.b", SKIPPED, ""),
                         ("bpf.c", '<skipped message="Unable to find executable"/>', ""),
                         ("bpf.d", "<failure/>", CMOCKA))
        self.assertEqual(rows, [("bpf.a", "skipped", "no bpffs: not permitted"),
                                ("bpf.b", "skipped", summary.NO_REASON), ("bpf.c", "failed", ""),
                                ("bpf.d", "failed", "")])

    def test_only_what_is_listed_may_be_skipped(self):
        rows = self.rows(("unit.a", "", CMOCKA))
        listed = summary.allowed(self.file("skips", "# comment\nunit\\.a: first\tneeds root\n"))
        status, lines = self.total(rows, listed)
        self.assertEqual((status, lines[-1]), (1, "1 passed, 1 failed, 1 skipped"))
        self.assertTrue(any(text.startswith("failed: unit.a: third") for text in lines), lines)
        with self.assertRaises(SystemExit):
            summary.allowed(self.file("skips", "unit\\.a\n"))

    def test_nothing_ran(self):
        self.assertEqual(self.total([]), (1, ["0 passed, 0 failed, 0 skipped"]))

    def test_the_harness_says_what_it_skips(self):
        harness.note_skipped("Some case", "for a\nreason")
        case, reason = harness.noted.pop()
        self.assertEqual(summary.skipped_cases("skipped: %s: %s\n" % (case, reason)), [("Some_case", "for a reason")])


class Compare(unittest.TestCase):
    def series(self, before, after):
        series = compare.Series("ns")
        series.values[0].extend(before)
        series.values[1].extend(after)
        return series

    def test_beyond_the_bound_and_the_spread(self):
        self.assertTrue(self.series([100, 101, 102], [110, 111, 112]).is_marked())
        self.assertFalse(self.series([100, 101, 102], [102, 103, 104]).is_marked())   # 2 %
        self.assertFalse(self.series([80, 100, 120], [90, 110, 130]).is_marked())     # spread of 20 %
        self.assertTrue(self.series([100], [104]).is_marked())
        self.assertFalse(self.series([0, 0], [0, 0]).is_marked())
        self.assertTrue(self.series([0, 0], [1, 1]).is_marked())

    def test_figures_of_one_side_only(self):
        table = {}
        compare.note(table, ["== bench", "a 1 ns", "b 2 ns"], 0)
        compare.note(table, ["a 3 ns"], 1)
        self.assertEqual(table["a"].values, ([1.0], [3.0]))
        self.assertEqual(table["b"].values, ([2.0], []))
        with contextlib.redirect_stdout(io.StringIO()) as output:
            compare.print_table(table, (compare.Side("old", "/old"), compare.Side("new", "/new")))
        self.assertIn("only in old", output.getvalue())


SOURCE = """/* two
 * lines */
#include "b.h"
#define MANY(a) \\
    do { call(a); } while (0)
struct pair { int a, b; };
static const char *text = "if (a) { /* no comment */";
static int pair_sum(const struct pair *pair);
static int pair_sum(const struct pair *pair)
{
    return pair->a + pair->b; // and
}

int take(int a, int b, int c, int (*d)(int, int), int e, int f)
{
    if (a) {
        assert(b);
    }
    return pair_sum(&(struct pair){a, b});
}
static void unused(void) {}
"""


class Sizes(unittest.TestCase):
    def test_functions(self):
        found = sizes.functions_of("a.c", sizes.code_of(SOURCE))
        self.assertEqual([(f.name, f.lines, f.parameters, f.is_static) for f in found],
                         [("pair_sum", 4, 1, True), ("take", 7, 6, False), ("unused", 1, 0, True)])

    def test_figures(self):
        figures = dict(sizes.figures({"a.c": SOURCE, "b.h": '#include "a.h"\n', "a.h": '#include "b.h"\n'}))
        self.assertEqual(figures["static functions used once"], "50 %")
        self.assertEqual(figures["functions over five parameters"], "1")
        self.assertEqual(figures["functions named by one word"], "67 %")
        self.assertEqual(figures["lines with a comment"], "13 %")  # 3 of 23
        self.assertEqual(figures["assertions a 1000 lines"], "43.5")
        self.assertEqual(figures["include cycles of files"], "1")
        self.assertEqual(figures["modules in the largest cycle"], "2")

    def test_knots(self):
        edges = {1: {2}, 2: {3}, 3: {1, 4}, 4: {5}, 5: {4}, 6: {1}}
        self.assertEqual(sorted(map(sorted, sizes.knots(edges))), [[1, 2, 3], [4, 5]])


if __name__ == "__main__":
    harness.main()

# SPDX-License-Identifier: Apache-2.0
"""Debian's PHP in its own language: each frame with function, file and line, between the native frames of what it calls,
from the tick to a backend; without opcache, with its scripts in shared memory, and with its JIT. SPANPROF_PHP: another
interpreter's command."""
import collections
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))
import harness  # noqa: E402

PHP = os.environ.get("SPANPROF_PHP", "/usr/bin/php")
FOLDER = os.path.join(harness.SOURCE, "test", "support", "runtimes", "php")
SCRIPT = os.path.join(FOLDER, "busy.php")
FILES = (SCRIPT, os.path.join(FOLDER, "busy_included.php"))
SAMPLES = 1000
FREQUENCY = 499
OPCACHE = ("-d", "opcache.enable_cli=1", "-d", "opcache.file_update_protection=0")
# Callee: its callers.
CALLS = {
    "spin": "compare mapped replaced produced {closure} {closure:by_closure():70} descend Work::still Work::__toString {include}",
    "compare": "usort", "usort": "by_usort", "mapped": "array_map", "array_map": "by_map", "replaced": "preg_replace_callback",
    "preg_replace_callback": "by_replace", "produced": "delegated", "delegated": "by_generator",
    "{closure}": "by_closure", "{closure:by_closure():70}": "by_closure", "descend": "descend work",
    "Work::still": "Work::method", "Work::method": "by_method", "Work::hold": "by_method", "Work::__toString": "by_method",
    "str_repeat": "Work::hold by_text", "sort": "Work::hold", "hash": "by_text", "md5": "by_text", "serialize": "by_text",
    "range": "by_text", "{include}": "by_include", "work": "{main}", "fgets": "{main}", "feof": "{main}",
    **{name: "work" for name in ("by_usort", "by_map", "by_replace", "by_generator", "by_closure", "by_method",
                                 "by_include", "by_text")},
}
UNREADABLE = "[unreadable]"
INTERNAL = ("usort", "array_map", "preg_replace_callback")


def functions():
    """Of the script: name -> first and last line, as PHP has them."""
    done = subprocess.run([*PHP.split(), SCRIPT, "functions"], check=True, stdout=subprocess.PIPE, text=True)
    return {name: (int(first), int(last)) for name, first, last in map(str.split, done.stdout.splitlines())}


@harness.needs_sampling
class Php(harness.IntegrationTest):
    def setUp(self):
        super().setUp()
        if subprocess.run([*PHP.split(), "-v"], check=False, capture_output=True).returncode:
            self.skipTest("no PHP")
        self.functions = functions()

    def samples(self, pid):
        return [sample for sample in self.backend.samples()
                if sample.resource.get("process.pid") == pid and any(frame.file in FILES for frame in sample.frames)]

    def look(self, *options):
        """Samples of the program with these options."""
        process = subprocess.Popen([*PHP.split(), *options, SCRIPT], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        self.assertEqual(process.stdout.readline(), b"ready\n")
        spanprof = self.spanprof(over={"processors": {"join": {"wait": "1s"}}, "receivers": {"sampler": {
            "frequency": FREQUENCY, "include": {"pids": [str(process.pid)]}}}})
        spanprof.wait_sampling()
        harness.wait_until(lambda: sum(sample.count() for sample in self.samples(process.pid)) > SAMPLES, 120, "samples")
        self.stop_spanprof(spanprof)
        return self.samples(process.pid)

    def check_frame(self, frame):
        """A line of the function that it is named by."""
        function, _, line = frame.lines[-1][:3]
        if function in self.functions:
            first, last = self.functions[function]
            self.assertEqual(frame.file, SCRIPT)
            self.assertTrue(line == 0 or first <= line <= last, frame.lines)

    def check_calls(self, sample, forgotten):
        """Each is called by one that calls it. False: no C is between it and a function of PHP's own that calls it."""
        through_c = True
        natives, callee = 0, None
        for frame in sample.frames:
            if frame.kind != "php":
                natives += 1
                continue
            function = "{include}" if forgotten and frame.function == UNREADABLE else frame.function
            if callee:
                self.assertIn(function, CALLS[callee].split(), [one.function for one in sample.frames])
                through_c &= natives > 0 or function not in INTERNAL
            natives, callee = 0, function
        return through_c

    def check(self, samples, between=True, forgotten=False):
        outermost, leaves, lines, apart = (collections.Counter() for _ in range(4))
        for sample in samples:
            php = [frame for frame in sample.frames if frame.kind == "php"]
            outermost[php[-1].function] += sample.count()
            leaves[sample.frames[0].kind] += sample.count()
            lines[bool(php[0].lines and php[0].lines[-1][2]) or not php[0].file] += sample.count()
            for frame in php:
                self.check_frame(frame)
            apart[self.check_calls(sample, forgotten)] += sample.count()
        total = sum(outermost.values())
        print(self.id().rpartition(".")[2], dict(outermost), dict(leaves), "of %d, with a line: %d, C apart: %d" %
              (total, lines[True], apart[True]))
        self.assertGreaterEqual(outermost["{main}"], 0.995 * total, outermost)
        if between:  # one that is about to be entered, or was just left, has no activation
            self.assertGreater(apart[True], 0.97 * total)
        return leaves

    def test_interpreted(self):
        """The name of a file that is included again is freed when it is left, so it may be gone by now."""
        leaves = self.check(self.look("-d", "opcache.enable_cli=0"), forgotten=True)
        self.assertGreater(leaves["php"], 0.04 * sum(leaves.values()), leaves)

    def test_opcache(self):
        leaves = self.check(self.look(*OPCACHE, "-d", "opcache.jit=disable"))
        self.assertGreater(leaves["php"], 0.04 * sum(leaves.values()), leaves)

    def test_jit(self):
        """The innermost frame is code of the JIT; the list is right all the same."""
        self.check(self.look(*OPCACHE, "-d", "opcache.jit=tracing", "-d", "opcache.jit_buffer_size=32M"), between=False)


if __name__ == "__main__":
    harness.main()

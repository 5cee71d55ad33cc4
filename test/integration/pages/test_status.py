# SPDX-License-Identifier: Apache-2.0
"""What /api/status and `spanprof status` say of stock programs: their runtime, why their spans get no CPU time, and the
one switch; and that it is gone once they publish."""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))
import harness  # noqa: E402
import test_pages  # noqa: E402

PROGRAM = os.path.join(harness.BUILD, "spanprof")
LIBRARY = os.path.join(harness.BUILD, "context", "libspanprof-context.so")
EXEC = "spanprof exec -- COMMAND"

# Sends a span each 0.2 s and burns a CPU meanwhile; argv: URL, service, what to publish with ("": nothing).
PYTHON = r"""
import ctypes, json, os, sys, time, urllib.request
url, service, library = sys.argv[1:4]

class Attribute(ctypes.Structure):
    _fields_ = [("key", ctypes.c_char_p), ("value", ctypes.c_char_p)]

context = ctypes.CDLL(library) if library else None
if os.environ.get("ONLY_LOADED"):
    context = None
if context:
    resource = (Attribute * 1)(Attribute(b"service.name", service.encode()))
    if context.spanprof_context_publish(resource, 1):
        sys.exit("cannot publish")
while True:
    trace, span, begun = os.urandom(16), os.urandom(8), time.time_ns()
    if context:
        context.spanprof_context_set(trace, span, 1)
    end = time.process_time() + 0.2
    while time.process_time() < end:
        sum(i * i for i in range(1000))
    if context:
        context.spanprof_context_clear()
    body = {"resourceSpans": [{"resource": {"attributes": [{"key": "service.name", "value": {"stringValue": service}}]},
                               "scopeSpans": [{"spans": [{"traceId": trace.hex(), "spanId": span.hex(), "name": "work",
                                                          "kind": 1, "startTimeUnixNano": str(begun),
                                                          "endTimeUnixNano": str(time.time_ns())}]}]}]}
    urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(),
                                                  {"Content-Type": "application/json"})).read()
"""
NODE = r"""
const http = require("http");
const crypto = require("crypto");
const [url, service] = process.argv.slice(2);
function work() {
    const begun = Date.now();
    while (Date.now() - begun < 150) Math.sqrt(Math.random());
    const span = { traceId: crypto.randomBytes(16).toString("hex"), spanId: crypto.randomBytes(8).toString("hex"),
                   name: "work", kind: 1, startTimeUnixNano: `${begun}000000`, endTimeUnixNano: `${Date.now()}000000` };
    const attributes = [{ key: "service.name", value: { stringValue: service } }];
    const request = http.request(url, { method: "POST", headers: { "Content-Type": "application/json" } },
                                 (answer) => answer.resume().on("end", () => setImmediate(work)));
    request.end(JSON.stringify({ resourceSpans: [{ resource: { attributes }, scopeSpans: [{ spans: [span] }] }] }));
}
work();
"""
JAVA = r"""
public class Burn {
    public static void main(String[] arguments) {
        double x = 0;
        for (long i = 0; ; i++) x += Math.sqrt(i ^ (long) x);
    }
}
"""


class Switches(unittest.TestCase):
    def test_by_hand_is_what_exec_sets(self):
        """The table of runtimes says what the table of exec does."""
        with open(os.path.join(harness.SOURCE, "context", "runtime.h")) as file:
            text = file.read().replace("\\\n", "")
        root = re.search(r'#define RUNTIME_PUBLISHERS "(.*)"', text).group(1)
        texts = re.sub(r'"\s*RUNTIME_PUBLISHERS\s*"', root, text)
        by_hand = [words for words in re.findall(r'"([A-Z_]+=[^"]*)"', texts)]
        self.assertGreater(len(by_hand), 4)
        with open(os.path.join(harness.SOURCE, "client", "exec.c")) as file:
            table = file.read()
        publishers = re.findall(r'{"(\w+)", "[^"]+", (true|false)}', table)
        files = re.findall(r'"((?:%s)/[^"]+)"' % "|".join(name for name, _ in publishers), table)
        with tempfile.TemporaryDirectory() as folder:
            for path in files:
                os.makedirs(os.path.dirname(os.path.join(folder, path)), exist_ok=True)
                open(os.path.join(folder, path), "w").close()
            named = ",".join(name for name, by_name in publishers if by_name == "true")
            done = subprocess.run([PROGRAM, "exec", "--with", named, "--publishers", folder, "--print"],
                                  capture_output=True, text=True, timeout=60, check=True, env={})
        printed = done.stdout.replace(os.path.realpath(folder), root).splitlines()
        for words in by_hand:
            for assignment in words.split():
                self.assertIn(assignment, printed)


@harness.needs_sampling
class Status(test_pages.Pages):
    over = {"processors": {"join": {"wait": "1s"}}}

    def setUp(self):
        super().setUp()
        self.running = self.start(sampler=True)
        self.running.wait_sampling()
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def write(self, name, text):
        path = os.path.join(self.folder.name, name)
        with open(path, "w") as file:
            file.write(text)
        return path

    def begin(self, *command, **environment):
        process = subprocess.Popen(command, env=harness.environment(**environment), stdout=subprocess.DEVNULL,
                                   start_new_session=True)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def python(self, service, library="", **environment):
        url = "http://%s/v1/traces" % self.running.http_address
        return self.begin("/usr/bin/python3", "-c", PYTHON, url, service, library, OTEL_SERVICE_NAME=service,
                          **environment)

    def row(self, pid):
        rows = [row for row in self.json("/api/status")["processes"] if pid in row["pids"]]
        self.assertLessEqual(len(rows), 1)
        return rows[0] if rows else None

    def row_once(self, pid, condition, what):
        def met():
            row = self.row(pid)
            return row if row and condition(row) else None
        return harness.wait_until(met, 60, what)

    def command(self, *words):
        done = subprocess.run([PROGRAM, "status", "--socket", self.socket, *words], capture_output=True, text=True,
                              timeout=60, env=harness.environment())
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def lines_of(self, who):
        """Of that process, without the spaces before them."""
        lines = self.command().splitlines()
        first = next(i for i, line in enumerate(lines) if line.endswith(who))
        more = next((i for i, line in enumerate(lines) if i > first and not line.startswith("    ")), len(lines))
        return [line.strip() for line in lines[first:more]]

    def test_python(self):
        stock = self.python("stock")
        row = self.row_once(stock.pid, lambda row: "switch" in row, "the switch is shown")
        self.assertEqual((row["runtime"], row["service"], row["publisher"], row["source"], row["sends_spans"]),
                         ("python", "stock", "none", "", True))
        self.assertEqual(row["switch"]["line"], EXEC)
        self.assertIn("PYTHONPATH=", row["switch"]["by_hand"])
        self.assertEqual(row["in_span"], 0)
        self.assertIn("it has no publisher", row["why"])
        self.assertEqual(self.json("/api/status")["processes"][0]["pid"], stock.pid)  # it wants something: first
        problems = self.json("/api/status")["problems"]
        self.assertTrue([problem for problem in problems if problem["what"].startswith("Spans of stock have no CPU time")], problems)

        lines = self.lines_of("%s %d, stock" % (row["executable"], stock.pid))
        self.assertIn("python", lines[0].split())
        self.assertIn("switch:  " + EXEC, lines)
        self.assertIn("Spans of stock have no CPU time", self.command())
        self.assertEqual(json.loads(self.command("--json"))["processes"][0]["switch"]["line"], EXEC)

        publishing = self.python("publishing", LIBRARY)
        row = self.row_once(publishing.pid, lambda row: row["in_span"] * 10 > row["samples"] * 5,
                            "it is correlated")
        self.assertEqual((row["runtime"], row["publisher"], row["source"]), ("python", "active", "otel_thread"))
        self.assertNotIn("switch", row)
        lines = self.lines_of("%s %d, publishing" % (row["executable"], publishing.pid))
        self.assertNotIn("switch:  " + EXEC, lines)

    def test_why_not(self):
        """Started with the switch, and yet it does not publish."""
        tree = "/nonexistent/publishers/python"
        switched = self.python("switched", PYTHONPATH=tree)
        off = self.python("off", PYTHONPATH=tree, SPANPROF_CONTEXT="off")
        loaded = self.python("loaded", LIBRARY, ONLY_LOADED="1", PYTHONPATH=tree)
        for process, publisher, why in ((switched, "started", "has not loaded it"), (off, "off", "SPANPROF_CONTEXT=off"),
                                        (loaded, "loaded", "has published nothing")):
            row = self.row_once(process.pid, lambda row: row["sends_spans"] and row["publisher"] == publisher,
                                "it is " + publisher)
            self.assertEqual(row["runtime"], "python")
            self.assertIn(why, row["why"])
            self.assertNotIn("switch", row)

    def test_workers(self):
        """Processes of one service are one row."""
        workers = [self.python("crowd") for _ in range(4)]
        row = self.row_once(workers[0].pid, lambda row: row["count"] == 4 and "switch" in row, "all are one row")
        self.assertEqual(sorted(row["pids"]), sorted(worker.pid for worker in workers))
        self.assertIn("and 3 more, crowd", self.command())

    def test_no_spans(self):
        """What sends none needs no switch: neither does this spanprof itself."""
        silent = self.begin("/usr/bin/python3", "-c", "while True: pass", OTEL_SERVICE_NAME="silent")
        native = self.begin("/bin/sh", "-c", "while :; do :; done")
        for process, runtime in ((silent, "python"), (native, "native")):
            row = self.row_once(process.pid, lambda row: row["runtime"], "its runtime is known")
            self.assertEqual((row["runtime"], row["sends_spans"]), (runtime, False))
            self.assertNotIn("switch", row)
            self.assertIn("No spans are known to come from it", row["why"])
        said = self.command()
        self.assertIn("set OTEL_SERVICE_NAME", said)  # once, at the end
        self.assertEqual(said.count("No spans are known"), 1)

    def test_node(self):
        node = next((path for path in ("/usr/bin/nodejs", "/usr/bin/node") if os.path.exists(path)), None)
        if not node:
            self.skipTest("there is no nodejs")
        url = "http://%s/v1/traces" % self.running.http_address
        stock = self.begin(node, self.write("burn.js", NODE), url, "stock", OTEL_SERVICE_NAME="stock")
        row = self.row_once(stock.pid, lambda row: "switch" in row, "the switch is shown")
        self.assertEqual((row["runtime"], row["switch"]["line"]), ("node", EXEC))
        self.assertIn("NODE_OPTIONS=--require=", row["switch"]["by_hand"])

    def test_java(self):
        java, compiler = shutil.which("java"), shutil.which("javac")
        if not java or not compiler:
            self.skipTest("there is no JDK")
        subprocess.run([compiler, self.write("Burn.java", JAVA)], check=True, timeout=60)
        stock = self.begin(java, "-cp", self.folder.name, "Burn", OTEL_SERVICE_NAME="stock")
        row = self.row_once(stock.pid, lambda row: row["runtime"] == "java", "its runtime is known")
        self.assertNotIn("switch", row)  # it sends no spans


if __name__ == "__main__":
    harness.main()

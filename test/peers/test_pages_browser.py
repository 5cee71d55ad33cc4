# SPDX-License-Identifier: Apache-2.0
"""The pages in Chromium: on the demo's data, and on names that want to do something.

Needs chromium (apt-get install chromium), node and npm (playwright-core comes from its registry).
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [os.path.join(SOURCE, "test", folder) for folder in ("integration/support", "integration/pages", "demo")]
import demo  # noqa: E402
import harness  # noqa: E402
import sender  # noqa: E402
import test_status  # noqa: E402

FOLDER = os.path.join(harness.SOURCE, "build", "peers", "pages")
TOKEN = "0123456789abcdefghij"
LOAD_S = 30
SETTLE_S = 12
# What a name may try.
NAMES = ["<script>window.taken=1</script>", "</title><img src=x onerror=window.taken=1>",
         "'\"><svg onload=window.taken=1>", "javascript:window.taken=1",
         "\u202egnp.exe\u2066 from right to left", "A" * 10240, "a\x07b\x1b[31m", "&lt;b&gt;",
         "__proto__", "${window.taken=1}{{1+1}}"]
RENAMED = {"glyph_advance": "<script>window.taken=1</script>",
           "text_width": "</title><img/src=x/onerror=window.taken=1>", "fit_line": "\u202egnp.exe",
           "layout_lines": "B" * 10240, "score": "\"onmouseover=window.taken=1"}
INVALID = {"price_items": b"not\xffUTF-8\xc0\xaf"}  # spans with such names are refused


def install():
    """Where playwright-core is; raises SkipTest with what is missing."""
    missing = [name for name in ("chromium", "node", "npm") if not shutil.which(name)]
    if missing:
        raise unittest.SkipTest("not installed: " + ", ".join(missing))
    os.makedirs(FOLDER, exist_ok=True)
    for name in ("package.json", "package-lock.json"):
        shutil.copy(os.path.join(HERE, "pages", name), FOLDER)
    done = subprocess.run(["npm", "ci", "--no-audit", "--no-fund"], cwd=FOLDER, capture_output=True,
                          text=True)
    if done.returncode:
        raise unittest.SkipTest("playwright-core cannot be installed: " + done.stderr[-300:])
    return FOLDER


class Shop(demo.Demo):
    """The demo with whatever program stands for its shop."""

    def __init__(self, program=None):
        super().__init__()
        self.program = program or self.program
        self.more = {"extensions": {"pages": {"auth": {"required": False}}}}

    def traffic(self, seconds):
        self.start()
        time.sleep(seconds)


@harness.needs_sampling
class PagesTest(unittest.TestCase):
    def visit(self, name, shop, **environment):
        done = subprocess.run(
            ["node", "--test", "--test-reporter=tap", os.path.join(HERE, "pages", name)],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=900,
            env=harness.environment(PAGES_BASE=shop.pages, PAGES_MODULES=self.modules,
                                    PAGES_CHROMIUM=shutil.which("chromium"), **environment))
        for line in done.stdout.splitlines():
            if line.startswith(("# \\#", "# pass", "not ok")):
                print(line.replace("# \\# ", "  "))
        self.assertEqual(done.returncode, 0, done.stdout[-8000:])

    def setUp(self):
        self.modules = install()

    def open(self, program=None):
        shop = Shop(program)
        self.addCleanup(shop.stop)
        return shop

    def test_demo(self):
        shop = self.open()
        shop.traffic(LOAD_S + SETTLE_S)
        self.visit("demo.test.mjs", shop)

    def test_token(self):
        shop = self.open()
        shop.more = {"extensions": {"pages": {"auth": {"token": TOKEN}}}}
        shop.traffic(SETTLE_S)
        self.visit("token.test.mjs", shop, PAGES_TOKEN=TOKEN, PAGES_ADDRESS=shop.address, PAGES_PID=str(shop.spanprof.supervisor))

    def test_status(self):
        """Beside the shop, which publishes, a program that does not."""
        shop = self.open()
        shop.traffic(SETTLE_S)
        url = "http://%s/v1/traces" % shop.spanprof.http_address
        stock = subprocess.Popen(["/usr/bin/python3", "-c", test_status.PYTHON, url, "stock", ""],
                                 env=harness.environment(OTEL_SERVICE_NAME="stock"))
        self.addCleanup(stock.wait)
        self.addCleanup(stock.kill)

        def wanting():
            with urllib.request.urlopen(shop.pages + "/api/status", timeout=10) as answer:
                return [row for row in json.load(answer)["processes"] if "switch" in row and stock.pid in row["pids"]]
        harness.wait_until(wanting, 60, "the switch is shown")
        self.visit("status.test.mjs", shop, PAGES_PID=str(stock.pid), PAGES_SWITCH=test_status.EXEC)

    def renamed(self):
        """The shop, with names of functions that only a linker would take."""
        folder = tempfile.mkdtemp(prefix="spanprof-pages-")
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        os.chmod(folder, 0o755)
        program = os.path.join(folder, "demo_service")
        names = {**{old: new.encode() for old, new in RENAMED.items()}, **INVALID}
        rules = [option for old, new in names.items()
                 for option in ("--redefine-sym", old.encode() + b"=" + new)]
        shop = os.path.join(harness.BUILD, "test", "demo_service")
        subprocess.run(["objcopy", *rules, shop, program], check=True)
        return program

    def send(self, shop):
        """One trace in which everything is named so; its id."""
        trace_id, parent, now = os.urandom(16), None, time.time_ns()
        for i, name in enumerate(NAMES):
            request, spans = sender.new_request({"service.name": name})
            parent = sender.add_span(
                spans, name, trace_id, parent_id=parent, start=now - 900_000_000 + i * 1000,
                end=now - i * 1000, attributes={name[:200]: name, "http.route": name}).span_id
            answer = sender.post(shop.spanprof.http_address, request.SerializeToString())
            self.assertEqual(answer[0], 200)
        return trace_id.hex()

    def test_hostile_names(self):
        shop = self.open(self.renamed())
        shop.traffic(LOAD_S)
        trace = self.send(shop)
        time.sleep(SETTLE_S)
        hostile = {"services": NAMES, "functions": list(RENAMED.values()), "trace": trace}
        self.visit("hostile.test.mjs", shop, PAGES_HOSTILE=json.dumps(hostile))


if __name__ == "__main__":
    harness.main()

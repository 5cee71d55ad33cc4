# SPDX-License-Identifier: Apache-2.0
"""The pages extension: what is answered.

Facts comes to the demo's culprit by following what one answer says to the next.
"""
import gzip
import http.client
import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.parse
import xml.etree.ElementTree as xml

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))
import harness  # noqa: E402

QUESTIONS = ("/api/traces", "/api/functions", "/api/flame", "/api/diff", "/api/timeline", "/api/spans",
             "/api/values", "/api/status", "/flame.svg", "/flame.folded", "/flame.speedscope.json")
CUT_NAME, SHOWN_NAME = "größere-straße", "größere-stra"  # the kernel keeps 15 bytes, the last is half of "ß"
WRONG_NAME, SHOWN_WRONG_NAME = b"not\xffUTF-8", "not?UTF-8"
BUSY = """import ctypes, time
ctypes.CDLL(None).prctl(15, %r, 0, 0, 0)
end = time.process_time() + 1
while time.process_time() < end: pass"""


class Pages(harness.IntegrationTest):
    over = {}  # of the configuration

    def start(self, sampler=False, pages=None, wait=True):
        self.port = harness.free_port()
        settings = dict({"endpoint": "localhost:%d" % self.port, "auth": {"required": False}}, **(pages or {}))
        spanprof = self.spanprof(start=False, sampler=sampler, over=harness.merge({
            "extensions": {"pages": settings},
            "service": {"extensions": ["sqlite_storage", "pages"]}}, self.over))
        self.socket = os.path.join(spanprof.store, "spanprof.sock")
        return spanprof.start() if wait else spanprof

    def tcp(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)

    def ask(self, path, headers=None, connection=None, method="GET", **parameters):
        """(status, headers, body)."""
        if parameters:
            path += "?" + urllib.parse.urlencode(
                {name.rstrip("_"): value for name, value in parameters.items()}, doseq=True)
        connection = connection or self.tcp()
        connection.request(method, path, headers=headers or {})
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        return answer.status, answer.headers, body

    def json(self, path, **parameters):
        status, headers, body = self.ask(path, **parameters)
        self.assertEqual(status, 200, body)
        self.assertEqual(headers["Content-Type"], "application/json")
        return json.loads(body)

    def problem(self, path, status=400, **more):
        got, _, body = self.ask(path, **more)
        self.assertEqual(got, status, body)
        return json.loads(body)["error"]


@harness.needs_sampling
class Shop(Pages):
    """The demo's shop under load: "render receipt" is slow for large carts."""

    samples_the_node = True  # False: the configuration samples the shop alone, and nothing before it runs

    def setUp(self):
        super().setUp()
        self.running = self.start(sampler=True)
        if self.samples_the_node:
            self.running.wait_sampling()
        program = os.path.join(harness.BUILD, "test", "demo_service")
        shop_port = self.shop_port = harness.free_port()
        self.shop = subprocess.Popen([program, str(shop_port), self.running.http_address],
                                     stderr=subprocess.DEVNULL)
        self.addCleanup(self.end_shop)
        self.load(shop_port)

    def end_shop(self):
        self.shop.kill()
        self.shop.wait()

    def load(self, port):
        """Large carts among small ones, until all that they cost has left and is kept."""
        harness.wait_until(lambda: self.buy(port, 1), 10, "the shop answers")
        harness.wait_until(lambda: self.running.metric("spanprof_context_readers", "otel_thread") > 0,
                           20, "the shop's context is read")
        self.begun = "%d" % (time.time() * 1000)  # what was before may lack samples
        for _ in range(8):
            for items in (200, 3, 5):
                self.buy(port, items)
        harness.wait_until(lambda: len(self.traces()) >= 20, 30, "traces are kept")
        harness.wait_until(lambda: self.traces()[0]["samples"] > 5, 30, "samples of the slowest are kept")

    def buy(self, port, items):
        try:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
            connection.request("GET", "/checkout?items=%d" % items)
            return connection.getresponse().status == 200
        except OSError:
            return False

    def traces(self, **parameters):
        return self.json("/api/traces", **dict({"service": "shop", "from_": self.begun}, **parameters))["traces"]


@harness.needs_sampling
class ThreadNames(Pages):
    """A name is the same text wherever it is shown, and what it is asked for by."""
    over = {"processors": {"join": {"wait": "1s"}}}

    def found_by(self, name):
        return self.json("/api/flame", thread=name)["cpu_ns"]

    def test_not_utf8(self):
        self.start(sampler=True).wait_sampling()
        for name in (CUT_NAME.encode(), WRONG_NAME):
            subprocess.run([sys.executable, "-c", BUSY % name], check=True)
        for name in (SHOWN_NAME, SHOWN_WRONG_NAME):
            harness.wait_until(lambda: self.found_by(name) > 5e8, 30, "samples of %r are kept" % name)
        names = {SHOWN_NAME, SHOWN_WRONG_NAME}
        self.assertLessEqual(names, {series["name"] for series in self.json("/api/timeline", by="thread")["series"]})
        self.assertLessEqual(names, set(self.json("/api/values", of="thread")["values"]))
        status, _, profile = self.ask("/debug/pprof/profile", from_="-10m", thread=SHOWN_NAME)
        self.assertEqual(status, 200)
        self.assertIn(SHOWN_NAME.encode(), gzip.decompress(profile))
        self.backend.wait(lambda: names <= {sample.attributes["thread.name"] for sample in self.backend.samples()}, 20,
                          "they have left")
        self.assert_conforming()


class Facts(Shop):
    def test_facts(self):
        for check in (self.from_a_slow_trace_to_its_function_and_back, self.views_agree, self.downloads,
                      self.difference, self.hosts, self.attributes_that_are_not_kept, self.values_and_status,
                      self.counters_that_problems_are_told_by, self.time_to_first_byte):
            with self.subTest(check.__name__):
                check()

    def from_a_slow_trace_to_its_function_and_back(self):
        slowest = self.traces()[0]
        self.assertEqual(slowest["service"], "shop")
        self.assertGreater(slowest["cpu_ns"], 0)
        trace = self.json("/api/trace", trace_id=slowest["trace_id"])
        self.check_trace(trace)
        heaviest = max(trace["spans"], key=lambda span: span["cpu_ns"])
        flame = self.json("/api/flame", trace_id=trace["trace_id"], span_id=heaviest["span_id"])
        self.check_flame(flame)
        self.assertEqual(flame["cpu_ns"], heaviest["cpu_ns"] + sum(
            span["cpu_ns"] for span in self.below(trace, heaviest)))
        function = self.heaviest_function(flame)
        self.assertEqual(function, heaviest["top_function"])
        payers = self.json("/api/spans", function=function)["spans"]
        self.assertEqual(payers[0]["span"], heaviest["name"])
        self.assertEqual(payers[0]["service"], "shop")
        self.assertGreater(payers[0]["self_ns"], 0)
        back = self.json("/api/trace", trace_id=payers[0]["example_trace_id"])
        self.assertIn(heaviest["name"], [span["name"] for span in back["spans"]])
        answer = self.json("/api/functions", service="shop")
        self.assertEqual(answer["functions"][0]["function"], function)
        self.assertEqual(answer["host"], socket.gethostname())
        print("culprit: %s in %s, %s" % (function, heaviest["name"], slowest["name"]))

    def below(self, trace, span):
        ids, found = {span["span_id"]}, []
        for other in trace["spans"]:  # parents stand before children
            if other["parent_span_id"] in ids:
                ids.add(other["span_id"])
                found.append(other)
        return found

    def check_trace(self, trace):
        seen = {"": -1}
        for span in trace["spans"]:
            self.assertIn(span["parent_span_id"], seen)
            self.assertEqual(span["depth"], seen[span["parent_span_id"]] + 1)
            seen[span["span_id"]] = span["depth"]
            self.assertTrue(span["known"])
            self.assertRegex(span["span_id"], "^[0-9a-f]{16}$")
            self.assertLessEqual(sum(length for _, length in span["busy"]), span["cpu_ns"] * 1.01 + 1e6)
        self.assertEqual(trace["cpu_ns"], sum(span["cpu_ns"] for span in trace["spans"]))
        self.assertLess(abs(trace["start_ms"] / 1000 - time.time()), 300)

    def check_flame(self, flame):
        nodes, frames = flame["nodes"], flame["frames"]
        children = [0] * len(nodes["parent"])
        for i, parent in enumerate(nodes["parent"]):
            self.assertLess(parent, i)
            self.assertLess(nodes["frame"][i], len(frames))
            if parent >= 0:
                children[parent] += nodes["total_ns"][i]
        for i, total in enumerate(nodes["total_ns"]):
            self.assertEqual(total, nodes["self_ns"][i] + children[i])
        self.assertEqual(sum(nodes["self_ns"]), flame["cpu_ns"])
        for frame in frames:
            self.assertLess(max(frame["function"], frame["file"], frame["module"]), len(flame["strings"]))
            self.assertIn(frame["type"], ("kernel", "native", "go", "jit", "truncated", "others"))
        self.assertGreater(flame["period_ns"], 1e6)

    def heaviest_function(self, flame):
        sums = {}
        for frame, self_ns in zip(flame["nodes"]["frame"], flame["nodes"]["self_ns"]):
            sums[frame] = sums.get(frame, 0) + self_ns
        frame = max(sums, key=sums.get)
        return flame["strings"][flame["frames"][frame]["function"]]

    def views_agree(self):
        """The same question, asked in other forms, has the same sums."""
        filters = {"service": "shop", "from_": "-10m", "to": "%d" % (time.time() * 1000)}
        flame = self.json("/api/flame", **filters)
        callers = self.json("/api/flame", view="callers", **filters)
        self.check_flame(flame)
        self.check_flame(callers)
        functions = self.json("/api/functions", limit=10000, **filters)
        timeline = self.json("/api/timeline", **filters)
        payers = self.json("/api/spans", **filters)
        self.assertGreater(flame["cpu_ns"], 0)
        for other in (callers, functions, payers):
            self.assertEqual(other["cpu_ns"], flame["cpu_ns"])
        own = sum(entry["self_ns"] for entry in functions["functions"])
        self.assertLessEqual(own, flame["cpu_ns"])  # less what was cut before its first frame
        self.assertGreater(own, 0.9 * flame["cpu_ns"])
        self.assertEqual(sum(series["cpu_ns"] for series in timeline["series"]), flame["cpu_ns"])
        for series in timeline["series"]:
            self.assertEqual(sum(series["buckets_ns"]), series["cpu_ns"])
        self.check_costs(functions)

    def check_costs(self, answer):
        costs, seconds = answer["costs"], (answer["to_ms"] - answer["from_ms"]) / 1000
        for entry in answer["functions"]:
            hours = entry["self_ns"] / 3600e9 * 31536000 / seconds
            annual = entry["annual"]
            self.assertAlmostEqual(annual["self_core_hours"], hours, delta=hours * 1e-4)
            kg = hours * costs["watt_per_core"] / 1000 * costs["pue"] * costs["co2_t_per_kwh"] * 1000
            self.assertAlmostEqual(annual["self_co2_kg"], kg, delta=kg * 1e-4)
            usd = hours * costs["usd_per_core_hour"]
            self.assertAlmostEqual(annual["self_usd"], usd, delta=usd * 1e-4)
        self.assertEqual([entry["rank"] for entry in answer["functions"]],
                         list(range(1, len(answer["functions"]) + 1)))

    def downloads(self):
        filters = {"service": "shop", "from_": "-10m", "to": "%d" % (time.time() * 1000)}
        flame = self.json("/api/flame", **filters)
        status, headers, svg = self.ask("/flame.svg", **filters)
        self.assertEqual((status, headers["Content-Type"]), (200, "image/svg+xml"))
        root = xml.fromstring(svg)
        titles = [title.text for title in root.iter("{http://www.w3.org/2000/svg}title")]
        self.assertGreater(len(titles), 10)
        about = next(root.iter("{http://www.w3.org/2000/svg}desc")).text
        self.assertRegex(about, r"^[\d.]+ s of CPU time, \d+ samples, \d{4}-\d\d-\d\d [\d:]+ to [-\d: ]+ UTC, "
                                "service shop$")
        status, headers, folded = self.ask("/flame.folded", **filters)
        self.assertIn("flame.folded", headers["Content-Disposition"])
        total = 0
        for line in folded.decode().splitlines():
            self.assertRegex(line, r"^.+ \d+$")
            total += int(line.rsplit(" ", 1)[1])
        self.assertEqual(total, flame["samples"])
        scope = self.json("/flame.speedscope.json", **filters)
        profile = scope["profiles"][0]
        self.assertEqual(sum(profile["weights"]), flame["cpu_ns"])
        self.assertEqual(len(profile["samples"]), len(profile["weights"]))
        self.assertLess(max(max(sample) for sample in profile["samples"]), len(scope["shared"]["frames"]))

    def difference(self):
        now = time.time() * 1000
        same = {"service": "shop", "from_": "-10m", "to": "%d" % now}
        diff = self.json("/api/diff", base_to="%d" % now, **same)
        self.assertEqual(diff["nodes"]["self_ns"], diff["nodes"]["base_self_ns"])
        self.assertEqual(diff["cpu_ns"], diff["base_cpu_ns"])
        for line in self.ask("/flame.folded", base_to="%d" % now, **same)[2].decode().splitlines():
            self.assertRegex(line, r"^.+ (\d+) \1$")
        gone = self.ask("/flame.folded", **dict(same, span="no such span", base_span=""))[2].decode().splitlines()
        self.assertEqual(sum(int(line.split()[-2]) for line in gone), diff["samples"])
        self.assertEqual({line.split()[-1] for line in gone}, {"0"})
        svg = self.ask("/flame.svg", base_span="no such span", **same)[2]
        self.assertIn(b"; before: 0.000 s of CPU time, 0 samples", svg)
        self.assertIn(b"; before 0.0 \xc2\xb5s, change +", svg)
        xml.fromstring(svg)
        self.assertIn("base_from", self.problem("/flame.speedscope.json", base_from="-1h"))
        empty = self.json("/api/diff", base_span="no such span", **same)
        self.assertEqual((empty["base_samples"], sum(empty["nodes"]["base_total_ns"])), (0, 0))
        functions = self.json("/api/functions", base_to="%d" % now, **same)["functions"]
        for entry in functions:
            self.assertEqual((entry["rank"], entry["self_ns"]), (entry["base_rank"], entry["base_self_ns"]))

    def hosts(self):
        """This node's name lets all pass, another's nothing; a group has its name."""
        here, elsewhere = socket.gethostname(), "not-" + socket.gethostname()
        filters = {"service": "shop", "from_": self.begun, "to": "%d" % (time.time() * 1000)}
        for path in ("/api/flame", "/api/functions", "/api/spans"):
            cpu_ns = self.json(path, **filters)["cpu_ns"]
            self.assertGreater(cpu_ns, 0, path)
            self.assertEqual(self.json(path, host=here, **filters)["cpu_ns"], cpu_ns, path)
            answer = self.json(path, host=elsewhere, **filters)
            self.assertEqual((answer["cpu_ns"], answer["samples"], answer["complete"]), (0, 0, True), path)
        self.assertEqual(self.traces(host=here), self.traces())
        answer = self.json("/api/traces", host=elsewhere)
        self.assertEqual((answer["traces"], answer["searched_spans"]), ([], 0))
        self.assertEqual(self.ask("/flame.folded", host=elsewhere)[2], b"")
        self.assertIn(b"host " + here.encode(), self.ask("/flame.svg", host=here, **filters)[2])
        timeline = self.json("/api/timeline", by="host", **filters)
        self.assertEqual((timeline["by"], [series["name"] for series in timeline["series"]]), ("host", [here]))
        self.assertEqual(timeline["series"][0]["cpu_ns"], cpu_ns)
        self.assertEqual(self.json("/api/timeline", by="host", host=elsewhere)["series"], [])
        self.assertEqual(self.json("/api/values", of="host")["values"], [here])
        diff = self.json("/api/diff", base_host=elsewhere, **filters)
        self.assertEqual((diff["cpu_ns"], diff["base_cpu_ns"]), (cpu_ns, 0))
        self.assertIn("host", self.problem("/api/timeline", by="node"))

    def attributes_that_are_not_kept(self):
        """Nothing is found by them, and the answer is why; by those that are kept nothing is an answer."""
        for path in QUESTIONS + ("/flame.pb.gz",):
            if path == "/api/status":
                continue
            said = self.problem(path, attribute=["http.route=/checkout", "cart.items=200"])
            self.assertIn("cart.items, which is not kept of spans", said)
            self.assertIn("processors::join::span_attributes", said)
            self.assertIn("http.route, rpc.service", said)
            self.assertEqual(self.ask(path, attribute="http.route=/nowhere")[0], 200, path)
        self.assertTrue(self.traces(attribute="http.route=/checkout"))
        self.assertIn("cart.items", self.problem("/api/diff", base_attribute="cart.items=200"))
        self.assertEqual(self.ask("/debug/pprof/profile", attribute="cart.items=200", seconds=1)[0], 200)
        self.assertEqual(self.ask("/v1development/profiles", attribute="cart.items=200")[0], 200)

    def values_and_status(self):
        self.assertIn("shop", self.json("/api/values", of="service")["values"])
        self.assertTrue(self.json("/api/values", of="span", service="shop")["values"])
        status = self.json("/api/status")
        self.assertEqual(status["host"], socket.gethostname())
        self.assertEqual({pipeline["name"] for pipeline in status["pipelines"]}, {"traces", "profiles"})
        self.assertEqual({queue["signal"] for queue in status["queues"]}, {"traces", "profiles"})
        shop = [process for process in status["processes"] if process["pid"] == self.shop.pid]
        self.assertEqual(len(shop), 1, status["processes"])
        self.assertEqual(shop[0]["service"], "shop")
        self.assertGreater(shop[0]["in_span"], 0)
        self.assertLessEqual(shop[0]["in_span"], shop[0]["samples"])
        self.assertGreater(sum(reader["count"] for reader in status["readers"]), 0)
        self.assertGreater(status["history"]["bytes"], 0)
        self.assertEqual(status["history"]["expired_blocks"], 0)
        for problem in status["problems"]:
            self.assertTrue(problem["what"] and problem["do"])

    def counters_that_problems_are_told_by(self):
        """Each exists: a renamed one would never be told again."""
        sources = os.path.join(harness.SOURCE, "exporter", "pages")
        names = set()
        for name in ("pages_problems.c", "pages_status.c"):
            with open(os.path.join(sources, name)) as file:
                names.update(re.findall(r'"(spanprof_[a-z_]+)"', file.read()))
        self.assertGreater(len(names), 10)
        self.assertEqual(names - {key.split("{")[0] for key in self.running.metrics()}, set())

    def time_to_first_byte(self):
        """Figures, and a bound that is far from them."""
        for path in ("/",) + QUESTIONS:
            begun = time.monotonic()
            connection = self.tcp()
            connection.request("GET", path)
            answer = connection.getresponse()
            took = time.monotonic() - begun
            size = len(answer.read())
            connection.close()
            print("ttfb %-26s %7.1f ms %9d bytes" % (path, took * 1e3, size))
            self.assertEqual(answer.status, 200)
            self.assertLess(took, 3 * harness.SLOWNESS, path)


if __name__ == "__main__":
    harness.main()

# SPDX-License-Identifier: Apache-2.0
"""Who else reads what is scraped: `go tool pprof`, the library that Parca, Grafana Alloy and the Collector's pprof
receiver read with, Pyroscope's messages, profcheck, and Prometheus's parser, each on the shop under load. And, where
they are to be had, the programs themselves: the Collector, Parca, and Pyroscope (test_pyroscope.py).

SPANPROF_PPROF_COLLECTOR names a Collector with the receiver pprof (one that has `remote`) and the exporter file,
SPANPROF_PARCA a Parca; else they are pprof-collector and parca in build/peers/go/bin or in PATH; without, it is not
asked.
"""
import base64
import calendar
import contextlib
import json
import os
import re
import subprocess
import sys
import threading
import time
import unittest
import urllib.parse
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
INTEGRATION = os.path.join(os.path.dirname(HERE), "integration")
sys.path[:0] = [HERE, os.path.join(HERE, "sdk"), os.path.join(INTEGRATION, "support"), os.path.join(INTEGRATION, "pages")]
import collector_program  # noqa: E402
import elastic_agents  # noqa: E402
import go_toolchain  # noqa: E402
import harness  # noqa: E402
import receiver  # noqa: E402
import sdk_clients  # noqa: E402
import test_pages  # noqa: E402
import test_profcheck  # noqa: E402
import test_scrape  # noqa: E402

SOURCES = os.path.join(HERE, "pprof")
PPROF, FLAME = "/debug/pprof/profile", "/flame.pb.gz"
SERVICE, CULPRIT, SPAN = "shop", "glyph_advance", "render receipt"
COLLECTOR = go_toolchain.program("pprof-collector", "SPANPROF_PPROF_COLLECTOR")
PARCA = go_toolchain.program("parca", "SPANPROF_PARCA")
CUT_NAME, SHOWN_NAME = "größen-straß".encode()[:-1], "größen-stra"
BUSY = "import ctypes, time; ctypes.CDLL(None).prctl(15, %r, 0, 0, 0)\nwhile time.process_time() < 2: pass"
SCRAPE_SECONDS = 10  # Parca's interval
PARCA_GIVES_UP_S = SCRAPE_SECONDS + 3
COLLECTOR_ASKS_EACH_S = 5


class Peer(test_pages.Shop):
    """self.range: of it all samples are kept, and no more come."""

    def setUp(self):
        self.prepare()
        super().setUp()

    def prepare(self):
        """Skips where the peer is not to be had."""

    def settle(self):
        """A sample without a span may come as late as the join waits."""
        latest = [None, time.monotonic()]
        self.range = {"from_": self.begun, "to": "%d" % (time.time() * 1000)}

        def stays():
            samples = self.json("/api/flame", **self.range)["samples"]
            if samples != latest[0]:
                latest[:] = [samples, time.monotonic()]
            return time.monotonic() - latest[1] > 12

        harness.wait_until(stays, 120 * harness.SLOWNESS, "all samples are kept")

    @contextlib.contextmanager
    def working(self):
        """The shop has something to do."""
        ended = threading.Event()

        def buy():
            while not ended.is_set():
                self.buy(self.shop_port, 200)
                time.sleep(0.05)

        thread = threading.Thread(target=buy)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def url(self, path, **parameters):
        query = urllib.parse.urlencode({name.rstrip("_"): value for name, value in parameters.items()})
        return "http://localhost:%d%s?%s" % (self.port, path, query)

    def saved(self, name, path, **parameters):
        """The file that holds the answer."""
        status, _, body = self.ask(path, **parameters)
        self.assertEqual(status, 200, body)
        name = os.path.join(self.directory, name)
        with open(name, "wb") as file:
            file.write(body)
        return name

    def functions(self, **filters):
        """CPU time by name of function: its own, and with all that it calls."""
        answer = self.json("/api/functions", limit=10000, **filters)
        self.assertTrue(answer["complete"])
        own = {}
        for entry in answer["functions"]:
            own[entry["function"]] = own.get(entry["function"], 0) + entry["self_ns"]
        return answer, own

    def spans(self, **filters):
        """CPU time by name of span."""
        found = {}
        for entry in self.json("/api/spans", **filters)["spans"]:
            found[entry["span"]] = found.get(entry["span"], 0) + entry["cpu_ns"]
        return found


def named(own):
    """Without those of which no more than the module is known."""
    return {name: ns for name, ns in own.items() if ns and not name.startswith("[")}


def nanoseconds(text):
    return int(text.removesuffix("ns"))


class GoToolPprof(Peer):
    """As a person uses it, without options that would make it quieter."""

    def prepare(self):
        if not go_toolchain.GO:
            self.skipTest("no go in PATH")

    def pprof(self, *arguments):
        """What it prints; nothing but what it fetches and where it puts that may be on standard error."""
        variables = go_toolchain.environment("modules", PPROF_TMPDIR=self.directory, TZ="UTC")
        done = subprocess.run([go_toolchain.GO, "tool", "pprof", *arguments], env=variables, capture_output=True,
                              text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        said = [line for line in done.stderr.splitlines()
                if not line.startswith(("Fetching profile over HTTP from ", "Please wait... (", "Saved profile in "))]
        self.assertEqual(said, [])
        return done.stdout

    def test_reports(self):
        self.settle()
        shop = dict(self.range, service=SERVICE)
        trace = {"trace_id": self.traces()[0]["trace_id"]}
        for name, filters in (("of the shop", shop), ("of a trace", trace)):
            for source in (self.url(PPROF, **filters), self.url(FLAME, **filters),
                           self.saved("profile.pb.gz", FLAME, **filters)):
                with self.subTest(name, source=source):
                    self.check_top(source, filters)
                    self.check_raw(source, filters)
                    self.check_tags(source, filters)
                    self.check_peek(source, filters)

    def check_top(self, source, filters):
        answer, own = self.functions(**filters)
        said = self.pprof("-top", "-unit=ns", "-nodecount=100000", "-nodefraction=0", source)
        self.assertIn("Type: cpu\n", said)
        self.assertEqual(nanoseconds(re.search(r", 100% of (\d+ns) total", said).group(1)), answer["cpu_ns"])
        row = r"(?m)^ *(\d+ns|0) +[\d.]+% +[\d.]+% +(?:\d+ns|0) +[\d.]+%  (.+?)(?: \((?:partial-)?inline\))?$"
        rows = {}
        for flat, function in re.findall(row, said):
            rows[function] = rows.get(function, 0) + nanoseconds(flat)
        self.assertEqual(sum(rows.values()), answer["cpu_ns"])
        self.assertEqual({name: ns for name, ns in rows.items() if ns}, {name: ns for name, ns in own.items() if ns})
        self.assertGreater(rows[CULPRIT], 0)

    def check_raw(self, source, filters):
        """Each sample has both ids or none, and those with are as many as the spans have."""
        said = self.pprof("-raw", source)
        self.assertIn("PeriodType: cpu nanoseconds\n", said)
        self.assertIn("samples/count cpu/nanoseconds[dflt]\n", said)
        total = labelled = 0
        body = said[said.index("[dflt]\n") + len("[dflt]\n"):said.index("Locations\n")]
        for ns, labels in re.findall(r"^ +\d+ +(\d+): [\d ]*\n((?: +[a-z_]+:\[.*\n)*)", body, re.M):
            ids = re.findall(r"\b(trace_id):\[[0-9a-f]{32}\]|\b(span_id):\[[0-9a-f]{16}\]", labels)
            self.assertIn(len(ids), (0, 2), labels)
            total += int(ns)
            labelled += int(ns) if ids else 0
        self.assertEqual(total, self.json("/api/flame", **filters)["cpu_ns"])
        self.assertEqual(labelled, sum(ns for name, ns in self.spans(**filters).items() if name))
        self.assertGreater(labelled, 0)

    def check_tags(self, source, filters):
        said = self.pprof("-tags", "-unit=ns", source)
        tags = {}
        for key, values in re.findall(r"^ *([a-z_]+): Total .*\n((?: +\d+ns .*\n)+)", said, re.M):
            tags[key] = {value: nanoseconds(ns)
                         for ns, value in re.findall(r"^ +(\d+ns) \( *[\d.]+%\): (.+)$", values, re.M)}
        self.assertEqual(set(tags) - {"container"}, {"trace_id", "span_id", "span_name", "service", "thread"})
        self.assertEqual(tags["span_name"], {name: ns for name, ns in self.spans(**filters).items() if name})
        self.assertEqual(set(tags["service"]), {SERVICE})
        slowest = self.traces()[0]
        self.assertEqual(tags["trace_id"][slowest["trace_id"]], slowest["cpu_ns"])

    def check_peek(self, source, filters):
        said = self.pprof("-peek=^%s$" % CULPRIT, "-unit=ns", source)
        own = self.functions(**filters)[1][CULPRIT]
        self.assertRegex(said, r"(?m)^ *%dns +[\d.]+%% +[\d.]+%% +\d+ns +[\d.]+%% +\| %s" % (own, CULPRIT))

    def test_next_seconds(self):
        """`go tool pprof -seconds 3 URL`, with a shop that works meanwhile; by itself it hardly waits long enough."""
        began = time.time()
        with self.working():
            said = self.pprof("-top", "-seconds=3", "-timeout=20", self.url(PPROF, service=SERVICE))
        self.assertIn("Duration: 3s", said)
        self.assertIn(CULPRIT, said)
        at = re.search(r"^Time: (\S+ \S+ UTC)$", said, re.M).group(1)
        self.assertGreaterEqual(calendar.timegm(time.strptime(at, "%Y-%m-%d %H:%M:%S UTC")), int(began))

    def test_last_seconds(self):
        """From 10 seconds on the answer comes before pprof gives up."""
        with self.working():
            said = self.pprof("-top", "-seconds=10", self.url(PPROF, service=SERVICE))
        self.assertIn("Duration: 10s", said)
        self.assertIn(CULPRIT, said)


class Readers(Peer):
    """google/pprof and Pyroscope's messages (test/peers/pprof/read)."""

    def prepare(self):
        try:
            self.program = go_toolchain.build_module(os.path.join(SOURCES, "read"), "pprof_read")
        except go_toolchain.Missing as missing:
            self.skipTest(str(missing))

    def read(self, *paths):
        done = subprocess.run([self.program, *paths], capture_output=True, text=True, timeout=120)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return json.loads(done.stdout)

    def check(self, sums, filters):
        answer, own = self.functions(**filters)
        flame, spans = self.json("/api/flame", **filters), self.spans(**filters)
        self.assertEqual((sums["cpu_ns"], sums["count"]), (answer["cpu_ns"], flame["samples"]))
        self.assertEqual({name: ns for name, ns in sums["self_ns"].items() if name and ns},
                         {name: ns for name, ns in own.items() if name in sums["self_ns"] and ns})
        self.assertEqual(sums["in_span_ns"], sum(ns for name, ns in spans.items() if name))
        self.assertEqual({name: ns for name, ns in sums["span_ns"].items() if name},
                         {name: ns for name, ns in spans.items() if name})
        self.assertEqual((sums["types"], sums["default_type"]), (["samples/count", "cpu/nanoseconds"], "cpu"))
        self.assertEqual(sums["period_ns"], flame["period_ns"])
        self.assertLess(abs(sums["start_ns"] / 1e6 - flame["from_ms"]), 1)
        self.assertLess(abs(sums["duration_ns"] / 1e6 - (flame["to_ms"] - flame["from_ms"])), 1)

    def test_files(self):
        subprocess.run([sys.executable, "-c", BUSY % CUT_NAME], check=True)  # a name as the kernel cuts it
        self.settle()
        asked = {"node": self.range, "shop": dict(self.range, service=SERVICE),
                 "span": dict(self.range, span=SPAN), "trace": {"trace_id": self.traces()[0]["trace_id"]},
                 "none": dict(self.range, service="none")}
        files = {name: self.saved(name + ".pb.gz", PPROF, **filters) for name, filters in asked.items()}
        read = self.read(*files.values())
        for name, filters in asked.items():
            with self.subTest(name):
                sums = read[files[name]]
                self.check(sums, filters)
                self.assertEqual(read["pyroscope " + files[name]], sums)
                self.assertEqual(read["compact " + files[name]], sums)  # nothing is there twice
                print("%s: %d samples, %.1f s of CPU time, %d functions" % (
                    name, sums["count"], sums["cpu_ns"] / 1e9, sums["functions"]), flush=True)
        self.assertEqual(read["merged"]["cpu_ns"], sum(read[path]["cpu_ns"] for path in files.values()))
        self.assertEqual(read["merged"]["in_span_ns"], sum(read[path]["in_span_ns"] for path in files.values()))
        self.assertEqual(read[files["none"]]["cpu_ns"], 0)
        self.assertGreater(read[files["node"]]["thread_ns"].get(SHOWN_NAME, 0), 10 ** 9)
        self.assertEqual(max(read[files["span"]]["self_ns"], key=read[files["span"]]["self_ns"].get), CULPRIT)

    def test_scraped_again_and_again(self):
        """As Parca does by default, which waits 3 s longer than its interval: nothing is missed, nothing told twice."""
        files = []
        with self.working():
            for i in range(3):
                began = time.monotonic()
                with urllib.request.urlopen(self.url(PPROF, seconds=SCRAPE_SECONDS, service=SERVICE),
                                            timeout=PARCA_GIVES_UP_S) as answer:
                    body = answer.read()
                self.assertLess(time.monotonic() - began, PARCA_GIVES_UP_S)
                files.append(os.path.join(self.directory, "scrape-%d.pb.gz" % i))
                with open(files[-1], "wb") as file:
                    file.write(body)
        self.settle()
        read = self.read(*files)
        scraped, kept, before = 0, 0, None
        for path in files:
            start, end = read[path]["start_ns"], read[path]["start_ns"] + read[path]["duration_ns"]
            self.assertEqual(end - start, SCRAPE_SECONDS * 10 ** 9)
            self.assertIn((start - (before or start)) // 10 ** 8, (0, 1, 2))  # tenths of a second
            before = end
            scraped += read[path]["cpu_ns"]
            kept += self.json("/api/flame", service=SERVICE, from_="%d" % (start // 10 ** 6),
                              to="%d" % (end // 10 ** 6 + 1))["cpu_ns"]
        print("scraped %.2f s of %.2f s" % (scraped / 1e9, kept / 1e9), flush=True)
        self.assertGreater(scraped, 5 * 10 ** 9)
        self.assertLessEqual(scraped, kept)
        self.assertGreater(scraped, 0.98 * kept)


class Profcheck(Peer):
    """What is scraped as OTLP conforms."""

    def prepare(self):
        if not test_profcheck.profcheck():
            self.skipTest("no profcheck")

    def bodies(self, name, **parameters):
        scraper, files = test_scrape.Scraper(self, **parameters), []
        for _ in range(1000):
            cursor = {} if scraper.cursor is None else {"since": scraper.cursor}
            more = scraper.step()
            path = self.saved("%s-%d.otlp" % (name, len(files)), test_scrape.PATH, **parameters, **cursor)
            if os.path.getsize(path):
                files.append(path)
            if not more:
                return files, scraper.samples
        self.fail("no end")

    def test_scrapes(self):
        self.settle()
        for name, filters in (("whole", {}), ("shop", {"service": SERVICE}), ("function", {"function": CULPRIT}),
                              ("trace", {"trace_id": self.traces()[0]["trace_id"]})):
            with self.subTest(name):
                files, samples = self.bodies(name, **filters)
                for path in files:
                    done = subprocess.run([test_profcheck.profcheck(), *test_profcheck.STRICT, path],
                                          capture_output=True, text=True, timeout=60)
                    self.assertEqual(done.returncode, 0, done.stdout[:3000])
                self.assertTrue(any(CULPRIT in sample.functions() for sample in samples))
                print("%s: %d requests of %d samples conform" % (name, len(files), len(samples)), flush=True)


class Prometheus(Peer):
    """Its Python library reads what the metrics port says."""
    over = {"service": {"telemetry": {"metrics": {"spans": True}}}}

    def prepare(self):
        venv = os.path.join(elastic_agents.PEERS, "pprof", "venv")
        self.python = os.path.join(venv, "bin", "python")
        try:
            sdk_clients.run(["/usr/bin/python3", "-m", "venv", venv])
            sdk_clients.run([self.python, "-m", "pip", "-q", "install", "-r",
                             os.path.join(SOURCES, "prometheus", "requirements.txt")])
        except sdk_clients.Missing as missing:
            self.skipTest(str(missing))

    def families(self, path):
        url = "http://127.0.0.1:%d%s" % (self.running.metrics_port, path)
        with urllib.request.urlopen(url, timeout=20) as answer:
            kind, text = answer.headers["Content-Type"], answer.read().decode()
        done = subprocess.run([self.python, os.path.join(SOURCES, "prometheus", "read.py"), kind], input=text,
                              capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])
        return json.loads(done.stdout)

    def test_spans(self):
        self.settle()
        families = self.families("/metrics/spans")
        self.assertEqual(set(families), {"spanprof_span_cpu_seconds"})
        family = families["spanprof_span_cpu_seconds"]
        self.assertEqual((family["type"], family["unit"]), ("counter", "seconds"))
        kept = self.spans(service=SERVICE, from_="-1h")
        seen = {}
        for sample in family["samples"]:
            self.assertEqual(sample["name"], "spanprof_span_cpu_seconds_total")
            self.assertEqual(set(sample["labels"]), {"service_name", "span_name"})
            if sample["labels"]["service_name"] == SERVICE:
                seen[sample["labels"]["span_name"]] = sample["value"]
                self.check_exemplar(sample)
        self.assertEqual(set(seen), {name for name in kept if name})
        for name, seconds in seen.items():
            self.assertAlmostEqual(seconds, kept[name] / 1e9, delta=1e-6, msg=name)
        print("spans: %s" % seen, flush=True)

    def check_exemplar(self, sample):
        """A trace of which the pages say that this span had CPU time in it."""
        exemplar = sample["exemplar"]
        self.assertEqual(set(exemplar["labels"]), {"trace_id", "span_id"})
        self.assertLessEqual(exemplar["value"], sample["value"])
        self.assertLess(abs(exemplar["timestamp"] - time.time()), 600)
        trace = self.json("/api/trace", trace_id=exemplar["labels"]["trace_id"])
        spans = [(span["name"], span["samples"] > 0) for span in trace["spans"]
                 if span["span_id"] == exemplar["labels"]["span_id"]]
        self.assertEqual(spans, [(sample["labels"]["span_name"], True)])

    def test_own(self):
        families = self.families("/metrics")
        self.assertGreater(len(families), 50)
        for name, family in families.items():
            self.assertIn(family["type"], ("counter", "gauge"), name)
            self.assertTrue(family["help"], name)


@unittest.skipUnless(COLLECTOR, "no pprof-collector")
class Collector(Peer):
    """It asks for what is kept, again and again; each time all samples arrive, as OTLP.

    It sorts the functions of a frame by their lines, so that of those inlined into one which is innermost is lost; the
    shop has none.
    """

    def scraped(self, **filters):
        """The samples of its first answer; those of spans have attributes, for pprof has no links."""
        config = {"receivers": {"pprof": {"remote": {"endpoint": self.url(PPROF, **filters),
                                                     "collection_interval": "%ds" % COLLECTOR_ASKS_EACH_S}}},
                  "exporters": {"file/profiles": collector_program.file_exporters(self.directory)["file/profiles"]},
                  "service": {"pipelines": {"profiles": {"receivers": ["pprof"], "exporters": ["file/profiles"]}}}}
        collector = collector_program.Collector(COLLECTOR, self.directory, "pprof", config, [])
        self.addCleanup(collector.stop)
        collector.start()
        harness.wait_until(lambda: len(collector_program.written(self.directory, "profiles")) > 1, 60,
                           "profiles are written twice")
        collector.stop()
        messages = collector_program.written(self.directory, "profiles")
        for message in messages:
            if not message.dictionary.link_table:  # which it leaves out when no sample refers to it
                message.dictionary.link_table.add()
        first, second = (receiver.samples_of(message) for message in messages[:2])
        self.assertEqual(len(first), len(second))
        return first

    @staticmethod
    def sums(samples, key):
        """Values by what key says of a sample."""
        found = {}
        for sample in samples:
            found[key(sample)] = found.get(key(sample), 0) + sum(sample.values)
        return found

    def test_receiver(self):
        self.settle()
        filters = dict(self.range, service=SERVICE)
        samples = self.scraped(**filters)
        flame, (answer, own) = self.json("/api/flame", **filters), self.functions(**filters)
        self.assertEqual(self.sums(samples, lambda sample: (sample.type, sample.unit)),
                         {("cpu", "nanoseconds"): answer["cpu_ns"], ("samples", "count"): flame["samples"]})
        self.assertEqual({sample.period for sample in samples}, {flame["period_ns"]})
        cpu = [sample for sample in samples if sample.type == "cpu"]
        seen = self.sums(cpu, lambda sample: sample.frames[0].function)
        self.assertEqual({name: ns for name, ns in seen.items() if name}, named(own))
        self.check_attributes(cpu, filters)
        print("%d samples, %.1f s of CPU time, %d functions" % (
            len(samples), answer["cpu_ns"] / 1e9, len(own)), flush=True)

    def check_attributes(self, cpu, filters):
        """CPU time by each of them is what the pages say; to the nanosecond for each span of a trace."""
        self.assertEqual({name for sample in cpu for name in sample.attributes} - {"container"},
                         {"trace_id", "span_id", "span_name", "service", "thread"})
        self.assertEqual({sample.attributes["service"] for sample in cpu}, {SERVICE})
        by_name = self.sums(cpu, lambda sample: sample.attributes.get("span_name", ""))
        self.assertEqual(by_name, self.spans(**filters))
        self.assertGreater(by_name[SPAN], 0)
        slowest = self.json("/api/trace", trace_id=self.traces()[0]["trace_id"])
        by_span = self.sums([sample for sample in cpu if sample.attributes.get("trace_id") == slowest["trace_id"]],
                            lambda sample: sample.attributes["span_id"])
        self.assertEqual(by_span, {span["span_id"]: span["cpu_ns"] for span in slowest["spans"] if span["cpu_ns"]})


@unittest.skipUnless(PARCA, "no parca")
class Parca(Peer):
    """The server itself scrapes, and has what the pages have."""

    def start_parca(self):
        address = "127.0.0.1:%d" % harness.free_port()
        unused = {name: {"enabled": False} for name in ("memory", "block", "goroutine", "mutex")}
        config = {"object_storage": {"bucket": {"type": "FILESYSTEM", "config": {
                      "directory": os.path.join(self.directory, "parca")}}},
                  "scrape_configs": [{
                      "job_name": "spanprof", "scrape_interval": "%ds" % SCRAPE_SECONDS,
                      "static_configs": [{"targets": ["localhost:%d" % self.port]}],
                      "params": {"service": [SERVICE]},
                      "profiling_config": {"pprof_config": {"process_cpu": {
                          "enabled": True, "path": PPROF, "delta": True}, **unused}}}]}
        path = os.path.join(self.directory, "parca.yaml")
        with open(path, "w") as file:
            json.dump(config, file)
        with open(os.path.join(self.directory, "parca.log"), "wb") as log:
            process = subprocess.Popen([PARCA, "--config-path", path, "--http-address", address],
                                       stdout=log, stderr=log)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return "http://%s/api/profiles/" % address

    @staticmethod
    def get(url, **parameters):
        try:
            with urllib.request.urlopen(url + "?" + urllib.parse.urlencode(parameters), timeout=20) as answer:
                return json.load(answer)
        except (urllib.error.URLError, ConnectionError):  # not there yet, or nothing of that
            return {}

    def profile(self, api):
        """Of all that it has scraped, as pprof; None."""
        now = time.time()
        stamp = [time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(t)) for t in (now - 600, now + 60)]
        answer = self.get(api + "query", mode="MODE_MERGE", report_type="REPORT_TYPE_PPROF", **{
            "merge.query": 'process_cpu:cpu:nanoseconds:cpu:nanoseconds:delta{job="spanprof"}',
            "merge.start": stamp[0], "merge.end": stamp[1]})
        return base64.b64decode(answer["pprof"]) if "pprof" in answer else None

    def test_server(self):
        api = self.start_parca()
        with self.working():
            types = harness.wait_until(lambda: self.get(api + "types").get("types"), 60, "Parca has a profile")
            time.sleep(SCRAPE_SECONDS + 5)
        self.assertEqual({(kind["name"], kind["sampleType"], kind["sampleUnit"], kind["periodType"], kind["delta"])
                          for kind in types},
                         {("process_cpu", "cpu", "nanoseconds", "cpu", True),
                          ("process_cpu", "samples", "count", "cpu", True)})
        path = os.path.join(self.directory, "of-parca.pb.gz")
        with open(path, "wb") as file:
            file.write(self.profile(api))
        said = subprocess.run([go_toolchain.GO, "tool", "pprof", "-top", "-nodecount=100000", "-nodefraction=0", path],
                              env=go_toolchain.environment("modules", PPROF_TMPDIR=self.directory),
                              capture_output=True, text=True, timeout=120).stdout
        rows = re.findall(r"(?m)^ *[\d.]+m?s +[\d.]+% +[\d.]+% +[\d.]+m?s +[\d.]+%  (.+)$", said)
        print("%d functions, most in %s" % (len(rows), rows[:1]), flush=True)
        self.assertEqual(rows[0], CULPRIT, said)


if __name__ == "__main__":
    harness.main()

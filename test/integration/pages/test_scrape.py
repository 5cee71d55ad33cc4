# SPDX-License-Identifier: Apache-2.0
"""What machines fetch: OTLP profiles since a cursor, and pprof.

The exporter sends the same samples to the harness's backend: that is what they are held against.
"""
import collections
import contextlib
import gzip
import http.client
import json
import os
import re
import socket
import sys
import threading
import time
import unittest
import urllib.parse

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))
import harness  # noqa: E402
import receiver  # noqa: E402
import receiver_check  # noqa: E402
import receiver_schema  # noqa: E402
import receiver_wire  # noqa: E402
import test_pages  # noqa: E402

PATH = "/v1development/profiles"
TICK_NS = 100000  # times in the history are rounded down to it


def keys_of(samples, pid):
    """One for each tick of that shop, the time last."""
    return sorted((sample.trace_id or "", sample.span_id or "", sample.attributes.get("spanprof.stack.id", ""),
                   sample.attributes.get("thread.name", ""), sample.attributes.get("span.name", ""), at)
                  for sample in samples
                  if sample.resource.get("service.name") == "shop" and sample.resource.get("process.pid") == pid
                  for at in sample.times)


class Scraper:
    """Goes on from cursor to cursor."""

    def __init__(self, test, **parameters):
        self.test, self.parameters = test, parameters
        self.cursor, self.samples, self.bodies, self.violations = None, [], 0, []
        self.untaken = None  # a list: bodies are put there, to be looked at by take_all()

    def step(self):
        """True: there is more already."""
        parameters = dict(self.parameters)
        if self.cursor is not None:
            parameters["since"] = self.cursor
        status, headers, body = self.test.ask(PATH, **parameters)
        self.test.assertEqual(status, 200, body)
        self.test.assertEqual(headers["Content-Type"], "application/x-protobuf")
        self.cursor = headers["Spanprof-Cursor"]
        self.test.assertEqual(headers["Spanprof-Missed"], "0")
        if body:
            self.bodies += 1
            if self.untaken is None:
                self.take(body)
            else:
                self.untaken.append(body)
        return headers["Spanprof-More"] == "true"

    def take(self, body):
        message = receiver_schema.message(receiver_schema.PROFILES_REQUEST)()
        message.ParseFromString(body)
        self.violations += receiver_check.check(message, (), len(body))
        self.samples += receiver.samples_of(message)

    def take_all(self):
        while self.untaken:
            self.take(self.untaken.pop(0))

    def run(self):
        while self.step():
            pass


class Follower(threading.Thread):
    """Asks again so long after each answer, until it is ended. Looks at the answers then: the backend that the exporter
    sends to is this process too, and must not be late for it."""

    def __init__(self, test, pause, **parameters):
        super().__init__(daemon=True)
        self.scraper, self.pause = Scraper(test, **parameters), pause
        self.scraper.untaken = []
        self.ended, self.error = threading.Event(), None

    def run(self):
        try:
            while not self.ended.wait(self.pause):
                self.scraper.run()
        except Exception as error:  # told by end(), in the thread of the test
            self.error = error

    def end(self):
        """Returns its scraper, that has all there is now."""
        self.ended.set()
        self.join()
        if self.error:
            raise self.error
        self.scraper.run()
        self.scraper.take_all()
        return self.scraper


def identities_of(samples, pid):
    """All that is kept of each tick of that process, the time last."""
    return sorted((repr((sample.trace_id, sample.span_id, sample.type, sample.period, sample.values,
                         sorted(pair for pair in sample.attributes.items() if pair[0] != "cpu.logical_number"),
                         [(frame.function, frame.address) for frame in sample.frames])), at)
                  for sample in samples if sample.resource.get("process.pid") == pid for at in sample.times)


class Scraped(test_pages.Shop):
    over = {"processors": {"join": {"wait": "5s"}}}  # for those whose span dies with the shop

    def keys_of(self, samples):
        """Of its own shop: another test's may run on the node."""
        return keys_of(samples, self.shop.pid)

    def exported(self):
        return self.keys_of(self.backend.samples())

    def settle(self):
        """The shop has sent its spans and ended; all of its samples have left."""
        time.sleep(2 * harness.SLOWNESS)
        self.end_shop()
        latest = [None, time.monotonic()]

        def stays():
            count = sum(len(sample.times) for sample in self.backend.samples(self.shop.pid))
            if count != latest[0]:
                latest[:] = [count, time.monotonic()]
            return time.monotonic() - latest[1] > 12

        harness.wait_until(stays, 60, "the last samples have left")

    def assert_same(self, scraped, exported):
        self.assertEqual([key[:-1] for key in scraped], [key[:-1] for key in exported])
        for got, sent in zip(scraped, exported):
            self.assertTrue(0 <= sent[-1] - got[-1] < TICK_NS, (got, sent))


class Otlp(Scraped):
    def test_every_sample_once(self):
        """A scraper that follows, one that comes late, and one that filters see what was exported."""
        follower, ended = Scraper(self), threading.Event()

        def follow():
            while not ended.wait(0.3):
                follower.run()

        thread = threading.Thread(target=follow)
        thread.start()
        try:
            self.settle()
        finally:
            ended.set()
            thread.join()
        follower.run()
        late, filtering = Scraper(self), Scraper(self, service="shop")
        late.run()
        filtering.run()
        exported = self.exported()
        self.assertGreater(len(exported), 50)
        self.assert_same(self.keys_of(follower.samples), exported)
        self.assert_same(self.keys_of(late.samples), exported)
        self.assert_same(self.keys_of(filtering.samples), exported)
        self.assertGreater(follower.bodies, 1)
        self.assertEqual({sample.resource["service.name"] for sample in filtering.samples}, {"shop"})
        self.assertEqual([follower.violations, late.violations, filtering.violations], [[], [], []])

        self.same_again()
        self.as_json(len(filtering.samples))
        self.one_trace(exported)

    def same_again(self):
        """But for the profiles' own ids."""
        scrapers = [Scraper(self, service="shop") for _ in range(2)]
        for scraper in scrapers:
            scraper.step()
        self.assertEqual(self.keys_of(scrapers[0].samples), self.keys_of(scrapers[1].samples))
        status, headers, body = self.ask(PATH, headers={"Accept-Encoding": "gzip"}, service="shop")
        self.assertEqual((status, headers["Content-Encoding"]), (200, "gzip"))
        message = receiver_schema.message(receiver_schema.PROFILES_REQUEST)()
        message.ParseFromString(gzip.decompress(body))
        self.assertEqual(self.keys_of(receiver.samples_of(message)), self.keys_of(scrapers[0].samples))

    def as_json(self, n):
        status, headers, body = self.ask(PATH, headers={"Accept": "application/json"}, service="shop")
        self.assertEqual((status, headers["Content-Type"]), (200, "application/json"))
        message = json.loads(body)
        found = sum(len(sample["timestampsUnixNano"]) for resource in message["resourceProfiles"]
                    for scope in resource["scopeProfiles"] for profile in scope["profiles"]
                    for sample in profile["samples"])
        self.assertGreaterEqual(found, n)

    def one_trace(self, exported):
        slowest = self.traces()[0]["trace_id"]
        scraper = Scraper(self, trace_id=slowest)
        scraper.run()
        self.assert_same(self.keys_of(scraper.samples), [key for key in exported if key[0] == slowest])

    def test_wrong_questions(self):
        for parameters in ({"since": "x"}, {"since": "-1"}, {"sinc": "0"}, {"seconds": "1"}):
            self.problem(PATH + "?" + urllib.parse.urlencode(parameters))
        status, headers, body = self.ask(PATH, since=str((1 << 63) - 1))  # of a file that was longer
        self.assertEqual(status, 200)
        self.assertTrue(body)


class UnderLoad(Scraped):
    samples_the_node = False
    over = {"processors": {"join": {"wait": "5s"}},
            "exporters": {"otlp_grpc": {"timeout": "60s"}},  # what is answered too late would be sent again
            "receivers": {"sampler": {"frequency": 499, "include": {"executables": ["demo_service"]}}}}

    def test_several_and_the_exporter_under_load(self):
        """While the shop is never idle and windows close: nothing is lost for any of them, nothing comes twice."""
        followers = [Follower(self, 0.05), Follower(self, 0.3, pid=self.shop.pid), Follower(self, 1.1)]
        for follower in followers:
            follower.start()
        try:
            with self.working(4):
                self.wait_until_all_have(followers, windows=2)
                followers.append(Follower(self, 0.1))  # begins amid the load, with what is kept
                followers[-1].start()
                self.wait_until_all_have(followers, windows=2)
            self.settle()
        finally:
            scrapers = [follower.end() for follower in followers]
        exported = identities_of(self.backend.samples(), self.shop.pid)
        self.assertGreater(len(exported), 500)
        self.assertEqual(len(set(exported)), len(exported))
        for scraper in scrapers:
            self.assert_none_lost_or_added(identities_of(scraper.samples, self.shop.pid), exported)
            self.assertEqual(scraper.violations, [])
        self.assert_conforming()
        print("%d samples, in %s requests and %d of the exporter's" % (
            len(exported), [scraper.bodies for scraper in scrapers], len(self.backend.requests("profiles"))))

    def assert_none_lost_or_added(self, scraped, exported):
        got, sent = (collections.Counter(what for what, _ in ticks) for ticks in (scraped, exported))
        self.assertEqual(((sent - got).total(), (got - sent).total()), (0, 0), list(((sent - got) + (got - sent)))[:5])
        self.assert_same(scraped, exported)

    @contextlib.contextmanager
    def working(self, buyers):
        """So many buy from the shop, again and again."""
        ended = threading.Event()

        def buy():
            while not ended.is_set():
                self.buy(self.shop_port, 100)

        threads = [threading.Thread(target=buy) for _ in range(buyers)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            ended.set()
            for thread in threads:
                thread.join()

    def wait_until_all_have(self, followers, windows):
        """Of what is sampled under the load."""
        wanted = [follower.scraper.bodies + windows for follower in followers]

        def have():
            return all(follower.scraper.bodies >= n or follower.error for follower, n in zip(followers, wanted))

        harness.wait_until(have, 60 * harness.SLOWNESS, "windows have come to all")


class Pprof(test_pages.Shop):
    over = {"service": {"telemetry": {"metrics": {"spans": True}}}}

    def pprof(self, path="/debug/pprof/profile", **parameters):
        status, _, body = self.ask(path, **parameters)
        self.assertEqual(status, 200, body)
        self.assertEqual(body[:2], b"\x1f\x8b")
        return gzip.decompress(body)

    def samples_of(self, profile):
        """(all but the values, [count, ns]) of each sample."""
        for number, _, sample, _ in receiver_wire.fields(profile):
            if number != 2:
                continue
            parts = list(receiver_wire.fields(sample))
            count, at = receiver_wire.read_varint(parts[1][2], 0)
            self.assertEqual([part[0] for part in parts[:2]], [1, 2])
            yield (b"".join(part[3] for part in parts if part[0] != 2),
                   (count, receiver_wire.read_varint(parts[1][2], at)[0]))

    def sums_and_no_sample_twice(self):
        """Of all that is kept, in how many windows ever: the same sums as a flame graph's."""
        for filters in ({"service": "shop"}, {"service": "shop", "span": "render receipt"}):
            filters = dict(filters, from_=self.begun, to="%d" % (time.time() * 1000))
            flame, profile = None, b""
            while flame != self.json("/api/flame", **filters):  # late samples
                flame = self.json("/api/flame", **filters)
                profile = self.pprof("/flame.pb.gz", **filters)
            samples = list(self.samples_of(profile))
            self.assertEqual(sum(values[0] for _, values in samples), flame["samples"])
            self.assertEqual(sum(values[1] for _, values in samples), flame["cpu_ns"])
            self.assertGreater(len(samples), 3)
            self.assertLess(len(samples), flame["samples"])
            self.assertEqual(len({key for key, _ in samples}), len(samples))

    def test_live_and_kept(self):
        self.sums_and_no_sample_twice()
        kept = self.pprof(from_="-1h")
        for text in (b"glyph_advance", b"trace_id", b"span_name", b"render receipt", b"nanoseconds"):
            self.assertIn(text, kept)
        trace_id = self.traces()[0]["trace_id"].encode()
        self.assertIn(trace_id, kept)
        self.assertIn(trace_id, self.pprof("/flame.pb.gz", trace_id=trace_id.decode()))
        self.assertNotIn(b"glyph_advance", self.pprof(from_="-1h", service="none"))
        self.assertIn(b"glyph_advance", self.pprof(from_="-1h", host=socket.gethostname()))
        self.assertNotIn(b"glyph_advance", self.pprof(from_="-1h", host="elsewhere"))

        begun = time.monotonic()
        answer = {}
        asking = threading.Thread(target=lambda: answer.update(body=self.pprof(seconds=3, service="shop")))
        asking.start()
        self.end_shop_after(asking)
        self.assertGreaterEqual(time.monotonic() - begun, 3)
        self.assertIn(b"glyph_advance", answer["body"])
        self.assertNotIn(trace_id, answer["body"])  # that was before
        self.problem("/debug/pprof/profile?seconds=100000")
        self.metrics_of_spans()

    def metrics_of_spans(self):
        """What the counters say is what left: OpenMetrics, with a trace that the pages know."""
        connection = http.client.HTTPConnection("127.0.0.1", self.running.metrics_port, timeout=20)
        status, headers, body = self.ask("/metrics/spans", connection=connection)
        self.assertEqual(status, 200)
        self.assertTrue(headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0"))
        self.assertTrue(body.endswith(b"# EOF\n"))
        pattern = (r'spanprof_span_cpu_seconds_total{service_name="shop",span_name="render receipt"} ([0-9.]+) '
                   r'# {trace_id="([0-9a-f]{32})",span_id="[0-9a-f]{16}"} [0-9.]+ [0-9.]+')
        seconds, trace_id = re.search(pattern, body.decode()).groups()
        self.assertGreater(float(seconds), 0.5)
        harness.wait_until(lambda: self.ask("/api/trace", trace_id=trace_id)[0] == 200,
                           10, "the samples counted last are committed")
        self.assertEqual(self.json("/api/trace", trace_id=trace_id)["trace_id"], trace_id)

    def end_shop_after(self, asking):
        while asking.is_alive():
            self.buy(self.shop_port, 200)
            time.sleep(0.05)
        asking.join()


if __name__ == "__main__":
    harness.main()

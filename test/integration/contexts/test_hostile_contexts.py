# SPDX-License-Identifier: Apache-2.0
"""Publishers that lie, in every place of every context: no wrong ids, nothing blocks, nothing leaks out."""
import collections
import os
import socket
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))
import harness  # noqa: E402
import publishing  # noqa: E402
import truth  # noqa: E402

LIBC = "glibc"
NOBODY = 65534
SECONDS = 5
TORN_FREQUENCY = 997
TORN_SECONDS = 1200 if harness.SOAK else 6


class Hostile(publishing.Publisher):
    def __init__(self, mode, library, *options):
        harness.Workload.__init__(self, "--mode", mode, "--publish",
                                  publishing.source_of(LIBC, library), *options,
                                  program=os.path.join("publisher", LIBC, "hostile"))
        self.label = " ".join([mode, library])
        self.released = 0

    def release_next(self, _):
        """It starts by itself."""


def is_of_one_number(sample):
    """put_number() in publisher_hostile.c"""
    trace, span = bytes.fromhex(sample.trace_id), bytes.fromhex(sample.span_id)
    return trace[:8] == span and trace[8:] == bytes(byte ^ 0xff for byte in span)


@harness.needs_sampling
@unittest.skipIf(publishing.why_not(LIBC), publishing.why_not(LIBC))
class HostileTest(publishing.PublishersTest):
    def start(self, frequency=publishing.FREQUENCY):
        over = harness.merge({"receivers": {"sampler": {"frequency": frequency}}},
                             {"processors": publishing.OVER["processors"]})
        self.sp = self.spanprof(over=over)
        self.sp.wait_sampling()

    def hostile(self, *arguments):
        return self.publish(Hostile(*arguments))

    def run_all(self, restarts=0, timeout=60):
        publishing.run(self.publishers, timeout)
        self.assertLessEqual(self.sp.metric("spanprof_process_restarts_total"), restarts)
        self.stop_when_delivered(self.sp)
        self.assert_conforming()


class Lies(HostileTest):
    def setUp(self):
        super().setUp()
        self.start()

    def good(self, *options):
        return self.publish(publishing.Publisher(LIBC, "local_exec", ["otel"], *options))

    def assert_no_links(self, publisher):
        own = publishing.own_samples(publisher, self.backend.samples())
        linked = [sample for sample in own if sample.key() != (None, None)]
        print("%s: %d samples, linked %d" % (publisher.label, truth.count(own), len(linked)))
        self.assertGreater(truth.count(own), 50)
        self.assertEqual([sample.key() for sample in linked], [])

    def test_wild_pointers_and_sizes(self):
        wild = [self.hostile("wild", library, "--seconds", SECONDS) for library in
                ("otel_tlsdesc", "elastic_tlsdesc", "elastic_tlsdesc_large",
                 "libcustomlabels_tlsdesc")]
        storage = self.hostile("storage", "elastic_tlsdesc", "--seconds", SECONDS)
        good = self.good()
        self.run_all()
        for publisher in wild:
            with self.subTest(publisher.label):
                self.assert_no_links(publisher)
        verdict = publishing.judge(storage, self.backend.samples(), lambda _: {})
        print("storage: %s" % verdict)
        self.assertEqual(verdict.wrong, 0, verdict)
        self.assert_all_right(good)

    def test_ten_thousand_threads(self):
        crowd = self.hostile("crowd", "otel_tlsdesc_large", "--seconds", publishing.SETTLE_S)
        self.run_all()
        if crowd.reason_to_skip():
            self.skipTest(crowd.reason_to_skip())
        verdict = publishing.judge(crowd, self.backend.samples())
        print("crowd: %s" % verdict)
        seconds = publishing.in_span_seconds(crowd, span_ms=2)
        self.assertGreater(seconds, 2)
        self.assertGreater(verdict.right, 0.4 * publishing.FREQUENCY * seconds, verdict)
        self.assertEqual(verdict.right, verdict.published(), verdict)

    def test_memory_that_never_answers(self):
        if not os.path.exists("/dev/fuse"):
            self.skipTest("no /dev/fuse")
        before = self.good("--cpu-ms", 600)
        stuck = []
        for place, library in (("storage", "elastic_tlsdesc"), ("payload", "otel_tlsdesc"),
                               ("environment", "otel_tlsdesc")):
            directory = os.path.join(self.directory, place)
            os.mkdir(directory)
            stuck.append(self.hostile("fuse-" + place, library, "--path", directory,
                                      "--seconds", 4 * publishing.SETTLE_S))
        for publisher in stuck:
            publisher.first("skip" if publisher.process.poll() is not None else "ready")
        after = self.good()
        self.run_all(restarts=len(stuck))
        skipped = [publisher.reason_to_skip() for publisher in stuck if publisher.reason_to_skip()]
        if len(skipped) == len(stuck):
            self.skipTest(skipped[0])
        for reason in skipped:
            harness.note_skipped("memory-on-FUSE", reason)
        for publisher in (before, after):
            self.assert_all_right(publisher)


class Reads:
    """Of one thread, counted as they come in: a million would not fit into memory."""

    def __init__(self):
        self.all = self.with_ids = 0
        self.mixed = []

    def take(self, sample):
        self.all += sample.count()
        if not sample.trace_id and not sample.span_id:
            return
        self.with_ids += sample.count()
        if not (sample.trace_id and sample.span_id and is_of_one_number(sample)):
            self.mixed.append(sample.key())


class Torn(HostileTest):
    def setUp(self):
        super().setUp()
        self.reads = collections.defaultdict(Reads)
        self.torn = []
        self.start_backend(on_receive=self.take)
        self.start(TORN_FREQUENCY)

    def take(self, _request, _spans, samples, _errors):
        tids = {record["tid"] for publisher in self.torn for record in publisher.of("torn")}
        with self.backend.changed:
            for sample in samples:
                tid = sample.attributes.get("thread.id")
                if tid in tids:
                    self.reads[tid].take(sample)
            self.backend.forget()

    def test_a_pair_of_ids_is_never_mixed(self):
        self.torn = [self.hostile("torn", library, "--seconds", TORN_SECONDS)
                     for library in ("otel_tlsdesc", "elastic_tlsdesc")]
        self.run_all(timeout=TORN_SECONDS + 60)
        for publisher in self.torn:
            reads = self.reads[publisher.first("torn")["tid"]]
            print("%s: %d reads, %d gave ids, mixed %d" % (publisher.label, reads.all,
                                                           reads.with_ids, len(reads.mixed)))
            self.assertGreater(reads.all, 20 * TORN_SECONDS)
            self.assertGreater(reads.with_ids, 20)
            self.assertEqual(reads.mixed, [])


class Sockets(HostileTest):
    """What an agent names as its socket decides who gets datagrams from a process with rights."""

    def setUp(self):
        super().setUp()
        self.jail = os.path.join(self.directory, "jail")
        os.mkdir(self.jail)

    def listen(self, path, mode):
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(listener.close)
        listener.setblocking(False)
        listener.bind(path)
        os.chmod(path, mode)
        return listener

    def in_jail(self, name):
        return os.path.join(self.jail, name)

    def agent(self, path, jailed=True, uid=0):
        options = ["--path", path, "--seconds", 3 * publishing.SETTLE_S, "--uid", uid]
        agent = self.publish(Hostile("agent", "elastic_tlsdesc", *options,
                                     *(["--root", self.jail] if jailed else [])))
        agent.label = path[:60]
        return agent

    def test_only_where_the_process_itself_could_send(self):
        host = self.listen(os.path.join(self.directory, "host.sock"), 0o777)
        roots = self.listen(os.path.join(self.directory, "root.sock"), 0o600)
        jailed_roots = self.listen(self.in_jail("root.sock"), 0o600)
        own = self.listen(self.in_jail("own.sock"), 0o666)
        os.symlink(os.path.join(self.directory, "host.sock"), self.in_jail("link"))
        os.symlink("../host.sock", self.in_jail("up"))
        os.symlink("/own.sock", self.in_jail("good"))
        os.mkfifo(self.in_jail("fifo"))
        open(self.in_jail("file"), "w").close()
        for path in ("/link", "/up", "/../host.sock", os.path.join(self.directory, "host.sock"),
                     "/fifo", "/file", "/", "relative", "/" + "long/" * 200):
            self.agent(path)
        self.agent("/root.sock", uid=NOBODY)
        self.agent(os.path.join(self.directory, "root.sock"), jailed=False, uid=NOBODY)
        good = self.agent("/good", uid=NOBODY)
        self.start()
        harness.wait_until(lambda: self.received(own), 20,
                           "the socket that the process may write to is written to")
        self.run_all()
        for listener in (host, roots, jailed_roots):
            self.assertEqual(self.received(listener), None)
        verdict = publishing.judge(good, self.backend.samples(), lambda _: {})
        self.assertGreater(verdict.right, 20, verdict)
        self.assertEqual(verdict.wrong, 0, verdict)

    def received(self, listener):
        try:
            return listener.recv(2048)
        except BlockingIOError:
            return None


if __name__ == "__main__":
    harness.main()

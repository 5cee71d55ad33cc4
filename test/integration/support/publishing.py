# SPDX-License-Identifier: Apache-2.0
"""Programs that publish contexts (test/support/publishers/publisher.c), and whether samples say what they did."""
import atexit
import os
import signal
import sqlite3
import subprocess
import tempfile
import threading
import time

import harness
import truth

FREQUENCY = 397
SETTLE_S = 4 if harness.SANITIZE else 2.5  # from "published" to "read": looks come after 50, 100, ... ms
WAIT_S = 0.3
OVER = {"receivers": {"sampler": {"frequency": FREQUENCY}},
        "processors": {"join": {"wait": "%dms" % (1000 * WAIT_S)}}}


def path(libc, name):
    return os.path.join(harness.BUILD, "test", "publisher", libc, name)


def why_not(libc):
    return None if os.path.exists(path(libc, "late")) else "no compiler for " + libc


class Publisher(harness.Workload):
    """name: of a program of test/support/publishers; options as the program's own, in their order."""

    def __init__(self, libc, name, publish, *options, label=None):
        self.label = label or " ".join([libc, name, *map(os.path.basename, publish),
                                        *map(str, options)])
        self.released = 0
        sources = [word for source in publish for word in ("--publish", source)]
        super().__init__(*sources, *options, program=os.path.join("publisher", libc, name))

    def reason_to_skip(self):
        return next((record["reason"] for record in self.of("skip")), None)

    def release_next(self, now):
        """Lets go what has been ready for long enough."""
        ready = self.of("ready")
        for record in ready:
            record.setdefault("seen", now)
        for record in ready[self.released:]:
            if now - record["seen"] >= SETTLE_S:
                self.release(record)
                self.released += 1

    def release(self, record):
        os.kill(record["pid"], signal.SIGUSR1)


class Peer(Publisher):
    """A program of others, or one that uses their library; it goes on when it reads a line."""

    def __init__(self, label, command, **environment):
        self.label, self.released, self.records = label, 0, []
        self.errors = tempfile.TemporaryFile()
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=self.errors, env=harness.environment(**environment))
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        atexit.register(self.kill)

    def release(self, _):
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()


def late(libc, library, *options, program="late"):
    """A program that loads SYMBOLS_MODEL.so late."""
    return Publisher(libc, program, [source_of(libc, library)], *options)


def source_of(libc, library):
    """Of the ABI that the library's name begins with."""
    abi = "labels" if library.startswith("libcustomlabels") else library.split("_")[0]
    return "%s=%s" % (abi, path(libc, library + ".so"))


def run(publishers, timeout=60):
    """Until all have ended."""
    deadline = time.monotonic() + timeout * harness.SLOWNESS
    while any(publisher.process.poll() is None for publisher in publishers):
        if time.monotonic() > deadline:
            raise TimeoutError("publishers still run: %s" % [
                publisher.label for publisher in publishers if publisher.process.poll() is None])
        for publisher in publishers:
            publisher.release_next(time.monotonic())
        time.sleep(0.02)
    for publisher in publishers:
        publisher.wait()


class Verdict(truth.Verdict):
    """Beside ids: attributes that are not the span's. A process's samples count from the first on that has
    ids: when that is, depends on how busy the machine is."""

    def __init__(self, first_with_ids):
        super().__init__()
        self.first_with_ids = first_with_ids  # image -> time
        self.spoilt = self.early = 0

    def take(self, sample, moment, want, expected):
        ids = (want.get("trace_id"), want.get("span_id"))
        if ids == (None, None):
            self.outside += 1
            self.outside_linked += sample.key() != ids
        elif sample.key() == (None, None) and moment < self.first_with_ids.get(want["image"], 0):
            self.early += 1
            return
        elif sample.key() == (None, None):
            self.missing += 1
        elif sample.key() != ids:
            self.wrong += 1
        elif any(sample.attributes.get(key) != value for key, value in expected(want).items()):
            self.spoilt += 1
        else:
            self.right += 1
            return
        if ids != (None, None) or sample.key() != ids:
            self.examples.append((moment, want, sample.key(), sample.attributes))

    def published(self):
        return super().published() + self.spoilt


class Moments(truth.Intervals):
    """As its parent, but gives the whole record."""

    def __init__(self, records):
        super().__init__(records)
        self.records = {(r["tid"], r["from"]): r for r in records if r["type"] in ("on", "off")}

    def record_at(self, tid, moment):
        if self.at(tid, moment) is None:
            return None
        starts = self.starts[tid]
        return self.records[tid, max(start for start in starts if start <= moment)]


def own_samples(publisher, samples):
    tids = {record["tid"] for record in publisher.of("on") + publisher.of("off")}
    return [sample for sample in samples if sample.attributes.get("thread.id") in tids]


def number_images(records):
    """A process after fork or exec is another image: each says anew that it is ready."""
    image = 0
    for record in records:
        image += record["type"] == "ready"
        record["image"] = image


def judge(publisher, samples, expected=lambda record: record["attributes"]):
    """expected: record of a span -> attributes that its samples must have."""
    number_images(publisher.records)
    moments, found, first_with_ids = Moments(publisher.records), [], {}
    for sample in own_samples(publisher, samples):
        for moment in sample.times:
            want = moments.record_at(sample.attributes["thread.id"], moment)
            if want is None:
                continue
            found.append((sample, moment, want))
            if want["type"] == "on" and sample.key() != (None, None):
                image = want["image"]
                first_with_ids[image] = min(moment, first_with_ids.get(image, moment))
    verdict = Verdict(first_with_ids)
    for sample, moment, want in found:
        verdict.take(sample, moment, want, expected)
    return verdict


def in_span_seconds(publisher, span_ms=5):
    """Of CPU time, at least."""
    return len(publisher.of("on")) * span_ms / 1000


def query(database, sql, *arguments):
    connection = sqlite3.connect(database, timeout=10)
    try:
        return connection.execute(sql, arguments).fetchone()
    finally:
        connection.close()


class PublishersTest(harness.IntegrationTest):
    def setUp(self):
        super().setUp()
        self.publishers = []

    def stop_when_delivered(self, spanprof, patience=30):
        """Stops it when no sample of before waits for a span any more; what a slow backend has not taken by
        then it gets from the next one."""
        time.sleep(WAIT_S + 0.3 * harness.SLOWNESS)
        self.stop_spanprof(spanprof)
        database = os.path.join(spanprof.store, "spanprof.db")
        last, = query(database, "SELECT coalesce(max(seq), 0) FROM outbox")
        if last:
            spanprof.start()
            harness.wait_until(
                lambda: query(database, "SELECT count(*) FROM outbox WHERE seq BETWEEN 1 AND ?", last) == (0,),
                patience, "the backend has taken everything")
            self.stop_spanprof(spanprof)

    def publish(self, publisher):
        self._workloads.append(publisher)
        self.publishers.append(publisher)
        return publisher

    def assert_all_right(self, publisher, expected=lambda record: record["attributes"]):
        reason = publisher.reason_to_skip()
        if reason:
            return harness.note_skipped(publisher.label, reason)
        verdict = judge(publisher, self.backend.samples(), expected)
        print("%s: %d right of %d, %d before the first; outside of spans %d" % (
            publisher.label, verdict.right, verdict.published(), verdict.early, verdict.outside))
        self.assertGreater(verdict.right, 0.3 * FREQUENCY * in_span_seconds(publisher), verdict)
        self.assertEqual(verdict.right, verdict.published(), verdict)
        self.assertEqual(verdict.outside_linked, 0, verdict)
        self.assertGreater(verdict.outside, 5, verdict)
        return verdict

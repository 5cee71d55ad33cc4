# SPDX-License-Identifier: Apache-2.0
"""The history of a running service: kill -9 now and then, and it is still what left, exactly."""
import os
import random
import sqlite3
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))
import harness  # noqa: E402
import test_pages  # noqa: E402

KILLS = 30 if harness.SOAK else 2


class History(harness.IntegrationTest):
    @unittest.skipIf(harness.why_no_sampling(), harness.why_no_sampling())
    def test_kills(self):
        spanprof = self.spanprof(sampler=True, over={
            "extensions": {"history": {}},
            "processors": {"join": {"wait": "2s"}},
            "service": {"extensions": ["sqlite_storage", "history"]}})
        self.backend.stop()  # so that all that leaves is still there to be counted
        dice = random.Random(1)
        for number in range(KILLS + 1):
            workload = harness.Workload("--mode", "duty", "--duty", "100,50", "--seconds", "5", "--span-ms", "20",
                                        endpoint=spanprof.http_address)
            time.sleep(dice.uniform(5, 7))
            workload.kill()
            if number < KILLS:
                spanprof.kill_service()
        kept = spanprof.metric("spanprof_history_spans_total")
        spanprof.stop()
        self.assertGreater(kept, 0)
        self.check(os.path.join(spanprof.store, "spanprof.db"))

    def check(self, path):
        store = sqlite3.connect(path)
        exported, = store.execute("SELECT sum(items) FROM outbox WHERE signal = 1 AND seq > 0").fetchone()
        blocks, samples, spans = store.execute("SELECT count(*), sum(samples), sum(spans) FROM history_block").fetchone()
        summed, through = store.execute("SELECT total(samples), ifnull(max(through), 0) FROM history_minute").fetchone()
        later, = store.execute("SELECT total(samples) FROM history_block WHERE seq > ?", (through,)).fetchone()
        self.assertGreater(exported, 100)
        self.assertEqual(samples, exported)
        self.assertEqual(summed + later, samples)
        self.assertGreater(spans, 50)
        print("%d samples and %d spans in %d blocks, %d kills" % (samples, spans, blocks, KILLS))


class WithoutBackend(test_pages.Shop):
    """Nobody to send to: the pages have all there is to see, and nothing waits."""
    over = {"exporters": {"nop": None}, "service": {"pipelines": {
        signal: {"exporters": ["nop"]} for signal in ("traces", "profiles")}}}

    def test_nop(self):
        slowest = self.traces()[0]
        self.assertEqual(slowest["top_function"], "glyph_advance")
        self.assertGreater(slowest["cpu_ns"], 0)
        self.assertEqual(self.running.metric("spanprof_outbox_requests"), 0)
        self.assertGreater(self.running.metric("spanprof_outbox_unwanted_items_total", 'signal="profiles"'), 0)
        self.assertEqual(self.running.metric("spanprof_window_samples_unsent_total"), 0)
        self.assertEqual(self.running.process.poll(), None)


if __name__ == "__main__":
    harness.main()

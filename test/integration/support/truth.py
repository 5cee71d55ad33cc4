# SPDX-License-Identifier: Apache-2.0
"""Compares what came out with what a workload says it did."""
import bisect
import math
import os

MARGIN_NS = 100000  # between the clocks of kernel and program


def stolen_s():
    """What the host of this machine kept from its CPUs since the start: a thread's clock stands still then, the one
    that the sampler's ticks go by does not."""
    with open("/proc/stat", encoding="ascii") as file:
        return int(file.readline().split()[8]) / os.sysconf("SC_CLK_TCK")


def tolerance(duty, ticks):
    """How far sampled CPU time may be off, as a share, for that many ticks at that duty: 1 % and three
    standard deviations of a binomial count."""
    duty = min(max(duty, 1e-6), 1)
    return 0.01 + 3 * math.sqrt((1 - duty) / (duty * max(ticks, 1)))


class Intervals:
    """What each thread was working on at a time."""

    def __init__(self, records):
        self.by_tid = {}
        for record in records:
            if record["type"] not in ("on", "off"):
                continue
            key = (record["trace_id"], record["span_id"]) if record["type"] == "on" else (None, None)
            self.by_tid.setdefault(record["tid"], []).append((record["from"], record["to"], key))
        for intervals in self.by_tid.values():
            intervals.sort()
        self.starts = {tid: [start for start, _, _ in intervals]
                       for tid, intervals in self.by_tid.items()}

    def at(self, tid, time):
        """(trace id, span id) that a sample must carry, both None for none; None if not known."""
        starts = self.starts.get(tid)
        if not starts:
            return None
        index = bisect.bisect_right(starts, time) - 1
        if index < 0:
            return None
        start, end, key = self.by_tid[tid][index]
        return key if start + MARGIN_NS <= time <= end - MARGIN_NS else None


class Verdict:
    """Samples of a workload's threads, by whether their Link is what the truth says."""

    def __init__(self):
        self.right = self.missing = self.wrong = 0
        self.at_edges = 0  # with a span of the workload, too near to its begin or end to be judged
        self.outside = self.outside_linked = 0
        self.examples = []

    def published(self):
        return self.right + self.missing + self.wrong

    def share(self):
        return self.right / max(self.published(), 1)

    def __str__(self):
        return "%d right, %d without link, %d wrong, %d at edges; without span %d, of these linked %d; %s" % (
            self.right, self.missing, self.wrong, self.at_edges, self.outside, self.outside_linked,
            self.examples[:3])


def judge(records, samples):
    intervals = Intervals(records)
    spans = {(record["trace_id"], record["span_id"]) for record in records if record["type"] == "on"}
    verdict = Verdict()
    for sample in samples:
        tid = sample.attributes.get("thread.id")
        for time in sample.times:
            want = intervals.at(tid, time)
            if want is None:
                verdict.at_edges += sample.key() in spans
            elif want == (None, None):
                verdict.outside += 1
                verdict.outside_linked += sample.key() != want
            elif sample.key() == want:
                verdict.right += 1
            elif sample.key() == (None, None):
                verdict.missing += 1
            else:
                verdict.wrong += 1
                verdict.examples.append((tid, time, want, sample.key()))
    return verdict


def samples_of_span(samples, span_id):
    return [sample for sample in samples if sample.span_id == span_id]


def count(samples):
    return sum(sample.count() for sample in samples)


def share_with_function(samples, name):
    """Share of the samples whose stack has the function."""
    return count(s for s in samples if name in s.functions()) / max(count(samples), 1)

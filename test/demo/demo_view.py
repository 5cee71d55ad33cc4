# SPDX-License-Identifier: Apache-2.0
"""The slowest trace as a tree: wall time, CPU time, samples and the hottest functions of each span."""
from collections import Counter

COLUMNS = "%-28s %9s %9s %8s  %s"
LANGUAGES = ("cpython", "v8js", "jvm")  # whose programmers know their own functions, and not those of what runs them


def duration(ns):
    if ns is None:
        return "-"
    return "%.1f ms" % (ns / 1e6) if ns < 1e9 else "%.2f s" % (ns / 1e9)


def percent(part, whole):
    return "%.0f %%" % (100 * part / whole)


def innermost(frames):
    frame = next((frame for frame in frames if frame.kind in LANGUAGES), frames[0] if frames else None)
    if not frame:
        return "?"
    return frame.lines[0][0] if frame.lines else frame.name()  # what was inlined last


class Trace:
    def __init__(self, spans, samples):
        self.spans = spans
        self.root = next((span for span in spans if not span.parent_id), None)
        self.samples = {}
        for sample in samples:
            self.samples.setdefault(sample.span_id, []).append(sample)

    def wall(self):
        return self.root.end - self.root.start if self.root else 0

    def children(self, parent):
        return sorted((span for span in self.spans if span.parent_id == parent.span_id),
                      key=lambda span: span.start)

    def functions(self, span):
        """Counter of the innermost functions."""
        counts = Counter()
        for sample in self.samples.get(span.span_id, []):
            counts[innermost(sample.frames)] += sample.count()
        return counts

    def all_functions(self):
        return sum((self.functions(span) for span in self.spans), Counter())

    def hottest_path(self):
        """(span, calls from outside to inside, share of the span's samples) of the most samples."""
        paths = Counter()
        for span in self.spans:
            for sample in self.samples.get(span.span_id, []):
                names = tuple(frame.name() for frame in reversed(sample.frames))
                paths[(span.span_id, names)] += sample.count()
        if not paths:
            return None
        (span_id, names), count = paths.most_common(1)[0]
        span = next(span for span in self.spans if span.span_id == span_id)
        return span, names, count / sum(self.functions(span).values())


def traces_of(spans, samples):
    """Whole traces, the slowest first."""
    by_trace, samples_by_trace = {}, {}
    for span in spans:
        by_trace.setdefault(span.trace_id, {})[span.span_id] = span
    for sample in samples:
        if sample.trace_id:
            samples_by_trace.setdefault(sample.trace_id, []).append(sample)
    traces = [Trace(list(members.values()), samples_by_trace.get(trace_id, []))
              for trace_id, members in by_trace.items()]
    return sorted((trace for trace in traces if trace.root), key=Trace.wall, reverse=True)


def hottest(counts):
    total = sum(counts.values())
    return ", ".join("%s %s" % (name, percent(count, total))
                     for name, count in counts.most_common(3))


def rows(trace, span, lead="", child_lead=""):
    yield COLUMNS % (lead + span.name, duration(span.end - span.start), duration(span.cpu_ns or 0),
                     span.samples or 0, hottest(trace.functions(span)))
    children = trace.children(span)
    for child in children:
        last = child is children[-1]
        yield from rows(trace, child, child_lead + ("└─ " if last else "├─ "),
                        child_lead + ("   " if last else "│  "))


def show(trace, among):
    """The text for a person."""
    lines = ["The slowest of %d traces: %s, %s (trace %s)" % (
        among, trace.root.name, duration(trace.wall()), trace.root.trace_id), "",
        COLUMNS % ("span", "wall", "CPU", "samples", "hottest functions")]
    lines += [text.rstrip() for text in rows(trace, trace.root)]
    path = trace.hottest_path()
    if path:
        span, names, share = path
        shown = names[-6:]
        lines += ["", "Where \"%s\" spends its time (%s of its samples):" % (span.name,
                                                                            percent(share, 1))]
        lines += ["  %s%s%s" % ("   " * (depth - 1), "└─ " if depth else "", name)
                  for depth, name in enumerate(shown)]
    return "\n".join(lines)


def show_services(traces):
    """A line for each service's slowest trace; traces: service -> traces, the slowest first."""
    lines = ["The slowest request of each other service:", "", COLUMNS % ("service, request", "wall", "CPU", "samples", "hottest functions")]
    for service, found in sorted(traces.items()):
        spans = found[0].spans
        lines.append(COLUMNS % ("%s, %s" % (service, found[0].root.name), duration(found[0].wall()),
                                duration(sum(span.cpu_ns or 0 for span in spans)),
                                sum(span.samples or 0 for span in spans), hottest(found[0].all_functions())))
    return "\n".join(line.rstrip() for line in lines)

# SPDX-License-Identifier: Apache-2.0
"""Code that was made at run time has the names of its process's perf map, those of when it ran."""
import collections
import glob
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))
import harness  # noqa: E402

SECONDS = 4
# A perf map has no times: it says what lies where when it is read. So around a change either name may be told,
# and no other one: the new one of a sample before, which is asked for behind its drain, the old one after.
ASKED_NS = 300_000_000  # from a sample to the answer of its names, on a busy machine
SETTLED_NS = 1_800_000_000  # by when what moved has its new name: what was told, and what was read, may be so old
HOT, OUTER, SECOND = "JS:*hot /srv/app.js:1:13", "JS:^outer /srv/app.js:2:15", "JS:*second /srv/app.js:9:1"


@harness.needs_sampling
class Jit(harness.IntegrationTest):
    def run_program(self, what):
        """Its samples, by their user functions from the leaf on, with times; and when it changed its code."""
        spanprof = self.spanprof(over={"processors": {"join": {"wait": "1s"}},
                                       "receivers": {"sampler": {"frequency": 97}}})
        spanprof.wait_sampling()
        program = os.path.join(os.environ["SPANPROF_BUILD_DIR"], "test", "jit_program")
        process = subprocess.Popen([program, str(SECONDS), what], stdout=subprocess.PIPE, text=True)
        self.addCleanup(lambda: [os.unlink(path) for path in glob.glob("/tmp/perf-%d.map" % process.pid)])
        output = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        process.stdout.close()
        self.expected = 97 * usage.ru_utime  # ticks; other things run on this machine as well
        if process.returncode == 77:
            self.skipTest("no code for this machine")
        times = [int(time) for time in output.split()]
        harness.wait_until(lambda: any(sample.times and sample.times[-1] > times[2] - 500_000_000
                                       for sample in self.samples()), 30, "samples of its end")
        self.stop_spanprof(spanprof)
        return self.samples(), times

    def samples(self):
        return [sample for sample in self.backend.samples()
                if sample.resource.get("process.executable.name") == "jit_program"]

    def test_names(self):
        samples, (start, change, end) = self.run_program("map")
        phases = {"before": collections.Counter(), "between": collections.Counter(), "after": collections.Counter()}
        kernel_only = 0  # in its exec, or its exit, a process has no user stack
        for sample in samples:
            frames = [frame for frame in sample.frames if frame.kind != "kernel"]
            if not frames:
                kernel_only += sample.count()
                continue
            if frames[0].kind == "native" and frames[0].function:
                continue  # main() and its library
            names = tuple(frame.function for frame in frames)
            for time in sample.times:
                phase = "before" if time < change - ASKED_NS else "between" if time < change + SETTLED_NS else "after"
                phases[phase][names[:2]] += 1
            self.assertEqual({frame.kind for frame in frames[:2]} - {"native"}, {"jit"} if names[0] else set(), names)
        print({phase: dict(counts) for phase, counts in phases.items()})
        self.assertLessEqual(kernel_only, 3)
        self.assertGreater(sum(sum(counts.values()) for counts in phases.values()), 0.8 * self.expected)
        for phase, leaf in ("before", HOT), ("after", SECOND):
            total = sum(phases[phase].values())
            named = phases[phase][leaf, OUTER]
            self.assertGreater(total, 20, "samples " + phase)
            self.assertGreaterEqual(named, 0.95 * total, phases)
        between = phases["between"]
        expected = {(HOT, OUTER), (SECOND, OUTER), ("", "")}
        # In its first two instructions a function has not kept its caller's frame yet: that one is missing.
        begun = {(HOT, "run"), (SECOND, "run"), (OUTER, "run"), (OUTER, "main"), ("", "run"), ("", "main")}
        self.assertLessEqual(set(between), expected | begun)
        self.assertGreaterEqual(sum(between[names] for names in expected), 0.95 * sum(between.values()), between)
        other = {HOT: SECOND, SECOND: HOT}
        self.assertFalse([names for names in phases["before"] if names[0] == other[HOT]])
        self.assertFalse([names for names in phases["after"] if names[0] == other[SECOND]])
        whole = [sample for sample in samples if sample.frames and sample.frames[0].function in (HOT, SECOND)]
        self.assertGreaterEqual(sum(sample.count() for sample in whole if "main" in sample.functions()),
                                0.95 * sum(sample.count() for sample in whole))
        self.assert_conforming()
        self.assertLess(start, end)

    def test_no_map(self):
        """Without a perf map the frames are there, without names."""
        samples, _ = self.run_program("-")
        unnamed = [sample for sample in samples if sample.frames and not sample.frames[0].function]
        self.assertGreater(sum(sample.count() for sample in unnamed), 0.8 * self.expected)
        self.assertTrue(all(frame.kind in ("native", "kernel") for sample in samples for frame in sample.frames))
        self.assert_conforming()


if __name__ == "__main__":
    harness.main()

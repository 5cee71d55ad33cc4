# SPDX-License-Identifier: Apache-2.0
"""Every way in which a linker places and names a thread-local variable (test/support/publishers/CMakeLists.txt): all
samples carry what was published; where the file no longer says where the variable is, that is counted and named."""
import os
import re
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))
import harness  # noqa: E402
import publishing  # noqa: E402

EXECUTABLES = [
    "exe_gd_exported", "exe_ld_exported", "exe_desc_exported", "exe_ie_exported", "exe_le_exported", "exe_gd_symtab",
    "exe_ld_symtab", "exe_desc_symtab", "exe_ldesc_symtab", "exe_ie_symtab", "exe_le_symtab",
    "exe_le_exported_stripped", "exe_le_stripped", "exe_le_aligned", "no_pie_le_exported", "no_pie_gd_symtab",
    "no_pie_ld_symtab", "no_pie_desc_symtab", "no_pie_le_symtab", "no_pie_le_stripped", "static_le_symtab",
    "static_gd_symtab", "static_le_stripped", "static_le_aligned", "static_pie_le_symtab", "static_pie_gd_symtab",
    "static_pie_le_stripped"]
LIBRARIES = ["%s_%s" % (model, seen) for model in ("gd", "ld", "desc", "ldesc", "ie")
             for seen in ("exported", "exported_stripped", "symtab", "stripped")]
CPU_MS = ("--cpu-ms", 200)
AT_ONCE = 16  # programs


def is_readable(name):
    """The symbol is in the file."""
    return name.endswith("_exported_stripped") or not name.endswith("_stripped")


class Models:
    libc = None

    def setUp(self):
        super().setUp()
        reason = publishing.why_not(self.libc)
        if reason:
            self.skipTest(reason)
        self.sp = self.spanprof(over=publishing.OVER)
        self.sp.wait_sampling()

    def check(self, programs):
        """programs: (name of the case, program, source) of each."""
        for i in range(0, len(programs), AT_ONCE):
            together = [self.publish(self.publisher(*program)) for program in programs[i:i + AT_ONCE]]
            self.run_known(together)
        unreadable = self.sp.metric("spanprof_contexts_unreadable_total", 'reason="no_variable"')
        self.stop_when_delivered(self.sp)
        self.assert_conforming()
        hidden = [publisher for publisher in self.publishers if not publisher.readable]
        for publisher in self.publishers:
            with self.subTest(publisher.label):
                if publisher.readable:
                    self.assert_all_right(publisher)
                else:
                    self.assert_named(publisher)
        self.assertGreaterEqual(unreadable, len(hidden))
        self.assertEqual(self.named_for("records|unknown_libc|malformed|too_many"), [])

    def run_known(self, publishers, timeout=60):
        """Each works once spanprof has found its variable, or has said that it does not, however busy the machine is."""
        deadline = time.monotonic() + timeout * harness.SLOWNESS
        waiting = list(publishers)
        while waiting:
            self.assertLess(time.monotonic(), deadline, "not known: %s" % [publisher.label for publisher in waiting])
            time.sleep(0.3)
            known = {int(pid) for pid in re.findall(r"process (\d+)(?:: its contexts are read|.*: no_variable\n)",
                                                    self.sp.log())}
            for publisher in [publisher for publisher in waiting if publisher.process.pid in known]:
                publisher.release(publisher.first("ready"))
                waiting.remove(publisher)
        for publisher in publishers:
            publisher.wait()

    def named_for(self, reasons):
        """Of these programs; others may run here too."""
        found = re.findall(r"process (\d+) \(.*\): its contexts cannot be read: (%s)\n" % reasons, self.sp.log())
        pids = {publisher.process.pid: publisher.label for publisher in self.publishers}
        return [(pids[int(pid)], reason) for pid, reason in found if int(pid) in pids]

    def assert_named(self, publisher):
        verdict = publishing.judge(publisher, self.backend.samples())
        print("%s: %d of %d without the ids that were published" % (
            publisher.label, verdict.missing, verdict.published()))
        self.assertGreater(verdict.missing, 0)
        self.assertEqual((verdict.right, verdict.wrong, verdict.spoilt, verdict.outside_linked), (0, 0, 0, 0), verdict)
        self.assertRegex(self.sp.log(), r"process %d \(%s\): its contexts cannot be read: no_variable" % (
            publisher.process.pid, re.escape(os.path.basename(publisher.program)[:15])))

    def publisher(self, name, program, source):
        publisher = publishing.Publisher(self.libc, program, [source], *CPU_MS)
        publisher.readable, publisher.program = is_readable(name), program
        return publisher

    def test_executables(self):
        self.check([(name, "case_" + name, "otel") for name in EXECUTABLES])

    def test_linked(self):
        self.check([(name, "case_linked_" + name, "otel") for name in LIBRARIES])

    def test_loaded(self):
        """musl does not load a library of the Initial Exec model late."""
        names = [name for name in LIBRARIES if self.libc != "musl" or not name.startswith("ie_")]
        self.check([(name, "late", "otel=" + publishing.path(self.libc, "case_%s.so" % name)) for name in names])


@harness.needs_sampling
class Glibc(Models, publishing.PublishersTest):
    libc = "glibc"


@harness.needs_sampling
class Musl(Models, publishing.PublishersTest):
    libc = "musl"


if __name__ == "__main__":
    harness.main()

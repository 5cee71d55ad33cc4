# SPDX-License-Identifier: Apache-2.0
"""Processes that hold whoever looks at their memory or files. One reader may be lost to each; nobody else notices."""
import contextlib
import json
import os
import re
import shutil
import signal
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
import neighbour  # noqa: E402
from neighbour import harness  # noqa: E402
import publishing  # noqa: E402

SECONDS = 300 if neighbour.FULL else 120
READER = "spanprof-rdr"
LOST = re.compile(r"the reader was lost when it looked at process (\d+):")
HONEST = "known_by_symtab"  # a function of names_program


def state_of(pid):
    with contextlib.suppress(OSError), open("/proc/%d/stat" % pid) as file:
        return file.read().rsplit(")", 1)[1].split()[0]
    return None


@harness.needs_sampling
class NamesTest(neighbour.HostileTest):
    def setUp(self):
        super().setUp()
        self.sp = self.spanprof(over={"processors": {"join": {"wait": "1s"}}})
        self.sp.wait_sampling()

    def fresh_program(self):
        """One that nobody has seen before, so that its names have to be read now."""
        program = os.path.join(self.directory, "fresh%d" % time.monotonic_ns())
        shutil.copy(os.path.join(harness.BUILD, "test", "names_program"), program)
        process = self.neighbour(cpus=1).start(program, "3")
        self.addCleanup(process.kill)
        return os.path.basename(program)

    def leaf_names(self, program):
        return {sample.frames[0].function for sample in self.backend.samples() if sample.frames
                and sample.resource.get("process.executable.name") == program}

    def assert_names_come(self):
        program = self.fresh_program()
        began = time.monotonic()
        harness.wait_until(lambda: HONEST in self.leaf_names(program), 20 * harness.SLOWNESS,
                           "names of %s" % program)
        print("names after %.1f s" % (time.monotonic() - began), file=sys.stderr)

    def assert_stops(self):
        began = time.monotonic()
        self.assertEqual(self.sp.stop(), 0)
        self.assertLess(time.monotonic() - began, 6 * harness.SLOWNESS)


@unittest.skipUnless(os.path.exists("/dev/fuse"), "no /dev/fuse")
class Hold(NamesTest):
    def attack(self, mode):
        return self.hold(mode, SECONDS)

    def lost(self):
        return self.sp.metric("spanprof_readers_lost_total")

    def wait_lost(self, n=1):
        harness.wait_until(lambda: self.lost() >= n, 30, "%d readers are lost" % n)

    def stuck_readers(self):
        return [pid for pid in harness.children_of(self.sp.supervisor)
                if harness.comm_of(pid) == READER and state_of(pid) == "D"]

    def assert_contexts_come(self):
        publisher = publishing.Publisher("glibc", "local_exec", ["otel"])
        self.addCleanup(publisher.kill)
        pid = publisher.first("ready")["pid"]
        harness.wait_until(lambda: self.sp.reads(pid), 20 * harness.SLOWNESS, "contexts are read")

    def assert_reloads(self):
        service = self.sp.service
        self.sp.config["service"]["telemetry"]["logs"]["encoding"] = "json"
        with open(self.sp.config_path, "w") as file:
            file.write(json.dumps(self.sp.config))
        began = time.monotonic()
        self.sp.process.send_signal(signal.SIGHUP)
        harness.wait_until(lambda: self.sp.service not in (None, service), 15, "another service")
        self.sp.wait_ready()
        print("reloaded after %.1f s" % (time.monotonic() - began), file=sys.stderr)

    def test_memory(self):
        """Which does not even end by SIGKILL."""
        tenant = self.tenant(self.sp)
        alone_s, before = tenant.run(2), len(tenant.seconds)
        self.attack("memory")
        self.wait_lost()
        symbolizer = self.sp.symbolizer
        self.assert_names_come()
        self.assert_contexts_come()
        harness.wait_until(lambda: self.sp.metric("spanprof_processes_abandoned") >= 1, 10,
                           "it is abandoned")
        self.assertTrue(self.stuck_readers())
        self.assertEqual(self.sp.symbolizer, symbolizer)
        attacked_s = tenant.p99_s(before)
        self.assert_reloads()
        self.assert_names_come()
        tenant.stop()
        self.assert_unharmed(tenant, alone_s, attacked_s)
        self.assert_arrived(tenant)
        self.assertTrue(self.stuck_readers())
        self.assert_stops()

    def test_three_abandoned(self):
        """Of cgroups that have hung none, memory is read all the same."""
        attackers = [self.attack("memory") for _ in range(3)]
        harness.wait_until(lambda: self.sp.metric("spanprof_processes_abandoned") >= 3, 90,
                           "three are abandoned")
        # The symbolizer learns it with its next reader; the one before may be lost to a request that was under way.
        harness.wait_until(lambda: "memory is read of cgroups alone" in self.sp.log(), 10, "caution")
        lost = self.lost()
        self.assert_contexts_come()
        self.assert_names_come()
        self.assertGreater(self.sp.metric("spanprof_processes_banned_total"), 0)
        self.assertLessEqual(self.lost() - lost, 1)
        for attacker in attackers:  # one of them may have held two
            attacker.stop()
        harness.wait_until(lambda: self.sp.metric("spanprof_processes_abandoned") == 0, 10,
                           "readers that are let go die")
        self.assert_stops()

    def lost_to(self, attacker):
        """Whether a reader was lost to one of its processes."""
        lost = set(map(int, LOST.findall(self.sp.log())))
        return not lost.isdisjoint(attacker.cgroup.pids())

    def test_pager_and_files(self):
        """A page that is never brought; a path that leads into FUSE; a file of overlayfs with FUSE below it."""
        tenant = self.tenant(self.sp)
        alone_s, before = tenant.run(2), len(tenant.seconds)
        symbolizer = self.sp.symbolizer
        for mode in ("uffd", "link", "overlay"):
            with self.subTest(mode):
                attacker = self.attack(mode)
                harness.wait_until(lambda: self.lost_to(attacker), 30, "a reader is lost to " + mode)
        self.assert_names_come()
        self.assert_contexts_come()
        attacked_s = tenant.p99_s(before)
        tenant.stop()
        self.assertEqual(self.sp.symbolizer, symbolizer)
        self.assert_unharmed(tenant, alone_s, attacked_s)
        self.assert_arrived(tenant)
        self.assert_stops()


class Flood(NamesTest):
    def test_mappings(self):
        """Who maps files without pause loses its own names. Events of others that are lost meanwhile are made good for
        those that are sampled, without a walk over all processes."""
        tenant = self.tenant(self.sp)
        alone_s = tenant.run(2)
        self.hold("flood", SECONDS, uid=neighbour.NOBODY)
        harness.wait_until(lambda: self.sp.metric("spanprof_process_mappings_excluded_total") > 0, 30,
                           "the flood is noticed")
        scans, before = self.sp.metric("spanprof_process_scans_total"), len(tenant.seconds)
        self.assert_names_come()
        attacked_s = tenant.run(60) if neighbour.FULL else tenant.p99_s(before)
        tenant.stop()
        excluded, lost = (self.sp.metric("spanprof_process_%s_total" % name)
                          for name in ("mappings_excluded", "events_lost"))
        print("%d mappings excluded, %d losses" % (excluded, lost), file=sys.stderr)
        self.assertGreater(excluded, 1000)
        self.assertLessEqual(self.sp.metric("spanprof_process_scans_total"), scans + 1)
        self.assert_unharmed(tenant, alone_s, attacked_s)
        self.assert_arrived(tenant)
        self.assert_stops()


if __name__ == "__main__":
    harness.main()

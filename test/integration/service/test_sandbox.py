# SPDX-License-Identifier: Apache-2.0
"""What each process is able to do: a part that fell to an attacker is not the whole."""
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))
import harness  # noqa: E402

TOKEN = "token-that-only-the-service-has-0123456789"
REGIONS = ("/spanprof", "/libc.so", "[stack]", "[heap]")


def addresses(pid):
    """Where program, libc, stack and heap begin."""
    found = {}
    with open("/proc/%d/maps" % pid) as maps:
        for line in maps:
            for region in REGIONS:
                if region in line.rsplit("\n", 1)[0]:
                    found.setdefault(region, line.split("-")[0])
    return found


def memory_holds(pid, text):
    """Whether the bytes are anywhere in what the process can write."""
    with open("/proc/%d/maps" % pid) as maps, open("/proc/%d/mem" % pid, "rb", 0) as memory:
        for line in maps:
            area = re.match(r"([0-9a-f]+)-([0-9a-f]+) rw.. (\S+) (\S+) (\S+)\s*(.*)", line)
            if not area or area.group(6).startswith(("[v", "/dev", "anon_inode")):
                continue
            start, end = int(area.group(1), 16), int(area.group(2), 16)
            try:
                memory.seek(start)
                if text in memory.read(end - start):
                    return True
            except OSError:
                continue
    return False


def open_files(pid):
    return {os.readlink("/proc/%d/fd/%s" % (pid, fd)) for fd in os.listdir("/proc/%d/fd" % pid)}


@harness.needs_sampling
class Sandbox(harness.IntegrationTest):
    def setUp(self):
        super().setUp()
        os.environ["SPANPROF_TEST_TOKEN"] = TOKEN
        self.addCleanup(os.environ.pop, "SPANPROF_TEST_TOKEN", None)
        self.sp = self.spanprof(over={"exporters": {"otlp_grpc": {
            "headers": {"authorization": "Bearer ${env:SPANPROF_TEST_TOKEN}"}}}})
        self.sp.wait_sampling()

    def test_addresses_are_each_its_own(self):
        """What is learnt of one, or of the one before, says nothing of another."""
        pids = [self.sp.supervisor, self.sp.service, self.sp.symbolizer]
        seen = [addresses(pid) for pid in pids]
        self.sp.kill_service()
        seen.append(addresses(self.sp.service))
        for region in REGIONS:
            places = [of[region] for of in seen]
            self.assertEqual(len(set(places)), len(places), (region, places))

    def test_secrets_are_the_service_s(self):
        self.assertTrue(memory_holds(self.sp.service, TOKEN.encode()))
        self.assertFalse(memory_holds(self.sp.symbolizer, TOKEN.encode()))
        for pid in (self.sp.service, self.sp.symbolizer):
            with open("/proc/%d/environ" % pid, "rb") as environment:
                self.assertNotIn(TOKEN.encode(), environment.read())

    def test_descriptors_are_those_that_are_named(self):
        symbolizer = open_files(self.sp.symbolizer)
        self.assertFalse([name for name in symbolizer if name.startswith(self.directory) and not
                          name.endswith(".log")], symbolizer)
        self.assertFalse([name for name in symbolizer if "config" in name or "role" in name], symbolizer)
        service = open_files(self.sp.service)
        self.assertFalse([name for name in service if "bpf-prog" in name or "[perf_event]" in name], service)


if __name__ == "__main__":
    harness.main()

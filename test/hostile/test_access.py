# SPDX-License-Identifier: Apache-2.0
"""A local user sees what it may: nothing of the others."""
import collections
import gzip
import json
import os
import re
import subprocess
import sys
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
import neighbour  # noqa: E402
from neighbour import harness  # noqa: E402
import receiver_wire  # noqa: E402

USER = 61234  # not the one whom the service runs as


class PagesTest(neighbour.HostileTest):
    def start(self, **options):
        self.pages_port = harness.free_port()
        self.socket = os.path.join(self.directory, "pages.sock")
        self.instance = self.spanprof(**options, over={
            "processors": {"join": {"wait": "1s"}},
            "extensions": {"pages": {"endpoint": "localhost:%d" % self.pages_port, "socket": self.socket}, "history": {}},
            "service": {"extensions": ["sqlite_storage", "pages", "history"]}})


@harness.needs_root
class Access(PagesTest):
    def setUp(self):
        super().setUp()
        self.start(sampler=False)

    def test_pages_and_store(self):
        """With a configuration that says nothing of who may."""
        harness.wait_until(lambda: os.path.exists(self.socket), 10, "the socket is there")
        files = [os.path.join(self.instance.store, name) for name in os.listdir(self.instance.store)]
        self.assertIn("pages.token", map(os.path.basename, files))
        process = self.neighbour(uid=USER).script("pry", "localhost:%d" % self.pages_port, self.socket, *files,
                                                  stdout=subprocess.PIPE)
        answers = json.loads(process.communicate(timeout=30)[0])
        refused = {401, 404, "PermissionError", "FileNotFoundError"}
        self.assertLessEqual(set(answers.values()), refused, answers)
        self.assertEqual(answers["/debug/pprof/profile?seconds=0"], 401)
        self.assertEqual(answers[self.socket], "PermissionError")
        self.assertEqual(answers[os.path.join(self.instance.store, "pages.token")], "PermissionError")

    def test_each_series_once(self):
        """A scraper refuses a page that has one twice."""
        with urllib.request.urlopen("http://127.0.0.1:%d/metrics" % self.instance.metrics_port, timeout=10) as answer:
            series = re.findall(r"^([a-z_0-9]+(?:\{[^}]*\})?) ", answer.read().decode(), re.M)
        self.assertGreater(len(series), 100)
        self.assertEqual([name for name, n in collections.Counter(series).items() if n > 1], [])


def pprof_addresses(profile):
    """Of all locations: profile.proto."""
    for number, _, location, _ in receiver_wire.fields(gzip.decompress(profile)):
        if number == 4:
            yield from (value for number, _, value, _ in receiver_wire.fields(location) if number == 3)


@harness.needs_sampling
class Addresses(PagesTest):
    def test_none_of_memory(self):
        """Code without a file and without names has no address for anybody: it would tell where a process's memory is."""
        self.start()
        self.instance.wait_sampling()
        program = os.path.join(harness.BUILD, "test", "jit_program")
        process = self.neighbour(uid=USER, cpus=1).start(program, 60, "-", stdout=subprocess.DEVNULL)
        harness.wait_until(lambda: harness.comm_of(process.pid) == "jit_program", 10, "it runs")
        with open("/proc/%d/maps" % process.pid) as file:
            lowest = min(int(line.split("-")[0], 16) for line in file)

        def frames():
            return [frame for sample in self.backend.samples() if sample.resource.get("process.pid") == process.pid
                    for frame in sample.frames if frame.kind != "kernel"]
        harness.wait_until(lambda: any(not frame.function and not frame.mapping for frame in frames()), 20,
                           "samples of code without a file")
        self.assertLess(max(frame.address for frame in frames()), lowest)
        shown = subprocess.run(["curl", "-sf", "--unix-socket", self.socket,
                                "http://localhost/debug/pprof/profile?seconds=0"],
                               capture_output=True, check=True).stdout
        addresses = list(pprof_addresses(shown))
        self.assertGreater(len(addresses), 0)
        self.assertLess(max(addresses), lowest)


if __name__ == "__main__":
    harness.main()

# SPDX-License-Identifier: Apache-2.0
"""What /api/status and `spanprof status` say of the frames of stock programs; and that the switch which they show, run as
it stands there, gives the functions their names."""
import collections
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))
import harness  # noqa: E402
import test_pages  # noqa: E402

INSTALLED = "/usr/lib/spanprof/publishers"
ERLANG = r"""
-module(busy).
-export([main/0]).
main() -> outer(0).
outer(N) -> outer(N + hot(100000, 0)).
hot(0, S) -> S;
hot(N, S) -> hot(N - 1, (S + N * N) rem 7919).
"""
LUA = r"""
local function hot(n) local s = 0 for i = 1, n do s = s + (i * i) % 7 end return s end
while true do hot(100000) end
"""


class FramesOf(test_pages.Pages):
    executables = ()  # Not the whole node: names of code that was made a moment ago are wanted soon.
    frequency = 97

    def setUp(self):
        self.over = {"processors": {"join": {"wait": "1s"}},
                     "receivers": {"sampler": {"frequency": self.frequency,
                                               "include": {"executables": list(self.executables)}}}}
        super().setUp()
        self.running = self.start(sampler=True)
        self.folder = tempfile.mkdtemp(prefix="spanprof-frames-")
        self.addCleanup(shutil.rmtree, self.folder)

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w") as file:
            file.write(text)
        return path

    def begin(self, *command, switch="", **environment):
        """switch: as it is shown, in front of a command in a shell."""
        process = subprocess.Popen(["/bin/sh", "-c", switch + ' exec "$@"', "sh", *command], cwd=self.folder,
                                   env=harness.environment(**environment), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)

        def end():
            process.kill()
            process.wait()
            for path in ("/tmp/perf-%d.map" % process.pid, "/tmp/jit-%d.dump" % process.pid):
                if os.path.exists(path):
                    os.unlink(path)
        self.addCleanup(end)
        return process.pid

    def row_once(self, pid, state):
        seen = []

        def met():
            rows = [row for row in self.json("/api/status")["processes"] if pid in row["pids"]]
            seen[:] = rows
            return rows[0] if rows and rows[0]["frames"]["state"] == state else None
        try:
            return harness.wait_until(met, 60, "its frames are " + state)
        except TimeoutError:
            self.fail("not %s: %s" % (state, json.dumps(seen)))

    def told(self, row):
        """What `spanprof status` prints of that row, line by line."""
        lines = subprocess.run([harness.BINARY, "status", "--socket", self.socket], capture_output=True, text=True,
                               timeout=60, check=True, env=harness.environment()).stdout.splitlines()
        first = next(i for i, line in enumerate(lines) if re.search(r" %d\b" % row["pid"], line))
        more = next((i for i, line in enumerate(lines) if i > first and not line.startswith("    ")), len(lines))
        return [line.strip() for line in lines[first:more]]

    def named(self, pid, kind):
        """Share of its samples that have a frame of this kind, and how often each function is the innermost such."""
        functions, total = collections.Counter(), 0
        for sample in self.backend.samples(pid):
            own = [frame.function for frame in sample.frames if frame.kind == kind]
            total += sample.count()
            functions[own[0] if own else ""] += sample.count()
        return (total - functions.pop("", 0)) / max(total, 1), functions

    def check_switch(self, runtime, command, name, share, **environment):
        """Without a name, and with the switch; name: how that of the function begins that is innermost most of
        the time."""
        stock = self.begin(*command, **environment)
        row = self.row_once(stock, "unnamed")
        self.assertEqual((row["runtime"], row["frames"]["text"]), (runtime, "no names"))
        line = row["frames"]["switch"]["line"]
        told = self.told(row)
        self.assertIn("names:   " + line, told)
        self.assertIn("Code that it makes at run time has no names: it writes no perf map.", told)

        switched = self.begin(*command, switch=line.replace(INSTALLED, os.path.join(harness.BUILD, "publishers")),
                              **environment)
        row = self.row_once(switched, "perf_map")
        self.assertNotIn("switch", row["frames"])
        self.assertIn("perf map", self.told(row)[0])
        harness.wait_until(lambda: sum(sample.count() for sample in self.backend.samples(switched)) > 300, 60, "samples")
        got, functions = self.named(switched, runtime)
        print(runtime, "%.3f" % got, functions.most_common(5), flush=True)
        self.assertGreater(got, share)
        self.assertTrue(functions.most_common(1)[0][0].startswith(name))
        self.assertEqual(self.named(stock, runtime)[1], {})
        return switched


@harness.needs_sampling
class Frames(FramesOf):
    executables = ("beam.smp", "luajit", "perl", os.path.basename(os.path.realpath("/usr/bin/python3")), "busy-shell")

    def test_erlang(self):
        if not shutil.which("erl") or not shutil.which("erlc"):
            self.skipTest("there is no Erlang")
        self.write("busy.erl", ERLANG)
        subprocess.run(["erlc", "busy.erl"], cwd=self.folder, check=True, timeout=60)
        switched = self.check_switch("beam", ("erl", "-noshell", "-s", "busy", "main"), "$busy:hot/2", 0.8)
        stacks = collections.Counter()
        for sample in self.backend.samples(switched):
            own = tuple(frame.function for frame in sample.frames if frame.kind == "beam")
            if own[:1] == ("$busy:hot/2",):
                stacks[own[:2]] += sample.count()
        print(stacks.most_common(3))
        self.assertEqual(stacks.most_common(1)[0][0], ("$busy:hot/2", "$busy:outer/1"))

    def test_luajit(self):
        lua = shutil.which("luajit")
        if not lua:
            self.skipTest("there is no LuaJIT")
        self.check_switch("luajit", (lua, self.write("busy.lua", LUA)), "hot busy.lua:2", 0.8)

    def test_perl(self):
        """It says what is not there."""
        perl = self.begin("perl", "-e", "sub hot { my $s = 0; $s += $_ * $_ % 7 for 1 .. $_[0]; $s } hot(1000) while 1")
        row = self.row_once(perl, "no_reader")
        self.assertEqual((row["runtime"], row["frames"]["text"]), ("perl", "not read"))
        self.assertIn("Perl writes no perf map", row["frames"]["why"])
        self.assertNotIn("switch", row["frames"])
        self.assertIn("not read", self.told(row)[0])

    def test_read(self):
        """Whose frames they are; and a native program has no others."""
        python = self.begin("/usr/bin/python3", "-c", "while True: pass")
        shell = os.path.join(self.folder, "busy-shell")
        shutil.copy("/bin/dash", shell)
        native = self.begin(shell, "-c", "while :; do :; done")
        version = ".".join(map(str, sys.version_info[:2]))
        row = self.row_once(python, "read")
        self.assertEqual((row["frames"]["text"], row["frames"]["why"]), ("CPython " + version, ""))
        self.assertIn("CPython " + version, self.told(row)[0])
        self.assertEqual(self.row_once(native, "native")["frames"]["text"], "native")


if __name__ == "__main__":
    harness.main()

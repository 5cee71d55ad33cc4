# SPDX-License-Identifier: Apache-2.0
"""Programs that publish and send as they are told (test/support/python/traced_program.py), where a test puts them: in a
cgroup, as a user, in a network namespace of their own."""
import contextlib
import json
import os
import subprocess
import sys

import harness

PROGRAM = os.path.join(harness.SOURCE, "test", "support", "python", "traced_program.py")
LIBRARY = os.path.join(harness.BUILD, "context", "libspanprof-context.so")
WORK_S = 0.6


def new_ids():
    return {"trace": os.urandom(16).hex(), "span": os.urandom(8).hex()}


class Traced:
    """start: as subprocess.Popen; publish: its Resource; pid: as the test sees it."""

    def __init__(self, start=subprocess.Popen, publish=None, launcher=(), **options):
        resource = ["%s=%s" % pair for pair in (publish or {}).items()]
        self.process = start([*launcher, sys.executable, "-B", PROGRAM, LIBRARY, *resource], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, text=True, **options)
        self.own_pid = self._answer()["pid"]

    @property
    def pid(self):
        """Of the program itself, not of what launched it."""
        below = harness.children_of(self.process.pid)
        return below[-1] if below else self.process.pid

    def _answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError("the program ended with %s" % self.process.wait(5))
        return json.loads(line)

    def begin(self, do, **what):
        self.process.stdin.write(json.dumps(dict(what, do=do)) + "\n")
        self.process.stdin.flush()

    def end(self):
        return self._answer()

    def do(self, do, **what):
        self.begin(do, **what)
        return self.end()

    def work(self, ids, seconds=WORK_S):
        return self.do("work", seconds=seconds, **ids)

    def send(self, to, ids, resource, times, name="charge"):
        answer = self.do("send", to=to, name=name, resource=resource, **ids, **times)
        if answer["status"] != 200:
            raise RuntimeError("refused: %s" % answer)

    def stop(self):
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        self.process.kill()
        self.process.wait()


class Network:
    """A network namespace that reaches this one by a veth pair: a container's."""
    made = 0

    def __init__(self):
        Network.made += 1
        self.name = "spanprof-test-%d-%d" % (os.getpid(), Network.made)
        third, last = os.getpid() % 250, Network.made * 4 % 250
        self.here, self.there = ("10.209.%d.%d" % (third, last + i) for i in (1, 2))
        ends = "sp%d-%da" % (os.getpid() % 100000, Network.made), "sp%d-%db" % (os.getpid() % 100000, Network.made)
        self.link = ends[0]
        run = self._run
        run("netns", "add", self.name)
        try:
            run("link", "add", ends[0], "type", "veth", "peer", "name", ends[1])
            run("link", "set", ends[1], "netns", self.name)
            run("addr", "add", self.here + "/30", "dev", ends[0])
            run("link", "set", ends[0], "up")
            run("-n", self.name, "addr", "add", self.there + "/30", "dev", ends[1])
            run("-n", self.name, "link", "set", ends[1], "up")
            run("-n", self.name, "link", "set", "lo", "up")
        except subprocess.CalledProcessError:
            self.remove()
            raise

    @staticmethod
    def _run(*arguments):
        subprocess.run(["ip", *arguments], check=True, capture_output=True)

    @property
    def launcher(self):
        return ["nsenter", "--net=/run/netns/" + self.name]

    def remove(self):
        with contextlib.suppress(subprocess.CalledProcessError):
            self._run("link", "del", self.link)
        with contextlib.suppress(subprocess.CalledProcessError):
            self._run("netns", "del", self.name)

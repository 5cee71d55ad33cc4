# SPDX-License-Identifier: Apache-2.0
"""Stock Node services get their spans' CPU by NODE_OPTIONS alone: every sample of what their handlers burned is linked to
the span of that request, on each Node that can be had. Interleave: what is published is the current span there."""
import glob
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "integration", "support"))
import harness  # noqa: E402
import publishing_node  # noqa: E402

SAMPLES = 5000   # of each service at the least
CHECKS = 300000  # of each Node at the least
STEPS = "800"
VERSIONS = ("18", "20", "22", "24", "26")
DEBIAN = ("nodejs", "libnode108")  # Debian 12's 18, whose Node is a library


def node(version):
    """The command that runs it. Raises publishing_node.Missing."""
    if version == "debian":
        return debian_node()
    folder = os.path.join(publishing_node.SOURCES, "runtimes")
    return [os.path.join(publishing_node.install("runtimes", folder), "node" + version, "bin", "node")]


def debian_node():
    """Debian 12's, beside what is installed."""
    if os.path.exists("/usr/lib/x86_64-linux-gnu/libnode.so.108"):
        return ["/usr/bin/nodejs"]
    raise publishing_node.Missing("no nodejs of Debian 12")


class Node(publishing_node.PublishNode):
    def node(self, version):
        try:
            return node(version)
        except publishing_node.Missing as reason:
            return self.skipTest(str(reason))


class Interleave(Node):
    def one(self, version):
        command = self.node(version)
        with tempfile.TemporaryDirectory() as directory:
            done = subprocess.run(
                [*command, os.path.join(publishing_node.SOURCES, "interleave.js")], stdout=subprocess.PIPE,
                stderr=subprocess.PIPE, timeout=600, cwd=directory,
                env={"PATH": os.environ["PATH"], "HOME": directory, "TMPDIR": directory, "STEPS": STEPS,
                     "TREE": publishing_node.TREE, "NODE_PATH": publishing_node.packages(),
                     "NODE_OPTIONS": publishing_node.preload()})
        lines = [line.split() for line in done.stdout.decode().splitlines()]
        print(version, "; ".join(" ".join(line) for line in lines), flush=True)
        checks, wrong = (sum(int(line[column]) for line in lines) for column in (1, 2))
        print("%s: %d checks, %d wrong" % (version, checks, wrong), flush=True)
        self.assertEqual(done.stderr.decode(), "")
        self.assertEqual(done.returncode, 0)
        self.assertEqual(lines[-1][0], "registeredAgain")
        self.assertGreaterEqual(checks, CHECKS)
        self.assertEqual(wrong, 0)


class Services(Node):
    def express(self, version):
        self.judge("express-" + version, self.node(version), "express_app.js", ["/render", "/callbacks", "/wait"], SAMPLES)

    def fastify(self, version):
        self.judge("fastify-" + version, self.node(version), "fastify_app.js",
                   ["/render", "/computed", "/served", "/wait"], SAMPLES)


Services = harness.needs_sampling(Services)
for _version in (*VERSIONS, "debian"):
    setattr(Interleave, "test_" + _version, lambda self, version=_version: self.one(version))
    for _kind in ("express", "fastify"):
        setattr(Services, "test_%s_%s" % (_kind, _version),
                lambda self, kind=_kind, version=_version: getattr(self, kind)(version))


if __name__ == "__main__":
    harness.main()

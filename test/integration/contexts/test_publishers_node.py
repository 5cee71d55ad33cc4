# SPDX-License-Identifier: Apache-2.0
"""A stock Express service on the machine's Node: every sample that its spans burned is linked to the right one. The short
form of test/peers/test_publish_node.py."""
import json
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))
import harness  # noqa: E402
import publisher_services  # noqa: E402
import publishing_node  # noqa: E402

publisher_services.INSTALL_TIMEOUT_S = 200  # here it is left out rather than waited for
SAMPLES = 1500


def node():
    return next((program for program in map(shutil.which, ("/usr/bin/nodejs", "nodejs", "node")) if program), None)


PUBLISHED = r"""
const api = require('@opentelemetry/api');
const { NodeTracerProvider } = require('@opentelemetry/sdk-trace-node');
new NodeTracerProvider().register();
const maps = () => require('fs').readFileSync('/proc/self/maps', 'utf8').split('\n').filter((line) => /OTEL_CTX/.test(line));
api.trace.getTracer('test').startActiveSpan('span', (span) => {
  console.log(JSON.stringify({ mappings: maps().length, span: span.spanContext().spanId,
    published: require(process.env.TREE + '/spanprof_context.node').current().split('-')[1] }));
});
"""


class Node(publishing_node.PublishNode):
    def setUp(self):
        if not node():
            self.skipTest("no nodejs")
        super().setUp()


class Behaviour(Node):
    """What a program sees of the publisher: nothing."""

    def run_node(self, text, **environment):
        """What a program prints, with the publisher in NODE_OPTIONS."""
        return subprocess.run([node(), "-e", text], capture_output=True, text=True, timeout=60, cwd=self.directory, env={
            "PATH": os.environ["PATH"], "HOME": self.directory, "TREE": publishing_node.TREE,
            "NODE_PATH": publishing_node.packages(), "NODE_OPTIONS": publishing_node.preload(), **environment})

    def published(self, **environment):
        done = self.run_node(PUBLISHED, **environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout), done.stderr

    def test_on_and_silent(self):
        found, errors = self.published()
        self.assertEqual((found["mappings"], found["published"]), (1, found["span"]))
        self.assertEqual(errors, "")

    def test_off(self):
        found, errors = self.published(SPANPROF_CONTEXT="off")
        self.assertEqual((found["mappings"], found["published"], errors), (0, "0" * 16, ""))

    def test_loaded_twice(self):
        copied = os.path.join(self.directory, "a copy")
        shutil.copytree(publishing_node.TREE, copied)
        found, errors = self.published(
            NODE_OPTIONS='%s --require "%s/preload.js"' % (publishing_node.preload(), copied))
        self.assertEqual((found["mappings"], found["published"], errors), (1, found["span"], ""))

    def test_another_writer_is_left_alone(self):
        """Another library has a process context: nothing is published, no hook is set, and nothing is said."""
        library = os.path.join(self.directory, "other.so")
        source = os.path.join(publishing_node.SOURCES, "other_writer.c")
        if not shutil.which("cc"):
            self.skipTest("no cc")
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
        found, errors = self.published(LD_PRELOAD=library)
        self.assertEqual((found["mappings"], found["published"], errors), (1, "0" * 16, ""))
        _, errors = self.published(LD_PRELOAD=library, SPANPROF_CONTEXT_DEBUG="1")
        self.assertIn("errno 17", errors)

    def test_addon_that_cannot_be_loaded(self):
        """As on musl: the file is there and is not for this libc."""
        broken = os.path.join(self.directory, "broken")
        shutil.copytree(publishing_node.TREE, broken)
        with open(os.path.join(broken, "spanprof_context.node"), "w") as file:
            file.write("not a library")
        options = "--require " + os.path.join(broken, "preload.js")
        found, errors = self.published(NODE_OPTIONS=options)
        self.assertEqual((found["mappings"], found["published"], errors), (0, "0" * 16, ""))
        _, errors = self.published(NODE_OPTIONS=options, SPANPROF_CONTEXT_DEBUG="1")
        self.assertIn("spanprof: not publishing", errors)


class Express(publishing_node.ServicesTest, Node):
    def test_express(self):
        self.run_service("express", publishing_node.Express, [node()], "express_app.js", SAMPLES)


if __name__ == "__main__":
    harness.main()

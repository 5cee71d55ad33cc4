# SPDX-License-Identifier: Apache-2.0
"""spanprof exec: the environment that it starts a command with, and prints."""
import os
import re
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "support"))
import harness  # noqa: E402


FILES = ("python/spanprof_otel/_native.abi3.so", "java/spanprof-java.jar", "node/preload.js", "node/spanprof_context.node",
         "ruby/spanprof_otel.rb", "dotnet/spanprof_otel.dll")
KUBERNETES = """env:
  - name: HOST_IP
    valueFrom: {fieldRef: {fieldPath: status.hostIP}}
  - name: OTEL_EXPORTER_OTLP_ENDPOINT
    value: "http://$(HOST_IP):4318"
  - name: OTEL_EXPORTER_OTLP_PROTOCOL
    value: "http/protobuf"
"""


def run(*arguments, **environment):
    return subprocess.run([harness.BINARY, "exec", *arguments], capture_output=True, text=True,
                          env={"PATH": os.environ["PATH"], **environment})


class Exec(harness.IntegrationTest):
    def setUp(self):
        super().setUp()
        self.set_publishers('with "quotes" and %s $HOME')

    def set_publishers(self, name):
        """Files of their names; only whether they are there counts."""
        self.publishers = os.path.join(self.directory, name)
        for file in FILES:
            path = os.path.join(self.publishers, file)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            open(path, "w").close()
        self.python, self.jar, self.node = (os.path.join(self.publishers, part) for part in (
            "python", "java/spanprof-java.jar", "node/preload.js"))

    def environment_of(self, *flags, **environment):
        done = run("--publishers", self.publishers, *flags, "--", "env", "-0", **environment)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return dict(line.split("=", 1) for line in done.stdout.split("\0") if line)

    def test_what_is_set(self):
        self.assertEqual(self.environment_of(), {
            "PATH": os.environ["PATH"], "PYTHONPATH": self.python,
            "OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4318", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
            "OTEL_JAVAAGENT_EXTENSIONS": self.jar,
            "NODE_OPTIONS": '--require="%s"' % self.node.replace('"', '\\"')})

    def test_plain_path(self):
        self.set_publishers("publishers")
        got = self.environment_of("--with", "ruby,dotnet")
        self.assertEqual(got["NODE_OPTIONS"], "--require=" + self.node)
        self.assertEqual(got["RUBYOPT"], "-r%s/ruby/spanprof_otel.rb" % self.publishers)
        self.assertEqual(got["DOTNET_STARTUP_HOOKS"], self.publishers + "/dotnet/spanprof_otel.dll")

    def test_node_reads_it(self):
        """Blanks and quotes in the path, as Node itself takes them."""
        node = shutil.which("nodejs") or shutil.which("node")
        if not node:
            self.skipTest("no node")
        with open(self.node, "w") as file:
            file.write("console.log('loaded');")
        done = run("--publishers", self.publishers, "--", node, "-e", "0", NODE_OPTIONS="--no-warnings")
        self.assertEqual((done.stdout, done.stderr, done.returncode), ("loaded\n", "", 0))

    def test_what_is_there_stays(self):
        self.assertEqual(self.environment_of(PYTHONPATH="/a:/b")["PYTHONPATH"], self.python + ":/a:/b")
        behind = self.environment_of(NODE_OPTIONS="--require=/a.js", OTEL_JAVAAGENT_EXTENSIONS="/a.jar")
        self.assertTrue(behind["NODE_OPTIONS"].startswith('--require=/a.js --require="'))
        self.assertEqual(behind["OTEL_JAVAAGENT_EXTENSIONS"], "/a.jar," + self.jar)
        spans = self.environment_of("--endpoint", "http://node:4318", OTEL_EXPORTER_OTLP_TRACES_ENDPOINT="http://elsewhere")
        self.assertNotIn("OTEL_EXPORTER_OTLP_ENDPOINT", spans)
        self.assertNotIn("OTEL_EXPORTER_OTLP_PROTOCOL", spans)

    def test_twice_is_once(self):
        for before in (self.python, "/a:" + self.python, self.python + ":/a"):
            self.assertEqual(self.environment_of(PYTHONPATH=before)["PYTHONPATH"], before)
        self.assertEqual(self.environment_of(PYTHONPATH=self.python + "2")["PYTHONPATH"],
                         "%s:%s2" % (self.python, self.python))

    def test_twice_is_once_for_node(self):
        once = self.environment_of(NODE_OPTIONS="--require=/a.js")["NODE_OPTIONS"]
        self.assertEqual(self.environment_of(NODE_OPTIONS=once)["NODE_OPTIONS"], once)

    def test_shells_and_wrappers(self):
        done = run("--publishers", self.publishers, "--", "sh", "-c", "exec env sh -c 'echo $OTEL_JAVAAGENT_EXTENSIONS'")
        self.assertEqual(done.stdout, self.jar + "\n")

    def test_with(self):
        done = run("--publishers", self.publishers, "--with", "ruby,dotnet", "--", "env", "-0")
        self.assertIn("DOTNET_STARTUP_HOOKS=", done.stdout)
        self.assertNotIn("RUBYOPT", done.stdout)  # which knows no quotes
        self.assertIn("RUBYOPT cannot hold the path", done.stderr)
        os.unlink(os.path.join(self.publishers, "dotnet", "spanprof_otel.dll"))
        self.assertIn("dotnet is left out", run("--publishers", self.publishers, "--with=dotnet", "true").stderr)

    def test_the_readme_has_each_switch(self):
        """As the Status page shows it; test/peers/test_readme_rows.py runs each."""
        with open(os.path.join(harness.SOURCE, "context", "runtime.h")) as file:
            lines = re.findall(r'"(spanprof exec --[^"]*|[^" ]*(?:SetTracerProvider|[iI]nstall)\([^"]*)"', file.read())
        with open(os.path.join(harness.SOURCE, "README.md")) as file:
            readme = file.read()
        self.assertEqual(len(lines), 6)
        for line in lines:
            self.assertIn("`" + line.replace("COMMAND", "") if line.endswith("exec -- COMMAND") else line, readme)

    def test_help_lists_publishers(self):
        text = run("--publishers", self.publishers, "--help").stdout
        self.assertIn("  python              on by default\n", text)
        self.assertIn("  dotnet              only by --with\n", text)

    def assert_sends(self, flags, environment, endpoint, protocol):
        got = self.environment_of(*flags, **environment)
        self.assertEqual((got.get("OTEL_EXPORTER_OTLP_ENDPOINT"), got.get("OTEL_EXPORTER_OTLP_PROTOCOL")),
                         (endpoint, protocol))

    def test_endpoint(self):
        """With the protocol of its port, unless the user has named one."""
        for endpoint, protocol in (("http://node:4318", "http/protobuf"), ("https://spans.example/otlp", "http/protobuf"),
                                   ("http://node:43170", "http/protobuf"), ("http://node:4317", "grpc"),
                                   ("http://[::1]:4317/", "grpc")):
            self.assert_sends(["--endpoint", endpoint], {}, endpoint, protocol)
        for variable in ("OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"):
            self.assert_sends(["--endpoint", "http://node:1"], {variable: "grpc"}, "http://node:1", "grpc")
        self.assert_sends(["--no-endpoint"], {}, None, None)

    def test_endpoint_of_this_node(self):
        self.assert_sends([], {}, "http://localhost:4318", "http/protobuf")
        self.assert_sends([], {"OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"}, "http://localhost:4318", "http/json")
        self.assert_sends([], {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "http://localhost:4317", "grpc")
        self.assert_sends([], {"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "grpc"}, "http://localhost:4317", "grpc")
        self.assert_sends([], {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://elsewhere"}, "http://elsewhere", None)
        for signal in ("TRACES", "METRICS", "LOGS"):
            self.assert_sends([], {"OTEL_EXPORTER_OTLP_%s_ENDPOINT" % signal: "http://elsewhere"}, None, None)

    def test_flags(self):
        self.assertNotIn("PYTHONPATH", self.environment_of("--without", "python"))
        os.unlink(os.path.join(self.python, "spanprof_otel", "_native.abi3.so"))
        self.assertNotIn("PYTHONPATH", self.environment_of())

    def test_files_that_are_not_there(self):
        """Node ends where the script is not there, and does not publish without the addon."""
        for file in ("preload.js", "spanprof_context.node"):
            self.set_publishers("without " + file)
            os.unlink(os.path.join(self.publishers, "node", file))
            got = self.environment_of()
            self.assertNotIn("NODE_OPTIONS", got)
            self.assertIn("PYTHONPATH", got)

    def test_codes(self):
        for arguments, code, words in ((["--", "false"], 1, ""), (["sh", "-c", "exit 7"], 7, ""), ([], 2, "nothing to start"),
                                       (["--", "no-such-command"], 127, "no-such-command"), (["--", "/etc"], 126, "/etc"),
                                       (["--with-love", "x"], 2, "unknown flag"), (["--without", "perl", "x"], 2, "perl"),
                                       (["--print=toml"], 2, "kubernetes"), (["--publishers", "/none", "x"], 2, "/none")):
            with self.subTest(arguments):
                done = run(*(["--publishers", self.publishers] if "--publishers" not in arguments else []), *arguments)
                self.assertEqual(done.returncode, code)
                self.assertIn(words, done.stderr)

    def test_print(self):
        """Each form, read by who would read it."""
        print_ = ["--publishers", self.publishers, "--print"]
        lines = run(*print_, PYTHONPATH="/not/ours").stdout.splitlines()
        self.assertIn("PYTHONPATH=" + self.python, lines)
        self.assertIn("OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4318", lines)
        systemd = run(print_[0], print_[1], "--print=systemd").stdout
        self.assertIn("\nEnvironment=\"PYTHONPATH=%s\"\n" % self.python.replace('"', '\\"').replace("%", "%%"), systemd)
        self.assertIn('\nEnvironment="OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4318"\n', systemd)
        kubernetes = run(print_[0], print_[1], "--print=kubernetes").stdout
        self.assertIn("  - name: PYTHONPATH\n    value: \"%s\"\n" % self.python.replace('"', '\\"').replace("$", "$$"),
                      kubernetes)

    def test_print_for_containers(self):
        """Their localhost is not the node's."""
        print_ = ["--publishers", self.publishers]
        docker = run(*print_, "--print=docker")
        self.assertNotIn("ENDPOINT", docker.stdout)
        self.assertIn("--endpoint URL", docker.stderr)
        self.assertEqual(docker.stdout, run(*print_, "--no-endpoint", "--print=docker").stdout)
        told = run(*print_, "--endpoint=http://node:4317", "--print=docker")
        self.assertEqual(told.stderr, "")
        self.assertIn("OTEL_EXPORTER_OTLP_ENDPOINT=http://node:4317\nOTEL_EXPORTER_OTLP_PROTOCOL=grpc\n", told.stdout)
        self.assertTrue(run(*print_, "--print=kubernetes").stdout.startswith(KUBERNETES))


if __name__ == "__main__":
    harness.main()

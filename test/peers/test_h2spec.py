# SPDX-License-Identifier: Apache-2.0
"""The gRPC port against h2spec, a program with a case for each demand of RFC 9113 and RFC 7541: all of
them, plain and by TLS.

SPANPROF_H2SPEC names the program; else one in PATH, else version 2.2.1 as Go's module proxy has it.
"""
import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "integration", "support"))
import harness  # noqa: E402
import sender  # noqa: E402
import go_toolchain  # noqa: E402

MODULE = "github.com/summerwind/h2spec/cmd/h2spec@v2.2.1+incompatible"
LEAST_CASES = 146
TRIES = 3  # 2.2.1 takes for a failure that a connection is reset which it has ended itself


def h2spec(test):
    program = os.environ.get("SPANPROF_H2SPEC") or shutil.which("h2spec")
    if program:
        return program
    program = os.path.join(go_toolchain.HOME, "bin", "h2spec")
    if os.path.exists(program):
        return program
    if not go_toolchain.GO:
        test.skipTest("neither h2spec nor go in PATH")
    variables = dict(os.environ, GOPATH=os.path.join(go_toolchain.HOME, "path"), GOFLAGS="-modcacherw",
                     GOBIN=os.path.dirname(program), GO111MODULE="on")
    done = subprocess.run([go_toolchain.GO, "install", MODULE], env=variables, capture_output=True, text=True,
                          timeout=300)
    if done.returncode:
        test.skipTest("h2spec cannot be had: " + done.stderr[-500:])
    return program


class H2spec(harness.IntegrationTest):
    def check(self, spanprof, address, *arguments):
        host, port = address.split(":")
        for _ in range(TRIES):
            done = subprocess.run([h2spec(self), "-h", host, "-p", port, "--strict", *arguments],
                                  capture_output=True, text=True, timeout=300)
            passed, skipped, failed = map(int, re.search(
                r"(\d+) passed, (\d+) skipped, (\d+) failed", done.stdout).groups())
            if not failed:
                break
        self.assertEqual((skipped, failed), (0, 0), done.stdout[done.stdout.find("Failures:"):])
        self.assertGreaterEqual(passed, LEAST_CASES)
        print("%d of %d" % (passed, passed))
        sender.GrpcSender(spanprof.grpc_address).send(sender.request_of(1)[0])

    def test_plain(self):
        spanprof = self.spanprof(sampler=False)
        self.check(spanprof, spanprof.grpc_address)

    def test_tls(self):
        subprocess.run([os.path.join(harness.BUILD, "test", "make_certificates"), self.directory], check=True)
        address = "127.0.0.1:%d" % harness.free_port()
        tls = {kind + "_file": os.path.join(self.directory, "server." + end)
               for kind, end in (("cert", "crt"), ("key", "key"))}
        spanprof = self.spanprof(sampler=False, over={
            "receivers": {"otlp/tls": {"protocols": {"grpc": {"endpoint": address, "tls": tls}}}},
            "service": {"pipelines": {"traces": {"receivers": ["otlp", "otlp/tls"]}}}})
        self.check(spanprof, address, "-t", "-k")


if __name__ == "__main__":
    harness.main()

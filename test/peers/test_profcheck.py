# SPDX-License-Identifier: Apache-2.0
"""Every request of profiles that spanprof sends in many of the integration tests, against profcheck, the
conformance checker of OpenTelemetry's profiling group.

SPANPROF_PROFCHECK names the program; else one in build/peers/go/bin or in PATH. To have it:
go install github.com/open-telemetry/sig-profiling/profcheck/cmd/profcheck@latest
"""
import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "integration"))
import harness  # noqa: E402
import go_toolchain  # noqa: E402

INTEGRATION = os.path.join(harness.SOURCE, "test", "integration")
STRICT = ("-check-dupes", "-check-orphans")
# file, cases; what is made of samples alone is held to the optional checks too
OURS = (("contexts", ["Matrix.test_otel_thread_context", "Matrix.test_elastic", "Precedence"]), ("labels", []),
        ("stacks", []), ("jit", []), ("names", []), ("sampling", []),
        ("long_spans", ["LongSpans.test_longer_than_the_wait"]), ("otlp_http", ["OtlpHttp.test_profiles"]))
OTHERS = (("held_profiles", []), ("signals", []))
SECONDS = 600


def profcheck():
    return go_toolchain.program("profcheck", "SPANPROF_PROFCHECK")


@unittest.skipUnless(profcheck(), "no profcheck")
class Profcheck(unittest.TestCase):
    def requests_of(self, folder, name, cases):
        """Whether the suite itself is content is told where it runs for itself."""
        subprocess.run([sys.executable, "-B", os.path.join(INTEGRATION, "test_%s.py" % name), *cases],
                       env=dict(os.environ, SPANPROF_KEEP_PROFILES=folder), capture_output=True, timeout=SECONDS)
        return sorted(os.path.join(folder, file) for file in os.listdir(folder))

    def check(self, suites, *options):
        for name, cases in suites:
            with self.subTest(suite=name), tempfile.TemporaryDirectory(prefix="spanprof-profiles-") as folder:
                requests = self.requests_of(folder, name, cases)
                for path in requests:
                    done = subprocess.run([profcheck(), *options, path], capture_output=True, text=True, timeout=60)
                    self.assertEqual(done.returncode, 0, done.stdout[:3000])
                print("%s: %d requests conform" % (name, len(requests)), flush=True)
                self.assertGreater(len(requests), 0)

    def test_samples_of_our_own(self):
        self.check(OURS, *STRICT)

    def test_profiles_of_others(self):
        self.check(OTHERS)


if __name__ == "__main__":
    harness.main()

# SPDX-License-Identifier: Apache-2.0
"""Every request of profiles that spanprof sends in the integration tests, against profcheck, the conformance checker of
OpenTelemetry's profiling group.

SPANPROF_PROFCHECK names the program; else one in build/peers/go/bin or in PATH. To have it:
go install github.com/open-telemetry/sig-profiling/profcheck/cmd/profcheck@latest
"""
import glob
import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "integration", "support"))
import harness  # noqa: E402
import go_toolchain  # noqa: E402

INTEGRATION = os.path.join(harness.SOURCE, "test", "integration")
PASSED_ON = {"json"}  # a sample of somebody else's, on purpose without a value
FILES = {os.path.basename(path)[len("test_"):-len(".py")]: path for path in glob.glob(INTEGRATION + "/*/test_*.py")}
SUITES = sorted(set(FILES) - PASSED_ON)
STRICT = ("-check-dupes", "-check-orphans")
# what is made of samples alone is held to the optional checks too
OURS = {"contexts", "jit", "labels", "long_spans", "names", "processes", "sampling", "short_lived", "stacks"}
SECONDS = 600


def profcheck():
    return go_toolchain.program("profcheck", "SPANPROF_PROFCHECK")


@unittest.skipUnless(profcheck(), "no profcheck")
class Profcheck(unittest.TestCase):
    def requests_of(self, folder, suite):
        """Whether the suite itself is content is told where it runs for itself."""
        subprocess.run([sys.executable, "-B", FILES[suite]],
                       env=dict(os.environ, SPANPROF_KEEP_PROFILES=folder), capture_output=True, timeout=SECONDS)
        return sorted(os.path.join(folder, file) for file in os.listdir(folder))

    def test_what_the_suites_send(self):
        seen = set()
        for suite in SUITES:
            with self.subTest(suite=suite), tempfile.TemporaryDirectory(prefix="spanprof-profiles-") as folder:
                requests = self.requests_of(folder, suite)
                for path in requests:
                    done = subprocess.run([profcheck(), *(STRICT if suite in OURS else ()), path],
                                          capture_output=True, text=True, timeout=60)
                    self.assertEqual(done.returncode, 0, done.stdout[:3000])
                if requests:
                    seen.add(suite)
                    print("%s: %d requests conform" % (suite, len(requests)), flush=True)
        self.assertLessEqual(OURS | {"pending_profiles", "signals", "otlp_http"}, seen)


if __name__ == "__main__":
    harness.main()

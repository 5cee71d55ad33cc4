# SPDX-License-Identifier: Apache-2.0
"""The custom-labels library of Polar Signals, as it is on crates.io, in a Rust program."""
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "integration", "support"))
import harness  # noqa: E402
import publishing  # noqa: E402

PEERS = os.path.join(harness.SOURCE, "build", "peers")
TARGET = os.path.join(PEERS, "custom_labels")
PACKAGE = os.path.join(HERE, "custom_labels")


def build(*options):
    """Of a copy: cargo writes its lock file beside the sources. None if it cannot be built."""
    copy = os.path.join(TARGET, "package")
    shutil.copytree(PACKAGE, copy, dirs_exist_ok=True)
    environment = dict(os.environ, CARGO_HOME=os.path.join(PEERS, "cargo"), CARGO_TARGET_DIR=TARGET)
    done = subprocess.run(["cargo", "build", "-q", "--release", *options], cwd=copy, env=environment)
    return None if done.returncode else os.path.join(TARGET, "release", "spans")


@harness.needs_sampling
class CustomLabels(publishing.PublishersTest):
    def test_rust(self):
        if not shutil.which("cargo"):
            self.skipTest("no cargo")
        program = build()
        if not program:
            self.skipTest("the crate custom-labels cannot be fetched or built")
        stripped = program + "-stripped"
        subprocess.run(["strip", "-o", stripped, program], check=True)
        sp = self.spanprof(over=publishing.OVER)
        sp.wait_sampling()
        for path in (program, stripped):
            self.publish(publishing.Peer(os.path.basename(path), [path, "100"]))
        publishing.run(self.publishers, 120)
        self.stop_when_delivered(sp)
        for peer in self.publishers:
            verdict = publishing.judge(peer, self.backend.samples(), self.expected)
            print("%s: %s" % (peer.label, verdict))
            self.assertGreater(verdict.right, 300)
            self.assertEqual(verdict.right, verdict.published())
            self.assertEqual(verdict.outside_linked, 0)

    def expected(self, record):
        return {"spanprof.context.source": "custom_labels",
                "process.context.label.route": record["attributes"]["route"]}


if __name__ == "__main__":
    harness.main()

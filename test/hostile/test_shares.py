# SPDX-License-Identifier: Apache-2.0
"""A neighbour that maps files without end has its own forgotten. Who is beside it keeps names."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
import neighbour  # noqa: E402
from neighbour import harness  # noqa: E402
from test_hold import NamesTest  # noqa: E402

FILES = 1000    # of a process; the symbolizer keeps 256 open
PROCESSES = 8 if neighbour.FULL else 1


@harness.needs_sampling
class Shares(NamesTest):
    def flood(self):
        attacker = self.neighbour()
        for i in range(PROCESSES):
            directory = os.path.join(self.directory, "flood%d" % i)
            os.mkdir(directory)
            os.chown(directory, neighbour.NOBODY, neighbour.NOBODY)
            process = attacker.script("files", directory, FILES, 60, stdout=-1)
            self.assertEqual(process.stdout.readline(), b"ready\n")
            process.stdout.close()

    def forgotten(self, what):
        return self.sp.metric("spanprof_executables_over_share_total", 'what="%s"' % what)

    def test_flood_of_files(self):
        os.chmod(self.directory, 0o755)
        already = self.forgotten("open")
        self.flood()
        harness.wait_until(lambda: self.forgotten("open") > already + FILES / 2, 20 * harness.SLOWNESS, "the flood is seen")
        self.assert_names_come()
        self.assertEqual(self.sp.metric("spanprof_readers_lost_total"), 0)


if __name__ == "__main__":
    harness.main()

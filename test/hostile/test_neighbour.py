# SPDX-License-Identifier: Apache-2.0
"""The neighbour of these tests is what they say: without rights, apart, and held to its share; the tenant measures."""
import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
import neighbour  # noqa: E402
from neighbour import harness  # noqa: E402


@harness.needs_root
class Support(neighbour.HostileTest):
    def test_neighbour_has_no_rights(self):
        attacker = self.neighbour()
        process = attacker.start("sleep", "30")
        harness.wait_until(lambda: harness.comm_of(process.pid) == "sleep", 5, "it runs")
        status = harness.status_of(process.pid)
        self.assertEqual(status["Uid"].split(), [str(neighbour.NOBODY)] * 4)
        self.assertEqual(status["Groups"].strip(), "")
        self.assertEqual(int(status["CapEff"], 16), 0)
        self.assertIn(process.pid, attacker.cgroup.pids())
        attacker.stop()
        self.assertIsNotNone(process.poll())
        self.assertFalse(os.path.exists(attacker.cgroup.path))

    def test_neighbour_has_half_a_cpu(self):
        attacker = self.neighbour()
        process = attacker.start("sh", "-c", "while :; do :; done")
        time.sleep(2)
        with open("/proc/%d/stat" % process.pid) as file:
            fields = file.read().rsplit(")", 1)[1].split()
        seconds = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        self.assertLess(seconds, 1.3)
        self.assertGreater(seconds, 0.2)

    def test_namespaces(self):
        attacker = self.neighbour()
        process = attacker.start("sh", "-c", "echo $$; id -u", unshare=("--map-root-user", "--pid", "--fork"),
                                 stdout=subprocess.PIPE)
        self.assertEqual(process.communicate(timeout=10)[0].split(), [b"1", b"0"])

    def test_tenant(self):
        tenant = self.tenant(self.spanprof(sampler=False))
        p99_s = tenant.run(1)
        tenant.stop()
        self.assert_unharmed(tenant, p99_s, tenant.p99_s())
        self.assert_arrived(tenant)
        self.assertGreater(len(tenant.acknowledged), 50)


if __name__ == "__main__":
    harness.main()

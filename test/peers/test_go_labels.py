# SPDX-License-Identifier: Apache-2.0
"""Executables of real Go toolchains: what is found in them, and whether the work of goroutines with labels
is linked to the spans that the labels name."""
import json
import os
import re
import shutil
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "integration", "support"))
import harness  # noqa: E402
import sender  # noqa: E402
import truth  # noqa: E402
import go_toolchain  # noqa: E402
from go_toolchain import Toolchain, VERSIONS, run  # noqa: E402

PIE = "-buildmode=pie"
STRIP = "-ldflags=-s -w"
NO_C = {"CGO_ENABLED": "0"}
C = {"CGO_ENABLED": "1"}
VARIANTS = {  # of the program `labels`: arguments and environment of go build
    "exe": ((), NO_C),
    "stripped": ((STRIP,), NO_C),
    "pie": ((PIE,), NO_C),
    "cgo": ((), C),
    "cgo-static": (("-ldflags=-linkmode=external -extldflags=-static",), C),
    "cgo-static-pie": ((PIE, "-ldflags=-linkmode=external -extldflags=-static-pie"), C),
    "cgo-pie-stripped": ((PIE, STRIP), C),
}
RUN = ["stripped", "pie", "cgo", "cgo-pie-stripped"]  # at once, with each version
if shutil.which("musl-gcc"):
    VARIANTS["cgo-musl"] = ((), dict(C, CC="musl-gcc"))
    RUN.append("cgo-musl")
SECONDS = 6
LEAD_S = 2  # a new process is known to the sampler after this
LEAST_SAMPLES = 60  # of a version's workloads, on a machine that has other work too


def toolchains(test):
    """Those that can be had."""
    found = []
    for version in VERSIONS:
        try:
            found.append(Toolchain(version))
        except go_toolchain.Missing as missing:
            print(missing)
    if not found:
        test.skipTest("no toolchain at all")
    return found


def build_variants(toolchain, names):
    return {name: toolchain.build("labels", name, *VARIANTS[name][0], **VARIANTS[name][1])
            for name in names}


def without_sections(path):
    """A copy whose header tells of no section headers."""
    with open(path, "rb") as file:
        content = bytearray(file.read())
    content[40:48] = bytes(8)  # e_shoff
    content[58:64] = bytes(6)  # e_shentsize, e_shnum, e_shstrndx
    with open(path + "-sectionless", "wb") as file:
        file.write(content)
    return path + "-sectionless"


def has_arm64_pie(version):
    return int(version.split(".")[1]) >= 15  # without a linker for aarch64


def build_arm64(toolchain):
    plain = dict(NO_C, GOARCH="arm64")
    built = {"arm64": toolchain.build("labels", "arm64", **plain)}
    if has_arm64_pie(toolchain.version):
        built["arm64-pie"] = toolchain.build("labels", "arm64-pie", PIE, **plain)
    return built


def offset_of_g(path):
    """From the thread pointer, as the TLS segment and the symbol in it have it (x86-64, variant II)."""
    segment = re.search(r"^ +TLS +\S+ \S+ \S+ \S+ (\S+) +R +(\S+)$", run(["readelf", "-lW", path]), re.M)
    if not segment:
        return -8
    size, align = (int(number, 16) for number in segment.groups())
    symbol = re.search(r"^ *\d+: ([0-9a-f]+) .* runtime\.tlsg$", run(["readelf", "-sW", path]), re.M)
    return (int(symbol.group(1), 16) if symbol else 0) - (size + align - 1) // align * align


@unittest.skipUnless(go_toolchain.GO, "no go in PATH")
class Executables(unittest.TestCase):
    """Against the DWARF of the executables that have one."""

    @classmethod
    def setUpClass(cls):
        newest = run([go_toolchain.GO, "env", "GOVERSION"]).strip()[2:]
        cls.layout = Toolchain(newest).build("layout", "host")

    def inspect(self, path):
        return json.loads(run([os.path.join(harness.BUILD, "test", "go_inspect"), path]))

    def check(self, path, version, dwarf, in_register=False):
        found = self.inspect(path)
        self.assertEqual(found["outcome"], 0)
        self.assertTrue(found["found"])
        self.assertTrue(found["decoded"], path)
        self.assertEqual(found["version"], ".".join(version.split(".")[:2]))
        self.assertEqual({name: found[name] for name in dwarf}, dwarf)
        self.assertEqual((found["in_word"], found["in_register"]), (False, in_register))
        return found

    def test_offsets(self):
        for toolchain in toolchains(self):
            with self.subTest(go=toolchain.version):
                built = build_variants(toolchain, VARIANTS)
                dwarf = json.loads(run([self.layout, built["exe"]]))
                self.assertEqual(set(dwarf), {"g_m", "g_labels", "m_curg"})
                offsets = {name: self.check(path, toolchain.version, dwarf)["g_offset"]
                           for name, path in built.items()}
                self.assertEqual(offsets, {name: offset_of_g(path) for name, path in built.items()})
                self.assertNotEqual(offsets["cgo-static"], -8)
                for name in ("stripped", "pie", "cgo-pie-stripped"):
                    found = self.check(without_sections(built[name]), toolchain.version, dwarf)
                    self.assertEqual(found["g_offset"], offsets[name], name)

    def test_offsets_on_arm64(self):
        for toolchain in toolchains(self):
            for name, path in build_arm64(toolchain).items():
                with self.subTest(go=toolchain.version, variant=name):
                    dwarf = json.loads(run([self.layout, path]))
                    found = self.check(path, toolchain.version, dwarf, in_register=True)
                    self.assertEqual(found["g_offset"], 0)


@unittest.skipUnless(go_toolchain.GO, "no go in PATH")
@harness.needs_sampling
class Labels(harness.IntegrationTest):
    def start_workloads(self, programs):
        """They work at the same time: threads of each are often preempted."""
        self.sent = {}
        return {name: self.workload("-lead", "%ds" % LEAD_S, "-duration", "%ds" % SECONDS, program=path)
                for name, path in programs.items()}

    def send_spans(self, spanprof, workload):
        """As an SDK would, in batches; the local root after its children."""
        new = workload.of("span")[self.sent.get(workload, 0):]
        if new:
            body = sender.request_of_truth(workload.first("process"), new)
            self.assertEqual(sender.post(spanprof.http_address, body)[0], 200)
            self.sent[workload] = self.sent.get(workload, 0) + len(new)

    def run_version(self, spanprof, toolchain):
        workloads = self.start_workloads(build_variants(toolchain, RUN))
        while any(workload.process.poll() is None for workload in workloads.values()):
            for workload in workloads.values():
                self.send_spans(spanprof, workload)
            time.sleep(0.5)
        for workload in workloads.values():
            workload.wait()
            self.assertEqual(workload.first("process")["go"], "go" + toolchain.version)
            self.send_spans(spanprof, workload)
        return workloads

    def judge(self, workload):
        samples = self.backend.samples(workload.pid)
        styles = {}
        for record in workload.records:
            if record["type"] in ("on", "off"):
                styles.setdefault(record["style"], []).append(record)
        return {style: truth.judge(records, samples) for style, records in styles.items()}

    def assert_linked(self, version, workloads):
        right = published = outside = 0
        for variant, workload in workloads.items():
            for style, verdict in self.judge(workload).items():
                self.assertEqual(verdict.wrong, 0, (version, variant, style, str(verdict)))
                self.assertEqual(verdict.outside_linked, 0, (version, variant, style, str(verdict)))
                # Some 33 samples: they show a variant that is not read, not a hundredth of it.
                self.assertGreaterEqual(verdict.right, 0.9 * verdict.published(),
                                        (version, variant, style, str(verdict)))
                right, published = right + verdict.right, published + verdict.published()
                outside += verdict.outside
        print("go%s: %d of %d samples linked; %d without ids" % (version, right, published, outside))
        self.assertGreater(published, LEAST_SAMPLES)
        self.assertGreater(outside, 0)
        self.assertGreaterEqual(right / published, 0.99)

    def test_links(self):
        spanprof = self.spanprof()
        spanprof.wait_sampling()
        ran = {toolchain.version: self.run_version(spanprof, toolchain) for toolchain in toolchains(self)}
        self.stop_spanprof(spanprof)
        for version, workloads in ran.items():
            with self.subTest(go=version):
                self.assert_linked(version, workloads)
        self.assert_conforming()


if __name__ == "__main__":
    harness.main()

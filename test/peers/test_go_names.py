# SPDX-License-Identifier: Apache-2.0
"""Names, files and lines of Go executables, stripped or not, against what each version's own addr2line says."""
import os
import random
import re
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import go_toolchain  # noqa: E402
from go_toolchain import Toolchain, VERSIONS, run  # noqa: E402

INSPECT = os.path.join(os.environ["SPANPROF_BUILD_DIR"], "test", "names_inspect")
PIE = "-buildmode=pie"
STRIP = "-ldflags=-s -w"
NO_C = {"CGO_ENABLED": "0"}
C = {"CGO_ENABLED": "1"}
VARIANTS = (("exe", (), NO_C), ("pie", (PIE,), NO_C), ("cgo", (), C), ("cgo-pie", (PIE,), C))
ADDRESSES = 1000
NAME_BYTES = 512


def ask(command, addresses, **options):
    return subprocess.run(command, input="".join("0x%x\n" % address for address in addresses), check=True,
                          capture_output=True, text=True, **options).stdout.splitlines()


def plain(name):
    """Go's table has [...] for what the linker's symbols spell out, other dots, and no mark of the calling
    convention; ours are cut."""
    return re.sub(r"\[.*\]", "[...]", name).replace("\u00b7", ".").removesuffix(".abi0")[:NAME_BYTES]


class Tool:
    """nm and addr2line of one version."""

    def __init__(self, toolchain):
        self.command = [os.path.join(toolchain.root, "bin", "go"), "tool"]
        self.environment = go_toolchain.environment(toolchain.version, GOROOT=toolchain.root)

    def some_addresses(self, path):
        """Of functions of Go: address and name."""
        found = []
        for line in run([*self.command, "nm", "-size", path], env=self.environment).splitlines():
            parts = line.split(None, 3)
            if len(parts) == 4 and parts[2] in "tT" and int(parts[1]) > 0 and "." in parts[3]:
                found.append((int(parts[0], 16), int(parts[1]), parts[3]))
        chosen = random.Random(1).sample(found, min(len(found), ADDRESSES))
        return [(start + random.Random(start).randrange(size), name) for start, size, name in chosen]

    def lines(self, path, addresses):
        """function, file:line; "?" in programs where these versions find nothing."""
        answer = ask([*self.command, "addr2line", path], addresses, env=self.environment)
        return zip(answer[::2], answer[1::2])


class Names(unittest.TestCase):
    def compare(self, tool, path, label):
        chosen = tool.some_addresses(path)
        addresses = [address for address, _ in chosen]
        found = [line.split("\t") for line in ask([INSPECT, path], addresses)]
        same = unjudged = without_line = 0
        different = []
        for (address, symbol), (function, place), answer in zip(chosen, tool.lines(path, addresses), found):
            if plain(answer[0]) != plain(symbol) or (function not in ("?", "") and answer[0] != function[:NAME_BYTES]):
                different.append((hex(address), symbol, function, place, answer))
            elif answer[3] == "0":
                without_line += 1  # inlined there
            elif function in ("?", ""):
                unjudged += 1
            elif "%s:%s" % (answer[2], answer[3]) == place:
                same += 1
            else:
                different.append((hex(address), symbol, function, place, answer))
        print("%-16s %4d same, %3d more with a line, %3d inlined, %d different"
              % (label, same, unjudged, without_line, len(different)), flush=True)
        self.assertEqual(different, [])
        self.assertGreater(same + unjudged, 400)
        self.assertLess(without_line, same + unjudged)

    def test_versions(self):
        tested = 0
        for version in VERSIONS:
            try:
                toolchain = Toolchain(version)
            except go_toolchain.Missing as missing:
                print(missing)
                continue
            tested += 1
            tool = Tool(toolchain)
            for name, arguments, variables in VARIANTS:
                if arguments and int(version.split(".")[1]) < 18:
                    continue  # relocations fill their tables
                symbols = toolchain.build("labels", "names-" + name, *arguments, **variables)
                stripped = toolchain.build("labels", "names-stripped-" + name, STRIP, *arguments, **variables)
                with self.subTest(version=version, variant=name):
                    self.compare(tool, symbols, "%s %s" % (version, name))
                    self.compare_stripped(symbols, stripped)
        if not tested:
            self.skipTest("no toolchain at all")

    def compare_stripped(self, symbols, stripped):
        """Without symbols the code is the same, but need not lie at the same place: names are compared by
        their number."""
        counts = []
        for path in (symbols, stripped):
            first = int(run(["readelf", "-SW", path]).split(".text ")[1].split()[1], 16)
            names = ask([INSPECT, path], range(first, first + 0x80000, 0x40))
            counts.append({name.split("\t")[0] for name in names if "runtime." in name})
        self.assertGreater(len(counts[0]), 100)
        self.assertGreater(len(counts[0] & counts[1]), 0.95 * len(counts[0]))


if __name__ == "__main__":
    program = unittest.main(exit=False)
    sys.exit(77 if program.result.skipped and program.result.wasSuccessful() else not program.result.wasSuccessful())

# SPDX-License-Identifier: Apache-2.0
"""Lines and inlined functions of real programs, address by address, against llvm-symbolizer and addr2line."""
import glob
import os
import random
import re
import shutil
import subprocess
import tempfile
import unittest

BUILD = os.environ["SPANPROF_BUILD_DIR"]
INSPECT = os.path.join(BUILD, "test", "lines_inspect")
ADDRESSES = 2000
FUNCTIONS_AT_MAX = 32  # of dwarf_lines.h
SYMBOLIZER = next((tool for tool in ("llvm-symbolizer-14", "llvm-symbolizer") if shutil.which(tool)), None)
PLACE = re.compile(r"(.*?):(\d+|\?)(?::\d+)?(?: \(discriminator \d+\))?$")


def output(*command, text=None):
    return subprocess.run(command, input=text, check=True, capture_output=True, text=True).stdout


def addresses_of(debug):
    """Of functions, not of what lies between them."""
    functions = [(int(start, 16), int(size, 16)) for start, size in re.findall(
        r"^(\w+) (\w+) [tTwW] ", output("nm", "-S", "--defined-only", debug), flags=re.M)]
    chosen = random.Random(len(functions))
    weights = [size for _, size in functions]
    return [start + chosen.randrange(size) for start, size in chosen.choices(functions, weights, k=ADDRESSES)]


def located(file):
    """Of files whose directories are told relative to each other, others tell some directories twice."""
    return os.path.normpath(file) if file.startswith("/") else os.path.basename(file)


def frames(names_and_places):
    """[(function, file, line)], innermost first; a place without a line is none."""
    found = []
    for name, place in names_and_places:
        file, line = PLACE.match(place).groups()
        found.append((name, located(file), 0 if line == "?" else int(line)))
    return found if any(line for _, _, line in found) else []


def ours(path, debug, addresses):
    text = output(INSPECT, path, debug, text="".join("%x\n" % address for address in addresses))
    return [frames(line.split("\t") for line in block.splitlines()) for block in re.findall(
        r"((?:.+\n)*)\n", text)]


def pairs(lines):
    return frames(zip(lines[::2], lines[1::2]))


def symbolizer(debug, addresses):
    text = output(SYMBOLIZER, "--obj=" + debug, "--inlines", "--no-demangle", "--functions=linkage",
                  text="".join("0x%x\n" % address for address in addresses))
    return [pairs(block.splitlines()) for block in text.rstrip("\n").split("\n\n")]


def addr2line(debug, addresses):
    text = output("addr2line", "-a", "-i", "-f", "-e", debug,
                  text="".join("%x\n" % address for address in addresses))
    return [pairs(block.splitlines()[1:]) for block in re.split(r"^(?=0x)", text, flags=re.M)[1:]]


def debug_file(path):
    """Of a stripped file, if it is installed; else the file itself."""
    build_id = re.search(r"Build ID: (\S\S)(\S+)", output("readelf", "-n", path))
    separate = "/usr/lib/debug/.build-id/%s/%s.debug" % build_id.groups() if build_id else ""
    return separate if os.path.exists(separate) else path


def programs():
    libraries = [path for path in glob.glob("/lib/*/libc.so.6") if debug_file(path) != path]
    built = [os.path.join(BUILD, name) for name in ("spanprof", "test/workload", "test/lines_inspect")]
    return built + sorted(glob.glob(os.path.join(BUILD, "test/lines/*[0-9]"))) + libraries


def comparable(chain, other):
    """The compiled function has a symbol's name for others (an alias, f.cold), in DWARF its own: it is only looked
    at whether it has one. Of more functions than are told others have more to say."""
    if other and re.match("_sub_[DI]_[0-9]", other[-1][0]):
        return True  # a sanitizer has made the function: DWARF knows nothing of it
    if not chain or not other or len(other) > FUNCTIONS_AT_MAX:
        return bool(chain) == bool(other)
    return chain[:-1] == other[:-1] and chain[-1][1:] == other[-1][1:] and chain[-1][0] != ""


RUST = """
use std::collections::HashMap;
fn main() {
    let mut counts = HashMap::new();
    for i in 0..1000u64 { *counts.entry(i * 7 % 100).or_insert(0u64) += i; }
    let mut sorted: Vec<_> = counts.into_iter().collect();
    sort(&mut sorted);
    println!("{:?}", sorted.iter().map(|pair| format!("{}", pair.0)).collect::<Vec<_>>().join(","));
}
fn sort<T: Ord>(values: &mut Vec<T>) { values.sort(); }
"""
GO = """
package main
import ("fmt"; "sort"; "strings")
func main() {
    counts := map[int]int{}
    for i := 0; i < 1000; i++ { counts[i * 7 % 100] += i }
    keys := []int{}
    for key := range counts { keys = append(keys, key) }
    sort.Ints(keys)
    fmt.Println(len(strings.Repeat("a", keys[5])), keys[:3])
}
"""


class Lines(unittest.TestCase):
    def compare(self, judge, same, paths):
        inlined = 0
        for path in paths:
            with self.subTest(path):
                debug = debug_file(path)
                addresses = addresses_of(debug)
                found, expected = ours(path, debug, addresses), judge(debug, addresses)
                self.assertEqual([len(found), len(expected)], [ADDRESSES] * 2)
                differences = ["%#x: %s, not %s" % found for found in zip(addresses, found, expected)
                               if not same(*found[1:])]
                self.assertEqual(differences, [])
                inlined += sum(len(chain) > 1 for chain in found)
        self.assertGreater(inlined, 100)

    @unittest.skipUnless(SYMBOLIZER, "no llvm-symbolizer")
    def test_symbolizer(self):
        self.compare(symbolizer, comparable, programs())

    def compare_built(self, source, name, *command):
        if not SYMBOLIZER or not shutil.which(command[0]):
            self.skipTest("no %s, or no llvm-symbolizer" % command[0])
        with tempfile.TemporaryDirectory(prefix="spanprof-lines-") as directory:
            with open(os.path.join(directory, name), "w") as file:
                file.write(source)
            built = subprocess.run(command, cwd=directory, capture_output=True, text=True)
            if built.returncode:
                self.skipTest("%s does not work here: %s" % (command[0], built.stderr.strip()[-200:]))
            self.compare(symbolizer, comparable, [os.path.join(directory, "program")])

    def test_rust(self):
        self.compare_built(RUST, "program.rs", "rustc", "-O", "-g", "program.rs")

    def test_go(self):
        self.compare_built(GO, "program.go", "go", "build", "-o", "program", "program.go")

    @unittest.skipUnless(shutil.which("addr2line"), "no binutils")
    def test_addr2line(self):
        """Of binutils 2.40: it names the unit's file where DWARF 5 names another one, so functions and lines alone;
        and finds nothing by 64-bit DWARF."""
        def same(chain, other):
            return comparable([(name, line) for name, _, line in chain], [(name, line) for name, _, line in other])
        self.compare(addr2line, same, [path for path in programs() if os.path.basename(path) != "gcc64"])


if __name__ == "__main__":
    unittest.main()

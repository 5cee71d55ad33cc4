# SPDX-License-Identifier: Apache-2.0
"""Each test program is what its name says: its C library, how it is linked, and where its thread-local variable is.
Arguments: the build directory, and the C libraries that there are compilers for."""
import os
import re
import subprocess
import sys
import unittest

BUILD, LIBCS = sys.argv[1], sys.argv[2:]
TEST = os.path.join(BUILD, "test")
LINKER = {"glibc": r"/ld-linux[^/]*\.so\.\d$", "musl": r"/ld-musl-[^/]*\.so\.1$"}
LIBRARY = {"glibc": "libc.so.6", "musl": "libc.so"}
VARIABLE = "otel_thread_ctx_v1"
RELOCATIONS = {"gd": r"DTPMOD", "ld": r"DTPMOD", "desc": r"TLSDESC", "ldesc": r"TLSDESC", "ie": r"TP(OFF|REL)"}
OF_BLOCK = ("ld", "ldesc")


def readelf(path, *options):
    return subprocess.run(["readelf", "-W", *options, path], capture_output=True, text=True, check=True).stdout


def interpreter(path):
    found = re.search(r"Requesting program interpreter: ([^]]+)\]", readelf(path, "-l"))
    return found and found.group(1)


def needed(path):
    return re.findall(r"\(NEEDED\).*\[(.*)\]", readelf(path, "-d"))


def relocations(path):
    """(what is relocated, name or addend) of those of thread-local variables."""
    return re.findall(r"R_\w+?_(?:TLS_)?((?:DTPMOD|TLSDESC|TPOFF|TPREL)\d*)\s+(?:[0-9a-f]{16}\s+)?(\S+)",
                      readelf(path, "-r"))


def has_symbol(path, table):
    return any(line.split()[-1] == VARIABLE and "UND" not in line
               for line in readelf(path, table).splitlines() if " TLS " in line)


def has_symbol_table(path):
    return " .symtab " in readelf(path, "-S")


def is_glibc_inside(path):
    """glibc's start files bring a note; musl's do not."""
    return "NT_GNU_ABI_TAG" in readelf(path, "-n")


def publishers(libc):
    directory = os.path.join(TEST, "publisher", libc)
    return [os.path.join(directory, name) for name in sorted(os.listdir(directory)) if not name.endswith(".o")]


class Programs(unittest.TestCase):
    def assert_static(self, path, libc):
        self.assertIsNone(interpreter(path))
        self.assertEqual(needed(path), [])
        self.assertEqual(is_glibc_inside(path), libc == "glibc")

    def assert_dynamic(self, path, libc):
        self.assertRegex(interpreter(path) or "none", LINKER[libc])
        self.assertIn(LIBRARY[libc], needed(path))

    def assert_kind(self, path, name):
        kind = re.search(r"Type:\s+(\w+)", readelf(path, "-h")).group(1)
        fixed = name.startswith(("static_le", "static_gd", "no_pie")) or name in ("static", "late_no_pie")
        self.assertEqual(kind, "EXEC" if fixed else "DYN")

    def assert_seen(self, path, name):
        exported = name.endswith(("_exported", "_exported_stripped"))
        stripped = name.endswith("_stripped")
        self.assertEqual(has_symbol(path, "--dyn-syms"), exported)
        self.assertEqual(has_symbol_table(path), not stripped)
        if not stripped:
            self.assertTrue(has_symbol(path, "-s"))

    def assert_model(self, path, name):
        """Each of its two variables has a relocation of its own, or the block of both has one, without name or place."""
        model, found = name.split("_")[0], relocations(path)
        for kind, _ in found:
            self.assertRegex(kind, RELOCATIONS[model])
        names = [what for _, what in found]
        if model in OF_BLOCK:
            self.assertEqual(names, ["0"])
        else:
            self.assertEqual(len(names), 2)
            self.assertEqual(VARIABLE in names, "_exported" in name)

    def test_publishers(self):
        for libc in LIBCS:
            paths = publishers(libc)
            self.assertGreater(len(paths), 60)
            for path in paths:
                name = os.path.basename(path)
                case = re.sub("^case_", "", name)
                with self.subTest(libc=libc, name=name):
                    if name.endswith(".so"):
                        self.assertIsNone(interpreter(path))
                        self.assertEqual(LIBRARY["musl"] in needed(path), libc == "musl")
                    elif case.startswith("static"):
                        self.assert_static(path, libc)
                    else:
                        self.assert_dynamic(path, libc)
                    if not name.endswith(".so"):
                        self.assert_kind(path, case)

    def test_cases(self):
        for libc in LIBCS:
            for path in publishers(libc):
                name = os.path.basename(path)
                if not name.startswith("case_") or name.startswith("case_linked_"):
                    continue
                case = name[len("case_"):].replace(".so", "")
                with self.subTest(libc=libc, name=name):
                    self.assert_seen(path, case)
                    if name.endswith(".so"):
                        self.assert_model(path, case)

    def test_others_of_musl(self):
        if "musl" not in LIBCS:
            self.skipTest("no compiler for musl")
        for name in ("context_musl_static", "stacks/musl_static", "unwind/musl_static"):
            with self.subTest(name):
                self.assert_static(os.path.join(TEST, name), "musl")
        self.assert_dynamic(os.path.join(TEST, "context_musl_shared"), "musl")
        self.assertEqual(needed(os.path.join(TEST, "libcontext_musl.so")), [LIBRARY["musl"]])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])

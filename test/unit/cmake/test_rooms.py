#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""cmake/rooms.py is content with this tree, and finds what is planted in a copy of it."""
import pathlib
import shutil
import subprocess
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[3]
COPIED = ("base", "sandbox", "client", "config", "context", "proto", "store", "agent-bpf", "receiver", "exporter", "service",
          "cmake", "docs")


class Rooms(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = pathlib.Path(directory.name)
        for folder in COPIED:
            shutil.copytree(SOURCE / folder, self.root / folder, ignore=shutil.ignore_patterns("vmlinux", "web"))
        shutil.copy(SOURCE / "main.c", self.root)
        subprocess.run(["git", "init", "-q", self.root], check=True)

    def check(self):
        run = subprocess.run(["python3", "-B", self.root / "cmake/rooms.py"], capture_output=True, text=True)
        self.assertEqual(run.returncode, 1 if run.stdout else 0, run.stderr)
        return run.stdout

    def plant(self, path, text):
        file = self.root / path
        file.write_text(text + file.read_text() if file.exists() else text)

    def test_the_tree(self):
        self.assertEqual(self.check(), "")

    def test_upward(self):
        self.plant("store/db/db.c", '#include "store/store.h"\n')
        self.assertEqual(self.check(), "store/db/db.c: store/store.h: goes up, store/db does not include store\n")

    def test_across(self):
        self.plant("receiver/grpc/grpc_server.c", '#include "receiver/http/http_server.h"\n')
        self.assertIn("receiver/http/http_server.h: goes", self.check())

    def test_past_a_door(self):
        private = next(path for path in (self.root / "store/join").glob("*.h")
                       if path.stem not in ("join", "matched_span", "owner", "sample"))
        self.plant("store/store.c", f'#include "store/join/{private.name}"\n')
        self.assertEqual(self.check(), f"store/store.c: store/join/{private.name}: is private to store/join\n")

    def test_a_room_that_is_not_in_the_table(self):
        (self.root / "store/attic").mkdir()
        self.plant("store/attic/attic.c", "int attic;\n")
        self.assertEqual(self.check(), "store/attic/attic.c: is in no room of rooms.txt\n")

    def test_a_circle(self):
        table = self.root / "cmake/rooms.txt"
        lines = [line + " store/join" if line.startswith("store/db ") else line
                 for line in table.read_text().splitlines()]
        table.write_text("\n".join(lines) + "\n")
        self.assertIn("store/db includes store/join, which does not stand below it", self.check())

    def test_a_crowded_room(self):
        for number in range(41):
            self.plant(f"client/crowd_{number}.c", "")
        self.assertIn("client: ", self.check())

    def test_a_stale_drawing(self):
        page = self.root / "docs/architecture.md"
        page.write_text(page.read_text().replace("stands on", "stands over"))
        self.assertIn("the ladder is stale", self.check())


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The walls between rooms (cmake/rooms.txt).

usage: rooms.py          check every #include of the product: none goes up, across or past a door
       rooms.py --draw   print the ladder as docs/architecture.md has it
       rooms.py --write  write it there, between its markers

A room is a folder. A file may include headers of its own room, of base, and the door headers of the
rooms that its row names; those rows stand above its own, so that no chain of includes is a circle.
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TABLE = ROOT / "cmake/rooms.txt"
PAGE = ROOT / "docs/architecture.md"
MARKERS = ("<!-- rooms -->\n", "<!-- /rooms -->\n")
FILES_MAX = 40  # .c and .h of one room
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)


class Room:
    def __init__(self, line, number):
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) != 3:
            sys.exit(f"{TABLE.name}:{number}: three columns are wanted")
        self.name, self.doors, self.lower = cells[0], cells[1].split(), cells[2].split()
        self.number = number
        self.files = []
        self.used_doors, self.used_rooms = set(), set()

    def is_door(self, header):
        return "*" in self.doors or pathlib.Path(header).stem in self.doors


def read_table():
    rooms = {}
    for number, line in enumerate(TABLE.read_text().splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            room = Room(line, number)
            rooms[room.name] = room
    return rooms


def product_files():
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.c", "*.h"],
                            cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()
    return [path for path in listed
            if not path.startswith("test/") and "/vmlinux/" not in path and (ROOT / path).exists()]


def check_table(rooms):
    """A room names only rooms above it in the table: the ladder has no circle."""
    for room in rooms.values():
        for lower in room.lower:
            if lower not in rooms:
                yield f"{TABLE.name}:{room.number}: there is no room {lower}"
            elif rooms[lower].number >= room.number:
                yield f"{TABLE.name}:{room.number}: {room.name} includes {lower}, which does not stand below it"


def check_include(rooms, room, path, header):
    target = rooms.get(str(pathlib.PurePath(header).parent))
    if target is None:
        yield f"{path}: {header} is in no room"
    elif target is not room:
        room.used_rooms.add(target.name)
        target.used_doors.add(pathlib.Path(header).stem)
        if target.name != "base" and target.name not in room.lower:
            way = "up" if target.number > room.number else "across"
            yield f"{path}: {header}: goes {way}, {room.name} does not include {target.name}"
        if not target.is_door(header):
            yield f"{path}: {header}: is private to {target.name}"


def check_files(rooms):
    for path in product_files():
        room = rooms.get(str(pathlib.PurePath(path).parent))
        if room is None:
            yield f"{path}: is in no room of {TABLE.name}"
            continue
        room.files.append(path)
        for header in INCLUDE.findall((ROOT / path).read_text()):
            if (ROOT / header).exists():
                yield from check_include(rooms, room, path, header)


def check_unused(rooms):
    """What the table allows and nothing uses is a door left open."""
    for room in rooms.values():
        if len(room.files) > FILES_MAX:
            yield f"{room.name}: {len(room.files)} files, the end is {FILES_MAX}"
        if not room.files:
            yield f"{TABLE.name}:{room.number}: {room.name} has no files"
        for lower in set(room.lower) - room.used_rooms:
            yield f"{TABLE.name}:{room.number}: {room.name} does not use {lower}"
        if room.name not in ("base", "context", "."):
            for door in set(room.doors) - room.used_doors - {"*"}:
                yield f"{TABLE.name}:{room.number}: nothing outside of {room.name} includes {door}.h"


def below(rooms, room):
    """The rooms right below: without those that these include themselves."""
    reached, todo = set(), [lower for name in room.lower for lower in rooms[name].lower]
    while todo:
        name = todo.pop()
        if name not in reached:
            reached.add(name)
            todo += rooms[name].lower
    return [name for name in room.lower if name not in reached]


def draw(rooms):
    """One line a room, the ground last, with its doors and the rooms right below it."""
    lines = ["```", f"{'room':26}{'doors':22}stands on"]
    for room in reversed(list(rooms.values())):
        doors = "all its headers" if room.doors == ["*"] else " ".join(room.doors[:1])
        doors += ", …" if len(room.doors) > 1 else ""
        name = "main.c" if room.name == "." else room.name
        lines.append(f"{name:26}{doors:22}{', '.join(below(rooms, room))}".rstrip())
    return "\n".join(lines + ["```"]) + "\n"


def page_parts():
    text = PAGE.read_text()
    if any(marker not in text for marker in MARKERS):
        sys.exit(f"{PAGE.name} has no markers for the ladder")
    before, rest = text.split(MARKERS[0], 1)
    drawn, after = rest.split(MARKERS[1], 1)
    return before + MARKERS[0], drawn, MARKERS[1] + after


def main():
    rooms = read_table()
    if "--draw" in sys.argv:
        print(draw(rooms), end="")
    elif "--write" in sys.argv:
        before, _, after = page_parts()
        PAGE.write_text(before + draw(rooms) + after)
    else:
        found = [*check_table(rooms), *check_files(rooms), *check_unused(rooms)]
        if page_parts()[1] != draw(rooms):
            found.append(f"{PAGE.name}: the ladder is stale: run cmake/rooms.py --write")
        for line in found:
            print(line)
        sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()

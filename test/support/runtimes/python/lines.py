# SPDX-License-Identifier: Apache-2.0
"""Writes the line table of each code object of the standard library, and what the interpreter makes of it: numbers of
32 bits, first the number of code units, then of the table's bytes, the first line, the table (padded to 4 bytes), and
for each code unit its line and column; 0: it has none. Argument: at most so many code units."""
import array
import dis
import marshal
import os
import sys
import types

HEADER = 16  # bytes of a .pyc in front of its code object


def units(code):
    """(line, column) of each code unit."""
    n = len(code.co_code) // 2
    if sys.version_info >= (3, 11):
        return [(line, 0 if column is None else column + 1) if line else (0, 0)
                for line, _, column, _ in code.co_positions()]
    found = []
    if sys.version_info >= (3, 10):
        for start, end, line in code.co_lines():
            found += [(line or 0, 0)] * ((end - start) // 2)
        return found
    line = code.co_firstlineno
    starts = dict(dis.findlinestarts(code))
    for unit in range(n):
        line = starts.get(2 * unit, line)
        found.append((line, 0))
    return found


def table(code):
    return code.co_linetable if sys.version_info >= (3, 10) else code.co_lnotab


def codes(code):
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from codes(constant)


def modules(root):
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if name != "site-packages"]
        for name in sorted(files):
            if name.endswith(f"{sys.implementation.cache_tag}.pyc"):
                yield os.path.join(folder, name)


def write(out, code):
    found, text = units(code), table(code)
    numbers = [len(found), len(text), code.co_firstlineno]
    out.write(array.array("i", numbers).tobytes() + text + b"\0" * (-len(text) % 4))
    out.write(array.array("i", [number for pair in found for number in pair]).tobytes())
    return len(found)


def main():
    left = int(sys.argv[1])
    for path in modules(os.path.dirname(os.__file__)):
        with open(path, "rb") as file:
            data = file.read()
        for code in codes(marshal.loads(data[HEADER:])):
            left -= write(sys.stdout.buffer, code)
        if left <= 0:
            break


main()

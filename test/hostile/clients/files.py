# SPDX-License-Identifier: Apache-2.0
"""Maps that many files with code, each another one, from the directory, and burns: files.py DIRECTORY N SECONDS"""
import mmap
import os
import sys
import time

HEAD = 64  # bytes of an ELF header


def main():
    directory, n, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    with open("/proc/self/exe", "rb") as own:
        head = own.read(HEAD)
    mappings = []
    for i in range(n):
        path = os.path.join(directory, "file%d" % i)
        with open(path, "wb") as file:
            file.write(head + bytes(4096 - HEAD))
        with open(path, "rb") as file:
            mappings.append(mmap.mmap(file.fileno(), 4096, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC))
    print("ready", flush=True)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


main()

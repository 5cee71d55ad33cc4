# SPDX-License-Identifier: Apache-2.0
"""Works below DEPTH calls, again and again."""
import sys


def work():
    for _ in range(20000):
        pass


def descend(depth):
    if depth > 1:
        return descend(depth - 1) + 1
    work()
    return 1


sys.setrecursionlimit(10000)
descend(int(sys.argv[1]))
print("works", flush=True)
while True:
    descend(int(sys.argv[1]))

# SPDX-License-Identifier: Apache-2.0
"""Functions that are made, run for a moment and thrown away, each with its number in all of its names and lines: of two
frames of one stack, or of a frame's function and file, both have the same number. Says "ready"."""
import collections
import sys
import threading

SOURCE = """
def leaf_{n}(k):
    total = 0
    for i in range(k):
        total += i * i
    return total


def outer_{n}():
    for _ in range(20):
        leaf_{n}(300)


outer_{n}()
"""


def churn():
    kept = collections.deque(maxlen=20)
    n = 0
    while True:
        n += 1
        names = {}
        exec(compile("\n" * (n % 1000) + SOURCE.format(n=n), "/made/%d" % n, "exec"), names)
        kept.append(names)


def main():
    threading.Thread(target=churn, daemon=True).start()
    print("ready", flush=True)
    sys.stdin.read()


main()

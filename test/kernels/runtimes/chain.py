# SPDX-License-Identifier: Apache-2.0
"""Calls of known names for SECONDS of CPU time: outer, middle, inner, which works."""
import sys
import time


def inner(turns):
    total = 0
    for turn in range(turns):
        total += turn % 7
    return total


def middle(turns):
    return inner(turns) + 1


def outer(turns):
    return middle(turns) + 1


end = time.thread_time() + float(sys.argv[1])
while time.thread_time() < end:
    outer(100000)

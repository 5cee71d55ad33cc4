# SPDX-License-Identifier: Apache-2.0
"""Load whose stacks are known from this text: who calls whom, in which line, 24 times into the depth. Says its thread,
then each phase with its begin and end (ns since 1970). phases.py SECONDS. The same in Phases.java and phases.js."""
import sys
import threading
import time

DEPTH = 24
PHASE_NS = 100_000_000


def twist(value):
    return value * 31 & 0xffffff


def mix(total, step):
    return twist(total + step) ^ step


def burn(until):
    total = 0
    while time.time_ns() < until:
        for step in range(300):
            total = mix(total, step)
    return total


def descend(depth, until):
    if depth:
        return descend(depth - 1, until) + 1
    return burn(until)


def plain(until):
    return descend(DEPTH, until)


def scramble(until):
    total = 1
    while time.time_ns() < until:
        for step in range(300):
            total = total * 17 + step & 0xffffff
    return total


def even(depth, until):
    if depth:
        return odd(depth - 1, until) + 2
    return scramble(until)


def odd(depth, until):
    return even(depth - 1, until) + 3


def mutual(until):
    return even(DEPTH, until)


def count(until):
    total = 0
    while time.time_ns() < until:
        for step in range(300):
            total = twist(total ^ step)
    return total


def first(depth, until):
    return second(depth - 1, until) + 1 if depth else count(until)


def second(depth, until):
    return third(depth - 1, until) * 2


def third(depth, until):
    return fourth(depth - 1, until) - 3


def fourth(depth, until):
    return first(depth - 1, until) + 4


def ladder(until):
    return first(DEPTH, until)


def weigh(key):
    total = key
    for step in range(3000):
        total = mix(step, total)
    return total


def sort(until):
    items = [3, 1, 2]
    while time.time_ns() < until:
        items.sort(key=weigh)  # calls weigh
    return items[0]


def shelve(depth, until):
    if depth:
        return shelve(depth - 1, until) + 1
    return sort(until)


def library(until):
    return shelve(DEPTH, until)


def main(seconds):
    print("thread", threading.get_native_id(), flush=True)
    end = time.time() + seconds
    while time.time() < end:
        for phase in (plain, mutual, ladder, library):
            begin = time.time_ns()
            phase(begin + PHASE_NS)  # calls plain mutual ladder library
            print(phase.__name__, begin, time.time_ns(), flush=True)


main(float(sys.argv[1]))

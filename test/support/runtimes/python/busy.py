# SPDX-License-Identifier: Apache-2.0
"""Threads that never rest, in Python that calls C that calls Python. Which function may call which is in
test/bpf/test_python.c. Says "ready"; ends when its input does."""
import os
import re
import sys
import threading
import zlib

PATTERN = re.compile("a")
DATA = os.urandom(1 << 16) * 4


def spin(n):
    total = 0
    for i in range(n):
        total += i * i
    return total


class Key:
    def __lt__(self, other):
        spin(50)
        return False


def by_sort():
    sorted([Key(), Key(), Key(), Key()])


def replace(match):
    spin(100)
    return "b"


def by_sub():
    PATTERN.sub(replace, "aaaa")


def mapped(value):
    return spin(100)


def by_map():
    list(map(mapped, [1, 2, 3]))


def produced():
    for _ in range(10):
        yield spin(50)


def by_generator():
    for _ in produced():
        pass


async def inner():
    return spin(100)


async def outer():
    for _ in range(3):
        await inner()


def by_await():
    try:
        outer().send(None)
    except StopIteration:
        pass


def descend(depth):
    return descend(depth - 1) if depth else spin(200)


def by_exec():
    exec(COMPILED, globals())


def executed():
    spin(100)


COMPILED = compile("executed()", "<made>", "exec")


def work():
    while True:
        by_sort()
        by_sub()
        by_map()
        by_generator()
        by_await()
        descend(40)
        by_exec()


def compress():
    while True:
        zlib.compress(DATA, 9)


def main():
    for target in (work, work, compress):
        threading.Thread(target=target, daemon=True).start()
    print("ready", flush=True)
    sys.stdin.read()


main()

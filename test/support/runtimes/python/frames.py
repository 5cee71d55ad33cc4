# SPDX-License-Identifier: Apache-2.0
"""Threads that stop in frames of all kinds. Each says of itself what its frames are: "thread", its pthread_self() and its
number, how many frames; then for each frame, leaf first, function, file, line and first line, with tabs between. At last
"ready". It ends when its input does."""
import asyncio
import functools
import re
import sys
import threading
import time

lock = threading.Lock()


def say(frame):
    """All frames from this one on."""
    lines = []
    while frame:
        code = frame.f_code
        lines.append("\t".join((getattr(code, "co_qualname", code.co_name), code.co_filename, str(frame.f_lineno),
                                str(code.co_firstlineno))))
        frame = frame.f_back
    head = f"thread {threading.get_ident()} {getattr(threading, 'get_native_id', int)()} {len(lines)}\n"
    with lock:
        sys.stdout.buffer.write((head + "\n".join(lines) + "\n").encode())
        sys.stdout.flush()


def stop():
    say(sys._getframe()); time.sleep(1000)


def recursion(depth):
    return recursion(depth - 1) if depth else stop()


def generator():
    def inner():
        yield stop()
    yield from inner()


def comprehension():
    return [stop() for _ in range(1)]


def generator_expression():
    return sum(stop() for _ in range(1))


class Key:
    """Called from C: sort calls __lt__, and this calls Python by map and re.sub."""

    def __lt__(self, other):
        return list(map(lambda _: re.sub("a", lambda match: stop(), "a"), [1]))


class Meta(type):
    def __call__(cls, *arguments):
        return super().__call__(*arguments)


class Made(metaclass=Meta):
    def __init__(self, *arguments):
        self.value = functools.partial(functools.reduce, lambda a, b: stop(), [1, 2])()

    def __getattr__(self, name):
        return stop()

    @property
    def given(self):
        return stop()


class Given:
    @property
    def given(self):
        return stop()


def by_name(name):
    source = "\n" * 300 + "def größe_λ():\n    return stop()\n\n\ngröße_λ()\n"
    exec(compile(source, name, "exec"), globals())


async def waiting():
    async def innermost():
        stop()
    await innermost()


def coroutine():
    asyncio.new_event_loop().run_until_complete(waiting())


def long_lines():
    value = [0,
             *range(3), (
                 stop()
             ), 7]
    return value


def closure():
    captured = 7

    def inner():
        nonlocal captured
        captured += 1
        try:
            raise ValueError
        except ValueError:
            with lock_of_none():
                return stop(), captured
    return inner()


class lock_of_none:
    def __enter__(self):
        return self

    def __exit__(self, *what):
        return False


KINDS = [
    stop,
    lambda: recursion(100),
    lambda: list(generator()),
    comprehension,
    generator_expression,
    lambda: sorted([Key(), Key()]),
    Made,
    lambda: Given().given,
    lambda: by_name("a file.py"),
    lambda: by_name("/tmp/größe.py"),
    lambda: by_name("/tmp/текст.py"),
    lambda: by_name("/tmp/\U0001f40d.py"),
    coroutine,
    long_lines,
    closure,
    lambda: max([1, 2], key=lambda _: stop()),
    lambda: eval("stop()"),
]


def main():
    for kind in KINDS:
        threading.Thread(target=kind, daemon=True).start()
    deadline = time.monotonic() + 10
    time.sleep(1)
    while time.monotonic() < deadline and lock.locked():
        time.sleep(0.1)
    print("ready", flush=True)
    sys.stdin.read()


main()

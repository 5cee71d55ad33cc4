# SPDX-License-Identifier: Apache-2.0
"""Tasks of asyncio that never rest. What a task runs is a function of its own, spin_NUMBER, and its name ends with
-NUMBER; spin_0 runs in no task, and spin_1 in what is none, though asyncio is told so. Names have characters of all widths,
are cut, changed by another thread, or given by asyncio itself. Says "ready"; ends when its input does."""
import asyncio
import sys
import threading
import types
import zlib

NAMES = ["ascii-%d", "größe-%d", "задача-%d", "🐍-%d"]
CUT = 120  # bytes of a name
DATA = bytes(range(256)) * 256
KEPT = []  # functions of tasks that are gone


def spin():
    total = 0
    for i in range(2000):
        total += i * i
    return total


def compress():
    return zlib.compress(DATA, 9)  # without the lock


def made(number, body=spin):
    names = {key: "spin_%d" % number for key in ("co_name", "co_qualname") if hasattr(body.__code__, key)}
    return types.FunctionType(body.__code__.replace(**names), globals())


class Other:
    """As large as a task, or larger, but for what its type says: what it holds are names of others."""

    def __init__(self):
        for i in range(30):
            setattr(self, "name_%d" % i, "other-%d" % (9000 + i))


class Mine(asyncio.Task):
    def __init__(self, *args, **kwargs):
        self.more = list(range(10))
        super().__init__(*args, **kwargs)


async def forever(function):
    while True:
        function()
        await asyncio.sleep(0)


def own_number():
    return int(asyncio.current_task().get_name().split("-")[-1])


async def unnamed():
    await forever(made(own_number()))


async def short():
    function = made(own_number())
    KEPT.append(function)
    del KEPT[:-2000]
    function()


async def shorts():
    while True:
        await asyncio.gather(*[short() for _ in range(5)])


def rename(task, number):
    while True:
        for name in NAMES:
            task.set_name(name % number)


async def main():
    loop = asyncio.get_running_loop()
    kept = []
    for i, name in enumerate(NAMES):
        number = 1000 + i
        kept.append(loop.create_task(forever(made(number)), name=name % number))
    kept.append(loop.create_task(forever(made(2000)), name="-2000".rjust(CUT, "x") + "y" * 500))
    kept.append(loop.create_task(forever(made(2001)), name="-2001".rjust(CUT // 2, "ж") + "y" * 500))
    kept.append(Mine(forever(made(2002)), loop=loop, name="mine-2002"))
    renamed = loop.create_task(forever(made(2003, compress)), name="renamed-2003")
    kept.append(renamed)
    kept.append(loop.create_task(unnamed()))
    kept.append(loop.create_task(shorts()))
    free, within, other = made(0), made(1), Other()

    def called():
        free()
        asyncio.tasks._enter_task(loop, other)
        within()
        asyncio.tasks._leave_task(loop, other)
        loop.call_soon(called)

    loop.call_soon(called)
    threading.Thread(target=rename, args=(renamed, 2003), daemon=True).start()
    threading.Thread(target=lambda: [free() for _ in iter(int, 1)], daemon=True).start()
    print("ready", flush=True)
    await asyncio.gather(*kept)


def run():
    asyncio.run(main())


sys.setswitchinterval(0.0005)
threading.Thread(target=run, daemon=True).start()
sys.stdin.read()

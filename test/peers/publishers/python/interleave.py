# SPDX-License-Identifier: Apache-2.0
"""Whether what the publisher has written is the SDK's current span, at each step of units that take turns: tasks, eager
tasks, threads, greenlets, uvloop, forks. A line for each case: name, checks, wrong ones.

    PYTHONPATH=TREE OTEL_PYTHON_CONTEXT=spanprof python interleave.py [CASE ...]"""
import asyncio
import contextvars
import logging
import os
import random
import sys
import threading

from opentelemetry import context as api
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

import spanprof_otel

trace.set_tracer_provider(TracerProvider())
tracer = trace.get_tracer("interleave")
checks = []  # of this case: whether each was right; threads append


def published():
    trace_id, span_id, _ = spanprof_otel._native.current()
    return int.from_bytes(trace_id, "big"), int.from_bytes(span_id, "big")


def check():
    context = trace.get_current_span().get_span_context()
    checks.append(published() == (context.trace_id, context.span_id))


STEPS = 1000


async def unit(with_span, pause):
    if not with_span:
        for _ in range(STEPS):
            check()
            await pause()
        return
    with tracer.start_as_current_span("task"):
        for i in range(STEPS):
            check()
            await pause()
            if i % 10 == 0:
                with tracer.start_as_current_span("inner"):
                    check()
                    await pause()
                    check()
    check()


async def three(pause, **options):
    await asyncio.gather(*(asyncio.get_running_loop().create_task(unit(span, pause), **options)
                           for span in (True, False, True)))


def case_tasks():
    asyncio.run(three(lambda: asyncio.sleep(0)))


def case_timers():
    asyncio.run(three(lambda: asyncio.sleep(0.0001)))


def case_to_thread():
    asyncio.run(three(lambda: asyncio.to_thread(check)))


def case_loops_on_threads():
    threads = [threading.Thread(target=case_tasks) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def case_eager():
    if sys.version_info < (3, 12):
        return

    class Task(asyncio.Task):
        pass

    async def inner():
        with tracer.start_as_current_span("eager"):
            check()
            await asyncio.sleep(0)
            check()

    async def run():
        loop = asyncio.get_running_loop()
        loop.set_task_factory(asyncio.eager_task_factory)
        with tracer.start_as_current_span("outer"):
            for _ in range(STEPS):
                for make in (loop.create_task, Task, asyncio.Task):
                    task = make(inner()) if make == loop.create_task else make(inner(), loop=loop, eager_start=True)
                    check()
                    await task
                    check()
    asyncio.run(run())


def case_threads():
    def work():
        for _ in range(STEPS):
            check()
            with tracer.start_as_current_span("thread"):
                check()
            check()
    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def case_uvloop():
    import uvloop

    async def serve(reader, writer):
        with tracer.start_as_current_span("serve"):
            while data := await reader.read(100):
                check()
                writer.write(data)
                await writer.drain()
                check()
        writer.close()

    async def ask(port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        with tracer.start_as_current_span("ask"):
            for _ in range(STEPS):
                writer.write(b"x")
                check()
                await reader.read(100)
                check()
        writer.close()

    async def run():
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        await asyncio.gather(ask(port), ask(port), unit(False, lambda: asyncio.sleep(0)))
        server.close()
    uvloop.install()
    try:
        asyncio.run(run())
    finally:
        asyncio.set_event_loop_policy(None)


def case_greenlets():
    import greenlet
    hub = greenlet.getcurrent()

    def work(with_span):
        if not with_span:
            for _ in range(STEPS):
                check()
                hub.switch()
            return
        with tracer.start_as_current_span("greenlet"):
            for _ in range(STEPS):
                check()
                hub.switch()
                check()
    with tracer.start_as_current_span("first"):
        pass
    workers = [greenlet.greenlet(lambda span=span: work(span)) for span in (True, False, True)]
    while any(not worker.dead for worker in workers):
        for worker in workers:
            if not worker.dead:
                worker.switch()
                check()


def case_gevent():
    import gevent

    def work(with_span):
        if not with_span:
            for _ in range(STEPS):
                check()
                gevent.sleep(0)
            return
        with tracer.start_as_current_span("gevent"):
            for _ in range(STEPS):
                check()
                gevent.sleep(0)
                check()
    gevent.joinall([gevent.spawn(work, span) for span in (True, False, True)])


def case_contexts():
    """Contexts that enter each other in random order, with spans that begin and end inside of them."""
    turns = random.Random(4947)
    contexts = [contextvars.Context(), contextvars.copy_context()]

    def walk(depth):
        for _ in range(turns.randrange(1, 6)):
            turn = turns.randrange(4)
            if turn == 0 and depth < 12:
                context = turns.choice(contexts)
                try:
                    context.run(walk, depth + 1)
                except RuntimeError:  # it is entered already
                    pass
            elif turn == 1:
                with tracer.start_as_current_span("walk"):
                    check()
                    if depth < 12:
                        walk(depth + 1)
            elif turn == 2:
                contexts[turns.randrange(len(contexts))] = contextvars.copy_context()
            elif len(contexts) < 8:
                contexts.append(contextvars.Context())
            check()
    while len(checks) < 30 * STEPS:
        walk(0)


def case_fork():
    with tracer.start_as_current_span("parent"):
        pid = os.fork()
        if pid == 0:
            check()
            with tracer.start_as_current_span("child"):
                check()
            check()
            os._exit(checks.count(False))
        checks.extend([os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0] * 3)
        check()


def case_fork_on_thread():
    thread = threading.Thread(target=case_fork)
    thread.start()
    thread.join()


def case_fork_by_c():
    """A fork that Python does not know of, as uWSGI makes them: os.register_at_fork() is of no use."""
    import ctypes
    with tracer.start_as_current_span("parent"):
        pid = ctypes.PyDLL(None).fork()
        if pid == 0:
            with tracer.start_as_current_span("child"):
                check()
            check()
            if "OTEL_CTX" not in open("/proc/self/maps").read():
                checks.append(False)
            os._exit(checks.count(False))
        checks.extend([os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0] * 3)
        check()


def case_exceptions():
    for _ in range(STEPS):
        try:
            with tracer.start_as_current_span("failing"):
                check()
                raise ValueError
        except ValueError:
            check()
    token = api.attach(api.get_current())
    api.detach(token)
    logging.disable()
    api.detach(token)  # an error, which the API logs
    logging.disable(logging.NOTSET)
    check()


def main():
    failed = False
    for name in sys.argv[1:] or [name[5:] for name in globals() if name.startswith("case_")]:
        checks.clear()
        try:
            globals()["case_" + name]()
        except ImportError as missing:
            print(name, "skipped:", missing, flush=True)
            continue
        print(name, len(checks), checks.count(False), flush=True)
        failed |= not all(checks)
    sys.exit(failed)


main()

# SPDX-License-Identifier: Apache-2.0
"""What is allocated while units with spans and without take turns: a line for each case: name, allocations. It runs with
PYTHONMALLOC=malloc and with allocations.so in LD_PRELOAD.

    python allocations.py SWITCHES"""
import asyncio
import contextvars
import ctypes
import sys

import greenlet
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

SWITCHES = int(sys.argv[1])
tracer = TracerProvider().get_tracer("allocations")
count = ctypes.CDLL(None).allocations


def nothing():
    pass


def case_contexts(n):
    without = contextvars.copy_context()
    with tracer.start_as_current_span("context"):
        with_span = contextvars.copy_context()
    for _ in range(n):
        with_span.run(nothing)
        without.run(nothing)


def case_tasks(n):
    async def steps():
        for _ in range(n):
            await asyncio.sleep(0)

    async def in_span():
        with tracer.start_as_current_span("task"):
            await steps()

    async def all_of_them():
        await asyncio.gather(in_span(), steps(), in_span())
    asyncio.run(all_of_them())


def case_greenlets(n):
    hub = greenlet.getcurrent()

    def in_span():
        with tracer.start_as_current_span("greenlet"):
            for _ in range(n):
                hub.switch()
    workers = [greenlet.greenlet(in_span), greenlet.greenlet(in_span)]
    for _ in range(n):
        for worker in workers:
            worker.switch()
    for worker in workers:
        worker.switch()


for name in ("contexts", "tasks", "greenlets"):
    run = globals()["case_" + name]
    run(SWITCHES)
    before = count()
    run(SWITCHES)
    print(name, count() - before, flush=True)

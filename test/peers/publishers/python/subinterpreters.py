# SPDX-License-Identifier: Apache-2.0
"""Interpreters that share this process run contexts of their own, while this one publishes: theirs are not published,
and this one's stay right. Ends with 1 if not.

    PYTHONPATH=TREE OTEL_PYTHON_CONTEXT=spanprof python subinterpreters.py"""
import asyncio
import sys
import threading

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

import spanprof_otel

GUEST = """
import contextvars
from opentelemetry import context
def step():
    token = context.attach(context.set_value("key", 1))
    context.detach(token)
for _ in range(2000):
    contextvars.copy_context().run(step)
"""


def guest():
    """Runs GUEST in an interpreter of its own."""
    if sys.version_info >= (3, 13):
        import _interpreters as interpreters
    else:
        import _xxsubinterpreters as interpreters
    other = interpreters.create()
    failure = (interpreters.exec if sys.version_info >= (3, 13) else interpreters.run_string)(other, GUEST)
    interpreters.destroy(other)
    assert failure is None, failure


def published():
    return int.from_bytes(spanprof_otel._native.current()[1], "big")


async def host(tracer):
    async def steps():
        with tracer.start_as_current_span("task") as span:
            for _ in range(300):
                await asyncio.sleep(0)
                assert published() == span.get_span_context().span_id
    await asyncio.gather(steps(), steps())


tracer = TracerProvider().get_tracer("host")
with tracer.start_as_current_span("outer") as outer:
    threads = [threading.Thread(target=guest) for _ in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(5):
        asyncio.run(host(tracer))
    for thread in threads:
        thread.join()
    guest()
    assert published() == outer.get_span_context().span_id
print("done")

#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What the publisher for Python adds to OpenTelemetry's own cost, on each version of Python that can be had: to attach
and detach a context (a span's begin and end), to Context.run(), and to a step of a task.

Prints `name value unit`: the stock figure and what is added to it, each the best of several processes with and without
the publisher in turns. The bounds: 200 ns for attach and detach, 300 on 3.14.
"""
import asyncio
import contextvars
import json
import os
import subprocess
import sys
import time

PROCESSES = 3  # with the publisher, and as many without
ROUNDS = 15
CALLS = 20000


def best(work):
    """ns for each call; work(n) makes n of them."""
    fastest = float("inf")
    for _ in range(ROUNDS):
        begun = time.perf_counter_ns()
        work(CALLS)
        fastest = min(fastest, (time.perf_counter_ns() - begun) / CALLS)
    return fastest


def attach_and_detach(context):
    from opentelemetry.context import attach, detach

    def work(n):
        for _ in range(n):
            detach(attach(context))
    return work


def context_run(n):
    run = contextvars.copy_context().run
    for _ in range(n):
        run(int)


def task_steps(n):
    """Of two tasks that take turns."""
    async def steps():
        for _ in range(n // 2):
            await asyncio.sleep(0)

    async def both():
        await asyncio.gather(steps(), steps())
    asyncio.run(both())


def measure():
    """In a process of its own: the figures as JSON."""
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    tracer = TracerProvider().get_tracer("bench")
    with tracer.start_as_current_span("outer"):
        context = trace.set_span_in_context(tracer.start_span("inner"))
        print(json.dumps({"attach_detach": best(attach_and_detach(context)), "context_run": best(context_run),
                          "task_step": best(task_steps)}))


def run(python, **environment):
    done = subprocess.run([python, os.path.abspath(__file__), "--measure"], check=True, stdout=subprocess.PIPE,
                          env={"PATH": os.environ["PATH"], **environment})
    return json.loads(done.stdout)


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path.insert(0, os.path.join(os.path.dirname(here), "integration", "support"))
    import publisher_services
    import python_services
    if python_services.NOT_BUILT:
        print("publish_python: " + python_services.NOT_BUILT)
        return
    for version in python_services.VERSIONS:
        try:
            python = os.path.join(python_services.venv("bench-" + version, python_services.interpreter(version),
                                                       "opentelemetry-sdk"), "python")
        except publisher_services.Missing as reason:
            print("publish_python %s: %s" % (version, reason))
            continue
        stock, ours = [], []
        for _ in range(PROCESSES):
            stock.append(run(python))
            ours.append(run(python, PYTHONPATH=python_services.TREE, OTEL_PYTHON_CONTEXT="spanprof"))
        for name in stock[0]:
            before, after = (min(figures[name] for figures in runs) for runs in (stock, ours))
            prefix = "publish_python_%s_%s" % (version.replace(".", "_"), name)
            print("%s_stock_ns %.6g ns" % (prefix, before))
            print("%s_added_ns %.6g ns" % (prefix, after - before), flush=True)


if __name__ == "__main__":
    measure() if "--measure" in sys.argv else main()

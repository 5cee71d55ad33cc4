# SPDX-License-Identifier: Apache-2.0
"""Works in spans of Datadog's tracer, in two threads, and tells the truth about it (as test/support/publishers/publisher.c
does); begins when it reads a line."""
import json
import os
import sys
import threading
import time

from ddtrace.trace import tracer

SPANS = int(sys.argv[1])
CPU_S = 0.02
output = threading.Lock()


def tell(**record):
    with output:
        print(json.dumps(record), flush=True)


def burn(seconds):
    end, total = time.thread_time() + seconds, 0
    while time.thread_time() < end:
        total += sum(range(100))
    return total


def burn_and_tell(kind, **more):
    start = time.time_ns()
    burn(CPU_S)
    tell(type=kind, tid=threading.get_native_id(), **{"from": start, "to": time.time_ns()}, **more)


def ids_of(span, root):
    return {"trace_id": "%032x" % span.trace_id, "span_id": "%016x" % span.span_id,
            "root_id": "%016x" % root.span_id}


def work():
    for _ in range(SPANS):
        with tracer.trace("request", resource="/shop") as root:
            burn_and_tell("on", **ids_of(root, root))
            with tracer.trace("query") as child:
                burn_and_tell("on", **ids_of(child, root))
        burn_and_tell("off")


tell(type="ready", pid=os.getpid())
sys.stdin.readline()
threads = [threading.Thread(target=work) for _ in range(2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()

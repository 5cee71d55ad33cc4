# SPDX-License-Identifier: Apache-2.0
"""What a service worked on and when, as its own API says it, a line of JSON each: $TRUTH/PID."""
import json
import os
import threading
import time

from opentelemetry import trace

_lock = threading.Lock()
_file = None


def tell(record):
    """Of any type; those of burn() are `on` and `off`."""
    global _file
    with _lock:
        if _file is None or _file[0] != os.getpid():
            _file = (os.getpid(), open(os.path.join(os.environ["TRUTH"], str(os.getpid())), "a", buffering=1))
        _file[1].write(json.dumps(record) + "\n")


def burn(seconds):
    """Of this thread's CPU time, for its current span."""
    context = trace.get_current_span().get_span_context()
    start, end = time.time_ns(), time.thread_time() + seconds
    while time.thread_time() < end:
        sum(range(100))
    record = {"type": "on" if context.is_valid else "off", "tid": threading.get_native_id(), "from": start,
              "to": time.time_ns()}
    if context.is_valid:
        record.update(trace_id="%032x" % context.trace_id, span_id="%016x" % context.span_id)
    tell(record)


def burn_without_span(seconds=0.003, pause=0.05):
    """On a thread that works for no span."""
    def work():
        while True:
            burn(seconds)
            time.sleep(pause)
    threading.Thread(target=work, daemon=True).start()

#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A backlog on its way to a backend whose answer takes 20 ms, by requests of a signal under way.

Prints `name value unit`. Not compressed: what is measured is how well the way is filled.
"""
import os
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "integration", "support"))
import harness  # noqa: E402
import sender  # noqa: E402
import slow_backend  # noqa: E402

DELAY_S = 0.02
REQUEST_BYTES = 262144
BACKLOG_MIB = 64


def exporter(protocol, port, consumers):
    endpoint = ("127.0.0.1:%d" if protocol == "grpc" else "http://127.0.0.1:%d") % port
    return {"endpoint": endpoint, "tls": {"insecure": True}, "compression": "none",
            "max_request_size": REQUEST_BYTES, "sending_queue": {"num_consumers": consumers},
            "retry_on_failure": {"initial_interval": "100ms", "max_interval": "100ms"}}


def measure(directory, protocol, consumers):
    port, name = harness.free_port(), "otlp_" + protocol
    program = harness.Spanprof(directory, "127.0.0.1:1", sampler=False, over={
        "exporters": {name: exporter(protocol, port, consumers)},
        "service": {"pipelines": {"traces": {"exporters": [name]}}}})
    program.start()
    body, _ = sender.request_of(100, 1200)
    client = sender.GrpcSender(program.grpc_address)
    n = BACKLOG_MIB * (1 << 20) // len(body)
    for _ in range(n):
        client.send(body)
    backend = slow_backend.SlowBackend(DELAY_S, protocol, port)
    harness.wait_until(lambda: backend.bodies, 20, "the first request")
    began, first = time.monotonic(), len(backend.bodies)
    harness.wait_until(lambda: sum(map(len, list(backend.bodies))) >= n * len(body), 120, "the last one")
    size = sum(map(len, backend.bodies[first:]))
    print("export_20ms_%s_%d_under_way %.4g MiB/s" % (
        protocol, consumers, size / (1 << 20) / (time.monotonic() - began)), flush=True)
    program.stop()
    backend.stop()


def main():
    for protocol in ("grpc", "http"):
        for consumers in (1, 4, 10):
            with tempfile.TemporaryDirectory(prefix="spanprof-bench-") as directory:
                measure(directory, protocol, consumers)


if __name__ == "__main__":
    main()

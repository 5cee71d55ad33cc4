# SPDX-License-Identifier: Apache-2.0
"""Works on one span after the other, and sends each under a large Resource of its own: all of it is remembered for spans
that have samples.

    rotate.py HOST:PORT"""
import http.client
import os
import sys

TEST = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(TEST, "integration", "support"), os.path.join(TEST, "support", "python")]
import sender  # noqa: E402
import traced  # noqa: E402
import traced_program  # noqa: E402

WORK_S = 0.011  # of CPU: a tick
SPANS = 20      # of a request
RESOURCE_BYTES = 8000  # of a larger one only a part is kept


def worked_span(program):
    """A request of a span that has samples; requests that follow each other are one."""
    ids = traced.new_ids()
    times = program.work(ids["trace"], ids["span"], WORK_S)
    request, spans = sender.new_request({"service.name": "rotate",
                                         "padding": os.urandom(RESOURCE_BYTES // 2 - 50).hex()})
    sender.add_span(spans, "worked", bytes.fromhex(ids["trace"]), bytes.fromhex(ids["span"]), None, **times)
    return request.SerializeToString()


def main(address):
    program = traced_program.Program(traced.LIBRARY, [])
    connection = http.client.HTTPConnection(address, timeout=60)
    print("attacking", flush=True)
    while True:
        body = b"".join(worked_span(program) for _ in range(SPANS))
        connection.request("POST", "/v1/traces", body, {"Content-Type": "application/x-protobuf"})
        connection.getresponse().read()


if __name__ == "__main__":
    main(sys.argv[1])

# SPDX-License-Identifier: Apache-2.0
"""Many processes that all work on one span, and requests that name it again and again: each of those spans might be compared
with each of the processes.

    claims.py HOST:PORT PROCESSES TRACE SPAN"""
import gzip
import http.client
import os
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TEST = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [HERE, os.path.join(TEST, "integration", "support"), os.path.join(TEST, "support", "python")]
from poison import field  # noqa: E402
import traced  # noqa: E402
import traced_program  # noqa: E402

WORK_S = 0.03  # of CPU: some three ticks
SPANS = 1000
REQUESTS = 20   # with the same samples
PAUSE_S = 0.02  # it is about what each costs, not about what a backend can take


def start_process(done):
    """Works on the span once for each byte that it is told; the descriptor to tell it by."""
    told, tell = os.pipe()
    if os.fork():
        return tell
    os.close(tell)
    program = traced_program.Program(traced.LIBRARY, [])
    while os.read(told, 1):
        program.work(*sys.argv[3:5], WORK_S)
        os.write(done, b".")
    os._exit(0)


def work(processes, finished):
    """All of them once; when that was done."""
    for tell in processes:
        os.write(tell, b".")
    left = len(processes)
    while left:
        left -= len(os.read(finished, left))
    return time.time_ns()


def request(start, end):
    resource = field(1, field(1, b"service.name") + field(2, field(1, b"claims")))
    span = field(2, field(1, bytes.fromhex(sys.argv[3])) + field(2, bytes.fromhex(sys.argv[4])) + field(5, b"claimed")
                 + b"\x39" + start.to_bytes(8, "little") + b"\x41" + end.to_bytes(8, "little"))
    return gzip.compress(field(1, field(1, resource) + field(2, span * SPANS)), 1)


def main(address, n):
    finished, done = os.pipe()
    processes = [start_process(done) for _ in range(n)]
    connection = http.client.HTTPConnection(address, timeout=60)
    begun = time.time_ns()
    work(processes, finished)
    print("attacking", flush=True)
    while True:
        body = request(begun, work(processes, finished))
        for _ in range(REQUESTS):
            connection.request("POST", "/v1/traces", body,
                               {"Content-Type": "application/x-protobuf", "Content-Encoding": "gzip"})
            connection.getresponse().read()
            time.sleep(PAUSE_S)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))

# SPDX-License-Identifier: Apache-2.0
"""Sends spans whose Resources, services and names are all made up and large: resources.py HOST:PORT SECONDS."""
import gzip
import http.client
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "integration", "support"))
import sender  # noqa: E402

RESOURCE_BYTES = 3800  # of a larger one only a part is kept


def body_of(n):
    """n Resources with one span each; small on the wire."""
    body = b""
    for _ in range(n):
        made_up = os.urandom(12).hex()
        request, spans = sender.new_request({"service.name": "flood " + made_up,
                                             "padding": made_up * (RESOURCE_BYTES // len(made_up))})
        sender.add_span(spans, name=made_up * 40)
        body += request.SerializeToString()  # messages that follow each other are one
    return gzip.compress(body, 1)


def main():
    address, seconds = sys.argv[1], float(sys.argv[2])
    connection = http.client.HTTPConnection(address, timeout=30)
    deadline, sent = time.monotonic() + seconds, 0
    print("attacking", flush=True)
    while time.monotonic() < deadline:
        body = body_of(10)
        try:
            connection.request("POST", "/v1/traces", body,
                               {"Content-Type": "application/x-protobuf", "Content-Encoding": "gzip"})
            connection.getresponse().read()
            sent += 10
            time.sleep(0.01)  # it is about bytes, and each of these is kept for an hour
        except OSError:
            connection.close()
            time.sleep(0.05)
    print(sent)


main()

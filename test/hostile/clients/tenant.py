# SPDX-License-Identifier: Apache-2.0
"""The honest tenant: one request after the other until standard input ends, and a line of JSON about each.

    tenant.py ADDRESS SPANS PAUSE_S TIMEOUT_S"""
import json
import os
import select
import sys
import time

TEST = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(TEST, "integration", "support"))
import sender  # noqa: E402


def is_over(pause_s):
    return bool(select.select([sys.stdin], [], [], pause_s)[0])


def main(address, spans, pause_s, timeout_s):
    client = sender.GrpcSender(address)
    while True:
        body, ids = sender.request_of(spans)
        failure = None
        begun = time.monotonic()
        try:
            client.send(body, timeout=timeout_s)
        except sender.grpc.RpcError as error:
            failure = "%s: %s" % (error.code(), error.details())
        seconds = time.monotonic() - begun
        acknowledged = [] if failure else ids
        print(json.dumps({"seconds": seconds, "failure": failure, "acknowledged": acknowledged}), flush=True)
        if is_over(pause_s):
            break
    client.close()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4]))

# SPDX-License-Identifier: Apache-2.0
"""Any local user who wants to see what the others do: asks the pages and the socket, opens the store's files. A line of JSON:
what came of each.

    pry.py HOST:PORT SOCKET FILE ..."""
import http.client
import json
import socket
import sys

PATHS = ("/api/status", "/api/traces", "/api/functions", "/api/flame?frames=all", "/debug/pprof/profile?seconds=0",
         "/metrics/spans")


def ask(address, path):
    connection = http.client.HTTPConnection(address, timeout=10)
    connection.request("GET", path, headers={"Host": "localhost"})
    return connection.getresponse().status


def refused(action, *arguments):
    """The name of its error; None: it succeeded."""
    try:
        action(*arguments)
    except OSError as error:
        return type(error).__name__
    return None


def main(address, path, files):
    answers = {path: ask(address, path) for path in PATHS}
    answers[path] = refused(socket.socket(socket.AF_UNIX).connect, path)
    answers.update((name, refused(open, name, "rb")) for name in files)
    print(json.dumps(answers))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])

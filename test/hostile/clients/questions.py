# SPDX-License-Identifier: Apache-2.0
"""Asks the pages without a pause, several questions at a time: questions.py HOST:PORT THREADS SECONDS."""
import http.client
import sys
import threading
import time

PATHS = ("/api/traces?limit=1000", "/api/spans", "/api/functions", "/api/timeline")
answered = {}


def ask(address, deadline):
    connection, n = http.client.HTTPConnection(address, timeout=30), 0
    while time.monotonic() < deadline:
        try:
            connection.request("GET", PATHS[n % len(PATHS)], headers={"Host": "localhost"})
            answer = connection.getresponse()
            answer.read()
            answered[answer.status] = answered.get(answer.status, 0) + 1
        except (OSError, http.client.HTTPException):
            connection.close()
            time.sleep(0.01)
        n += 1


def main():
    address, n, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    deadline = time.monotonic() + seconds
    threads = [threading.Thread(target=ask, args=(address, deadline)) for _ in range(n)]
    for thread in threads:
        thread.start()
    print("attacking", flush=True)
    for thread in threads:
        thread.join()
    print(sorted(answered.items()))


main()

#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What the publisher adds in .NET: an Activity's begin and end, and a step of an async method to another thread of the
pool, in a span and without; beside .NET's own cost.

Prints `name value unit`, on the runtime that test_publish_dotnet.py has; best of the rounds, stock and published in
turns."""
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "peers"))
import test_publish_dotnet as publish  # noqa: E402

ROUNDS = 5


def measure(host, *hooks):
    done = subprocess.run(host, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=True, timeout=600,
                          env=publish.environment(PROGRAM="cost", DOTNET_STARTUP_HOOKS=":".join(hooks)))
    return {name: float(value) for name, value in (line.split() for line in done.stdout.decode().splitlines())}


def best(before, now):
    return {name: min(value, before.get(name, value)) for name, value in now.items()}


def main():
    if not os.path.exists(publish.PUBLISHER):
        print("publish_dotnet: the publisher is not built")
        return
    try:
        host = publish.runtime_10()
    except publish.sdk_clients.Missing as reason:
        print("publish_dotnet: %s" % reason)
        return
    with tempfile.TemporaryDirectory() as directory:
        program = publish.build(directory)
        stock, published = {}, {}
        for _ in range(ROUNDS):
            stock = best(stock, measure(host, program))
            published = best(published, measure(host, publish.PUBLISHER, program))
    for name, value in stock.items():
        print("dotnet_%s_stock_ns %.0f ns" % (name, value))
        print("dotnet_%s_added_ns %.0f ns" % (name, published[name] - value), flush=True)


main()

#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What the publisher adds in Ruby: an attach with its detach, a whole span, a switch of fibers; beside the SDK's own cost.

Prints `name value unit` for the first Ruby that has the SDK (SPANPROF_RUBYLIB as in test_publish_ruby.py); best of the
rounds, stock and published in turns."""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "peers"))
import test_publish_ruby as publish  # noqa: E402

ROUNDS = 5


def measure(ruby, environment):
    done = publish.run(ruby, os.path.join(publish.SOURCES, "cost.rb"), env=environment)
    return {name: float(value) for name, value in (line.split() for line in done.stdout.decode().splitlines())}


def best(before, now):
    return {name: min(value, before.get(name, value)) for name, value in now.items()}


def main():
    rubies = {version: ruby for version, ruby in publish.rubies().items() if not publish.why_not(ruby, "the SDK")}
    if not rubies:
        print("publish_ruby: no Ruby has the publisher and the SDK")
        return
    for version, ruby in rubies.items():
        stock, published = {}, {}
        for _ in range(ROUNDS):
            stock = best(stock, measure(ruby, publish.environment()))
            published = best(published, measure(ruby, publish.published()))
        for name, value in stock.items():
            print("ruby_%s_%s_stock_ns %.0f ns" % (version, name, value))
            print("ruby_%s_%s_added_ns %.0f ns" % (version, name, published[name] - value), flush=True)


main()

# SPDX-License-Identifier: Apache-2.0
"""The demo's Flask service: nothing here is about tracing or profiling."""
import time

from flask import Flask, request

app = Flask(__name__)
BOUGHT = [[(customer * item * 7919) % 97 for item in range(40)] for customer in range(12000)]


def similarity(one, other):
    return sum(a * b for a, b in zip(one, other))


@app.get("/recommend")
def recommend():
    """The more customers it compares with, the slower."""
    mine = BOUGHT[0]
    ranked = sorted(BOUGHT[:request.args.get("customers", 20, int)], key=lambda other: similarity(mine, other))
    return {"items": ranked[-1][:5]}


@app.get("/stock")
def stock():
    time.sleep(0.02)  # a warehouse answers
    return {"left": 3}

# SPDX-License-Identifier: Apache-2.0
"""gunicorn -k gevent gevent_app:app, under opentelemetry-instrument: requests are greenlets, which take turns."""
import time

from flask import Flask

import truth_log

app = Flask(__name__)


@app.get("/render")
def render():
    for _ in range(10):
        truth_log.burn(0.002)
        time.sleep(0.0005)  # another greenlet's turn
    return "done\n"


@app.get("/wait")
def wait():
    time.sleep(0.02)
    return "done\n"

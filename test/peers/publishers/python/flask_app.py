# SPDX-License-Identifier: Apache-2.0
"""flask run, under opentelemetry-instrument: nothing here is about profiling."""
import time

from flask import Flask

import truth_log

app = Flask(__name__)
truth_log.burn_without_span()


@app.get("/render")
def render():
    truth_log.burn(0.02)
    return "done\n"


@app.get("/wait")
def wait():
    time.sleep(0.02)
    return "done\n"

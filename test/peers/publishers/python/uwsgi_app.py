# SPDX-License-Identifier: Apache-2.0
"""uwsgi --module uwsgi_app:app, under opentelemetry-instrument. A span at import, as of an application that asks its
database at its start: where uWSGI forks after the import, its workers come from a process that publishes already."""
import time

from flask import Flask
from opentelemetry import trace

import truth_log

app = Flask(__name__)
with trace.get_tracer(__name__).start_as_current_span("migrate"):
    truth_log.burn(0.002)


@app.get("/render")
def render():
    truth_log.burn(0.02)
    return "done\n"


@app.get("/wait")
def wait():
    time.sleep(0.02)
    return "done\n"

# SPDX-License-Identifier: Apache-2.0
"""python -I isolated_app.py PORT: no variable of the environment says where modules are. OpenTelemetry's automatic
instrumentation is started by the program itself."""
import os
import sys

from opentelemetry.instrumentation.auto_instrumentation import initialize

initialize()
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from flask_app import app  # noqa: E402

app.run(port=int(sys.argv[1]))

# SPDX-License-Identifier: Apache-2.0
"""celery -A celery_app worker, under opentelemetry-instrument. Its broker is a folder, $BROKER.

    python celery_app.py PATH N    tasks for it: names of tasks with / in front and commas between, N in turns"""
import os
import sys
import time

from celery import Celery

import truth_log

FOLDER = os.environ["BROKER"]
app = Celery("celery_app", broker="filesystem://")
app.conf.broker_transport_options = {"data_folder_in": FOLDER, "data_folder_out": FOLDER,
                                     "control_folder": os.path.join(FOLDER, "control"), "polling_interval": 0.05}
app.conf.broker_connection_retry_on_startup = True
app.conf.task_ignore_result = True


@app.task(name="render")
def render():
    truth_log.burn(0.02)
    truth_log.tell({"type": "done", "from": 0})


@app.task(name="wait")
def wait():
    time.sleep(0.02)
    truth_log.tell({"type": "done", "from": 0})


def main():
    tasks = [app.tasks[path.lstrip("/")] for path in sys.argv[1].split(",")]
    for i in range(int(sys.argv[2])):
        tasks[i % len(tasks)].delay()


if __name__ == "__main__":
    main()

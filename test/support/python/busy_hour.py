# SPDX-License-Identifier: Apache-2.0
"""A service on a store that already has a busy node's hour: 64 CPUs at 97 Hz, made up (history_write.c)."""
import os
import subprocess
import time

import harness

EXPIRES_AFTER_S = 15  # the first that was made up; then as much each second as on a node that has run for long


class BusyHour:
    """Writes it; begin_s, end_s: Unix time of the first and the last sample."""

    def __init__(self, directory, seconds=3600):
        self.directory = directory
        self.end_s = int(time.time())
        self.begin_s = self.end_s - seconds
        self.port = harness.free_port()  # of the pages
        store = os.path.join(directory, "store")
        os.mkdir(store, 0o700)
        subprocess.run([os.path.join(harness.BUILD, "test", "history_write"), store, str(self.begin_s),
                        str(self.end_s)], check=True)

    def start(self):
        """A Spanprof without sampler, so the node's noise is not in it; the debug exporter empties the outbox."""
        age_s = int(time.time()) - self.begin_s
        return harness.Spanprof(self.directory, "127.0.0.1:1", sampler=False, over={
            "exporters": {"debug": {}},
            "extensions": {"sqlite_storage": {"max_size_mib": 4096},
                           "history": {"max_size_mib": 2048, "retention": "%ds" % (age_s + EXPIRES_AFTER_S)},
                           "pages": {"endpoint": "localhost:%d" % self.port}},
            "service": {"extensions": ["sqlite_storage", "history", "pages"],
                        "telemetry": {"logs": {"level": "error"}},
                        "pipelines": {"traces": {"receivers": ["otlp"], "processors": ["join"],
                                                 "exporters": ["debug"]}}}}).start()

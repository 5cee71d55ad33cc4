#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""When Chromium paints and shows the views of 15 minutes and of an hour, on a node whose store has an hour of 64 busy
CPUs at 97 Hz; since the address was opened, the middle of 7 visits.

    bench_pages_browser.py [SECONDS of data]

Prints `name value unit`; nothing where chromium, node or playwright-core are not to be had.
"""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
TESTS = os.path.dirname(HERE)
sys.path[:0] = [os.path.join(TESTS, folder) for folder in ("integration/support", "peers")]
import harness  # noqa: E402
import busy_hour  # noqa: E402
import test_pages_browser  # noqa: E402


def main():
    try:
        modules = test_pages_browser.install()
    except unittest.SkipTest as reason:
        print(reason, file=sys.stderr)
        return
    seconds = int(sys.argv[1]) if len(sys.argv) > 1 else 3600
    with tempfile.TemporaryDirectory(prefix="spanprof-bench-") as directory:
        hour = busy_hour.BusyHour(directory, seconds)
        spanprof = hour.start()
        try:
            subprocess.run(["node", os.path.join(TESTS, "peers", "pages", "hour.mjs")], check=True, timeout=300,
                           env=harness.environment(PAGES_BASE="http://localhost:%d" % hour.port,
                                                   PAGES_MODULES=modules, PAGES_CHROMIUM=shutil.which("chromium")))
        finally:
            spanprof.stop()


if __name__ == "__main__":
    main()

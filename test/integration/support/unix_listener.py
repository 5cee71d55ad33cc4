# SPDX-License-Identifier: Apache-2.0
"""Who listens at a Unix socket as a user of its own: a backend, or a thief of spans."""
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness  # noqa: E402

BACKEND = os.path.join(harness.SOURCE, "test", "support", "python", "receiver.py")
# Writes a line for each connection, "+" and what came on it in hex.
THIEF = """
import socket, sys
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
listener.listen(8)
while True:
    connection, _ = listener.accept()
    connection.settimeout(10)
    data = b""
    try:
        while piece := connection.recv(4096):
            data += piece
    except OSError:
        pass
    connection.close()
    print("+" + data.hex(), flush=True)
"""


class Listener:
    def __init__(self, path, user, group=None, umask=0):
        self.path, self.umask = path, umask
        self.identity = ["--reuid=%d" % user, "--regid=%d" % (user if group is None else group), "--clear-groups"]
        self.process = None

    def start(self):
        self.output = tempfile.TemporaryFile("a+b")
        self.process = subprocess.Popen(["setpriv", *self.identity, sys.executable, "-B", *self.command()],
                                        stdin=subprocess.DEVNULL, stdout=self.output, umask=self.umask)
        harness.wait_until(lambda: os.path.exists(self.path), 20, "somebody listens at " + self.path)
        return self

    def lines(self):
        """What it wrote, also once it is stopped."""
        if not self.output.closed:
            self.output.seek(0)
            self.text = self.output.read().decode()
        return self.text.split("\n")[:-1]

    def stop(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.lines()
        self.output.close()


class Thief(Listener):
    def command(self):
        return ["-c", THIEF, self.path]

    def connections(self):
        return len(self.lines())

    def received(self):
        return bytes.fromhex("".join(line[1:] for line in self.lines()))


class Backend(Listener):
    """receiver.py."""

    def command(self):
        return [BACKEND, "--listen", "unix:" + self.path]

    def span_ids(self):
        return {record["span_id"] for record in map(json.loads, self.lines()) if "span" in record}

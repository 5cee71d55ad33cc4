# SPDX-License-Identifier: Apache-2.0
"""As much of an APM server as an agent needs to deliver its transactions and spans."""
import http.server
import json
import threading
import zlib


class ApmServer:
    def __init__(self):
        self.transactions, self.spans = {}, {}  # by id
        self.lock = threading.Lock()
        handler = type("Handler", (Handler,), {"server_of": self})
        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.url = "http://127.0.0.1:%d" % self.http.server_port
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def keep(self, line):
        event = json.loads(line)
        with self.lock:
            for kind, kept in (("transaction", self.transactions), ("span", self.spans)):
                if kind in event:
                    kept[event[kind]["id"]] = event[kind]

    def transaction(self, span_id):
        with self.lock:
            return self.transactions.get(span_id)

    def span(self, span_id):
        with self.lock:
            return self.spans.get(span_id)

    def stop(self):
        self.http.shutdown()
        self.http.server_close()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, body=b""):
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        if self.path.startswith("/config"):
            return self.answer(304)
        self.answer(200, json.dumps({"version": "8.15.0"}).encode())

    def chunks(self):
        if "chunked" not in self.headers.get("Transfer-Encoding", ""):
            yield self.rfile.read(int(self.headers.get("Content-Length", 0)))
            return
        while True:
            size = int(self.rfile.readline().split(b";")[0], 16)
            data = self.rfile.read(size)
            self.rfile.readline()
            if not size:
                return
            yield data

    def do_POST(self):
        """Streams stay open for seconds: lines are taken as they come."""
        encoding = self.headers.get("Content-Encoding", "")
        inflate = zlib.decompressobj(47).decompress if encoding else bytes
        text = b""
        for chunk in self.chunks():
            text += inflate(chunk)
            *lines, text = text.split(b"\n")
            for line in filter(None, lines):
                self.server_of.keep(line)
        if text:
            self.server_of.keep(text)
        self.answer(202)

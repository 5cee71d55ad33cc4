# SPDX-License-Identifier: Apache-2.0
"""The HTTP side of receiver.py: an OTLP/HTTP backend in protobuf and JSON, with faults on demand."""
import base64
import gzip
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from google.protobuf import json_format

import receiver
import receiver_schema

PATHS = {"/v1/traces": "traces", "/v1/metrics": "metrics", "/v1/logs": "logs",
         "/v1development/profiles": "profiles"}
IDS = ("traceId", "spanId", "parentSpanId", "profileId")


def ids_in_base64(value):
    """OTLP/JSON has ids in hex, where ProtoJSON wants base64."""
    if isinstance(value, dict):
        return {key: base64.b64encode(bytes.fromhex(inner)).decode() if key in IDS
                else ids_in_base64(inner) for key, inner in value.items()}
    return [ids_in_base64(inner) for inner in value] if isinstance(value, list) else value


def from_json(signal, text):
    message = receiver_schema.message(receiver.REQUESTS[signal])()
    return json_format.ParseDict(ids_in_base64(json.loads(text)), message).SerializeToString()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments):
        pass

    def handle(self):
        self.server.backend.n_connections += 1
        try:
            super().handle()
        except OSError:
            pass  # hung up

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        signal = PATHS.get(self.path[len(self.server.backend.prefix):].partition("?")[0])
        if signal is None:
            return self.answer(404)
        self.server.backend.sizes.append(len(body))
        if len(body) > self.server.backend.max_size:
            return self.answer(413)
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        if self.headers["Content-Type"] == "application/json":
            body = from_json(signal, body)
        fault = self.server.backend.taken(signal, body, list(self.headers.items()))
        if fault and fault.code:
            return self.answer(int(fault.code), fault.retry_info_s)
        return self.answer(200)

    def answer(self, status, retry_after_s=None):
        self.send_response(status)
        self.send_header("Content-Length", "0")
        if retry_after_s is not None:
            self.send_header("Retry-After", str(retry_after_s))
        self.end_headers()


class HttpBackend(receiver.Backend):
    """As its base; a fault's code is an HTTP status. prefix: what stands before /v1/traces."""

    def __init__(self, address="127.0.0.1:0", prefix="", tls=None, max_size=1 << 30, **options):
        self.prefix = prefix
        self.max_size = max_size  # of a body as it comes; others get 413
        self.sizes = []
        self.tls = tls  # an ssl.SSLContext; None: plain text
        self.n_connections = 0
        super().__init__(address, **options)

    @property
    def url(self):
        return "%s://%s%s" % ("https" if self.tls else "http", self.address, self.prefix)

    def start(self):
        host, port = self.address.rsplit(":", 1)
        server = ThreadingHTTPServer((host, int(port)), Handler)
        server.daemon_threads = True
        server.backend = self
        if self.tls:
            server.socket = self.tls.wrap_socket(server.socket, server_side=True)
        self.address = "%s:%d" % (host, server.server_address[1])
        self._server = server
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()

    def stop(self):
        if self._server:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def taken(self, signal, body, headers):
        fault = self._take_fault(signal)
        if fault and fault.delay_s:
            time.sleep(fault.delay_s)
        self._keep(receiver.Received(signal, body, headers, fault.code if fault else None))
        return fault

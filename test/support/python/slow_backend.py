# SPDX-License-Identifier: Apache-2.0
"""A backend far away: each request takes its time, many are served at once. gRPC or HTTP/1.1."""
import http.server
import threading
import time
from concurrent import futures

import grpc

TRACES = "opentelemetry.proto.collector.trace.v1.TraceService"


class SlowBackend:
    """bodies: as they came, in the order of their answers. most: under way at once."""

    def __init__(self, delay_s, protocol="grpc", port=0, workers=32):
        self.delay_s = delay_s
        self.bodies = []
        self.most = 0
        self._now = 0
        self._lock = threading.Lock()
        self._open = self._open_grpc if protocol == "grpc" else self._open_http
        self.port = self._open(port, workers)

    def _serve(self, body):
        with self._lock:
            self._now += 1
            self.most = max(self.most, self._now)
        time.sleep(self.delay_s)
        with self._lock:
            self._now -= 1
            self.bodies.append(body)

    def _open_grpc(self, port, workers):
        def export(body, _):
            self._serve(body)
            return b""

        self._server = grpc.server(futures.ThreadPoolExecutor(workers),
                                   options=[("grpc.so_reuseport", 0), ("grpc.max_receive_message_length", -1)])
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(
            TRACES, {"Export": grpc.unary_unary_rpc_method_handler(export)}),))
        port = self._server.add_insecure_port("127.0.0.1:%d" % port)
        self._server.start()
        return port

    def _open_http(self, port, _):
        serve = self._serve

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                serve(self.rfile.read(int(self.headers["Content-Length"])))
                self.send_response(200)
                self.send_header("Content-Type", "application/x-protobuf")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self._server.server_address[1]

    def stop(self):
        if isinstance(self._server, http.server.HTTPServer):
            self._server.shutdown()
            self._server.server_close()
        else:
            self._server.stop(0).wait()

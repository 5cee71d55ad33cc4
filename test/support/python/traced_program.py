# SPDX-License-Identifier: Apache-2.0
"""A program that publishes the span that it works on, burns CPU in it, and sends spans by OTLP/HTTP: each as it is told.

traced_program.py LIBRARY [KEY=VALUE ...]: libspanprof-context, and the Resource to publish. Commands are lines of JSON on
stdin, each answered by a line on stdout:
  {"do": "work", "trace": hex, "span": hex, "seconds": number}
  {"do": "send", "to": "host:port" or path of a socket, "trace": hex, "span": hex, "name": text, "resource": {...},
   "start": ns, "end": ns}
"""
import ctypes
import http.client
import json
import os
import socket
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "integration", "support"))
import sender  # noqa: E402


class Attribute(ctypes.Structure):
    _fields_ = [("key", ctypes.c_char_p), ("value", ctypes.c_char_p)]


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost")
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self.path)


class Program:
    def __init__(self, library, resource):
        self.library = ctypes.CDLL(library)
        attributes = (Attribute * max(len(resource), 1))(*[Attribute(*pair.encode().split(b"=", 1)) for pair in resource])
        if self.library.spanprof_context_publish(attributes, len(resource)):
            raise RuntimeError("cannot publish")
        self.connections = {}

    def work(self, trace, span, seconds):
        begun = time.time_ns()
        self.library.spanprof_context_set(bytes.fromhex(trace), bytes.fromhex(span), 1)
        end = time.thread_time() + seconds  # of CPU: it may have to wait for one
        while time.thread_time() < end:
            sum(range(1000))
        self.library.spanprof_context_clear()
        return {"start": begun, "end": time.time_ns()}

    def connection(self, to):
        if to not in self.connections:
            self.connections[to] = UnixConnection(to) if to.startswith("/") else http.client.HTTPConnection(to, timeout=10)
        return self.connections[to]

    def send(self, to, trace, span, name, resource, start, end):
        request, spans = sender.new_request(resource)
        sender.add_span(spans, name, bytes.fromhex(trace), bytes.fromhex(span), None, start, end)
        return {"status": self.post(to, request.SerializeToString())}

    def post(self, to, body):
        """On a new connection if the other end has closed the one that there was, which was idle for long."""
        connection = self.connection(to)
        try:
            connection.request("POST", "/v1/traces", body, {"Content-Type": "application/x-protobuf"})
            answer = connection.getresponse()
        except (BrokenPipeError, ConnectionResetError, http.client.RemoteDisconnected):
            connection.close()
            connection.request("POST", "/v1/traces", body, {"Content-Type": "application/x-protobuf"})
            answer = connection.getresponse()
        answer.read()
        return answer.status


def main():
    program = Program(sys.argv[1], sys.argv[2:])
    print(json.dumps({"pid": os.getpid()}), flush=True)
    for line in sys.stdin:
        command = json.loads(line)
        print(json.dumps(getattr(program, command.pop("do"))(**command)), flush=True)


if __name__ == "__main__":
    main()

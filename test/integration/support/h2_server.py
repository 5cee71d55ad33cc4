# SPDX-License-Identifier: Apache-2.0
"""An HTTP/2 server of frames written by hand, which answers Export calls as a script says: well or badly.

Source of the format: RFC 9113 and RFC 7541; header blocks of the peer are not read, ours are literals.
"""
import socket
import struct
import threading

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST, SETTINGS, PUSH, PING, GOAWAY, WINDOW, CONTINUATION = 0, 1, 3, 4, 5, 6, 7, 8, 9
END_STREAM, ACK, END_HEADERS, PADDED = 1, 1, 4, 8
MAX_STREAMS, INITIAL_WINDOW = 3, 4  # settings
NO_ERROR, INTERNAL_ERROR, REFUSED_STREAM, CANCEL, CALM = 0, 2, 7, 8, 11
DEFAULT_WINDOW = 65535


def header(name, value):
    """A literal that is not indexed; both shorter than 127 bytes."""
    return b"\0" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()


def block(**fields):
    """status first; names with underscores for hyphens."""
    return b"".join(header((":" if name == "status" else "") + name.replace("_", "-"), value)
                    for name, value in fields.items())


class Stream:
    def __init__(self, connection, number):
        self.connection = connection
        self.number = number
        self.data = b""
        self.window = connection.initial_window  # that the peer has given us

    @property
    def message(self):
        """Of the call, without its prefix."""
        return self.data[5:]


class Connection:
    """One peer, in a thread of its own. Scripts use its verbs."""

    def __init__(self, server, sock):
        self.server = server
        self.socket = sock
        self.streams = {}
        self.initial_window = DEFAULT_WINDOW
        self.window = DEFAULT_WINDOW
        self.most_streams = 0
        self.pings_answered = 0
        self.is_open = True
        self.lock = threading.Condition()
        threading.Thread(target=self._run, daemon=True).start()

    # verbs

    def send(self, data):
        try:
            self.socket.sendall(data)
        except OSError:
            self.is_open = False

    def frame(self, kind, flags=0, stream=0, payload=b""):
        self.send(struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload)

    def headers(self, stream, payload, end=False):
        self.frame(HEADERS, END_HEADERS | (END_STREAM if end else 0), stream.number, payload)

    def data(self, stream, payload, padding=None):
        """Within the windows, which padding counts against."""
        size = len(payload) + (0 if padding is None else 1 + padding)
        with self.lock:
            self.lock.wait_for(lambda: min(stream.window, self.window) >= size or not self.is_open, 10)
            stream.window -= size
            self.window -= size
        if padding is not None:
            payload = bytes([padding]) + payload + bytes(padding)
        self.frame(DATA, 0 if padding is None else PADDED, stream.number, payload)

    def begin(self, stream):
        self.headers(stream, block(status="200", content_type="application/grpc"))

    def end(self, stream, status="0"):
        self.forget(stream)
        self.headers(stream, header("grpc-status", status), end=True)
        if status == "0":
            self.server.take(stream)

    def answer(self, stream, message=b"", padding=None, piece=16384):
        """In good order."""
        body = b"\0" + struct.pack(">I", len(message)) + message
        self.begin(stream)
        for at in range(0, len(body), piece):
            self.data(stream, body[at:at + piece], padding)
        self.end(stream)

    def reset(self, stream, error=NO_ERROR):
        self.forget(stream)
        self.frame(RST, 0, stream.number, struct.pack(">I", error))

    def goaway(self, last, error=NO_ERROR):
        self.frame(GOAWAY, 0, 0, struct.pack(">II", last, error))

    def setting(self, key, value):
        self.frame(SETTINGS, 0, 0, struct.pack(">HI", key, value))

    def forget(self, stream):
        self.streams.pop(stream.number, None)

    def close(self):
        self.is_open = False
        try:
            self.socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.socket.close()

    # its thread

    def _read(self, size):
        data = b""
        while len(data) < size:
            piece = self.socket.recv(size - len(data))
            if not piece:
                raise OSError("hung up")
            data += piece
        return data

    def _run(self):
        script = self.server.script
        try:
            if script.connected(self) is False or self._read(len(PREFACE)) != PREFACE:
                return self.close()
            self.frame(SETTINGS, 0, 0, script.settings)
            script.settled(self)
            while self.is_open:
                start = self._read(9)
                self._on_frame(start[3], start[4], struct.unpack(">I", start[5:])[0] & 0x7fffffff,
                               self._read(int.from_bytes(start[:3], "big")))
        except OSError:
            pass
        with self.lock:
            self.is_open = False
            self.lock.notify_all()

    def _on_frame(self, kind, flags, number, payload):
        if kind == SETTINGS and not flags & ACK:
            for at in range(0, len(payload), 6):
                key, value = struct.unpack(">HI", payload[at:at + 6])
                if key == INITIAL_WINDOW:
                    self.initial_window = value
            self.frame(SETTINGS, ACK)
        elif kind == PING and not flags & ACK:
            self.frame(PING, ACK, 0, payload)
        elif kind == PING:
            self.pings_answered += 1
        elif kind == WINDOW:
            self._on_window(number, struct.unpack(">I", payload)[0])
        elif kind in (HEADERS, DATA):
            self._on_request(kind, flags, number, payload)
        elif kind == RST and number in self.streams:
            self.forget(self.streams[number])

    def _on_window(self, number, size):
        with self.lock:
            if number in self.streams:
                self.streams[number].window += size
            elif number == 0:
                self.window += size
            self.lock.notify_all()

    def _on_request(self, kind, flags, number, payload):
        script = self.server.script
        if kind == HEADERS and number not in self.streams:
            self.streams[number] = Stream(self, number)
            self.most_streams = max(self.most_streams, len(self.streams))
            script.opened(self, self.streams[number], self.server.next_call())
        stream = self.streams.get(number)
        if kind == DATA and payload:
            if stream:
                stream.data += payload
            script.consumed(self, number, len(payload))
        if stream and flags & END_STREAM:
            threading.Thread(target=script.call, args=(self, stream, self.server.calls), daemon=True).start()


class Script:
    """What a server does; this one everything well. Overridden piece by piece."""
    settings = b""

    def connected(self, connection):
        """Before anything else; False: closed at once."""

    def settled(self, connection):
        """After our SETTINGS."""

    def opened(self, connection, stream, n):
        """A call has begun, the n-th of all from 1."""

    def consumed(self, connection, number, size):
        """Gives the window back."""
        for stream in (0, number):
            connection.frame(WINDOW, 0, stream, struct.pack(">I", size))

    def call(self, connection, stream, n):
        """It has come whole. In a thread of its own."""
        connection.answer(stream)


class Server:
    """taken: the messages of calls that were answered with success, in order."""

    def __init__(self, script=None):
        self.script = script or Script()
        self.taken = []
        self.calls = 0
        self.connections = []
        self.changed = threading.Condition()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.address = "127.0.0.1:%d" % self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.connections.append(Connection(self, sock))

    def next_call(self):
        self.calls += 1
        return self.calls

    def take(self, stream):
        with self.changed:
            self.taken.append(stream.message)
            self.changed.notify_all()

    def wait(self, condition, timeout, what):
        with self.changed:
            if not self.changed.wait_for(condition, timeout):
                raise TimeoutError("%s: not within %.0f s" % (what, timeout))

    def use(self, script):
        """From now on, on new connections."""
        self.script = script
        for connection in self.connections:
            connection.close()
        self.connections, self.calls, self.taken = [], 0, []

    def stop(self):
        self._listener.close()
        for connection in self.connections:
            connection.close()

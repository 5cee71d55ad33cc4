# SPDX-License-Identifier: Apache-2.0
"""Between a client and spanprof: sees how much is sent, and how it begins, and changes nothing."""
import socket
import threading

HEAD_BYTES = 4096


class Relay:
    """bytes_sent: by clients, of all connections; heads: the first bytes of each."""

    def __init__(self, address):
        host, port = address.rsplit(":", 1)
        self._target = host, int(port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._lock = threading.Lock()
        self.port = self._listener.getsockname()[1]
        self.bytes_sent = 0
        self.heads = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client):
        with self._lock:
            self.heads.append(b"")
            connection = len(self.heads) - 1
        with client, socket.create_connection(self._target) as server:
            up = threading.Thread(target=self._copy, args=(client, server, connection), daemon=True)
            up.start()
            self._copy(server, client)
            up.join()

    def _copy(self, source, target, connection=None):
        try:
            while data := source.recv(1 << 16):
                if connection is not None:
                    self._note(connection, data)
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def _note(self, connection, data):
        with self._lock:
            self.bytes_sent += len(data)
            self.heads[connection] = (self.heads[connection] + data)[:HEAD_BYTES]

    def close(self):
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

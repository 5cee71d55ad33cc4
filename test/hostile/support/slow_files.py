# SPDX-License-Identifier: Apache-2.0
"""A FUSE file system of a few files, served by a thread of the test, which may stop to answer and go on later.

    with SlowFiles("/some/directory") as files:
        files.contents["a.crt"] = b"..."
        files.hold()
        files.go_on()
"""
import contextlib
import ctypes
import os
import stat
import struct
import threading

LOOKUP, FORGET, GETATTR, OPEN, READ, STATFS, RELEASE, FLUSH, INIT, INTERRUPT, BATCH_FORGET = (
    1, 2, 3, 14, 15, 17, 18, 25, 26, 36, 42)
HEADER = struct.Struct("<IIQQIIIHH")  # length, opcode, unique, node, ...
ROOT = 1
MS_NOSUID, MS_NODEV, MNT_DETACH = 2, 4, 2


class SlowFiles:
    def __init__(self, path):
        self.path = path
        self.contents = {}
        self._nodes = []     # names; the node of the first is 2
        self._held = None    # requests without an answer, while they are held
        self._lock = threading.Lock()
        self._libc = ctypes.CDLL(None, use_errno=True)

    def __enter__(self):
        os.makedirs(self.path, exist_ok=True)
        self._device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
        options = "fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other" % self._device
        if self._libc.mount(b"slow", self.path.encode(), b"fuse", MS_NOSUID | MS_NODEV, options.encode()):
            error = ctypes.get_errno()
            os.close(self._device)
            raise OSError(error, os.strerror(error))
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.go_on()
        self._libc.umount2(self.path.encode(), MNT_DETACH)
        with contextlib.suppress(OSError), open("/dev/null") as null:
            os.dup2(null.fileno(), self._device)  # what is left of it fails

    def hold(self):
        with self._lock:
            self._held = self._held or []

    def go_on(self):
        with self._lock:
            held, self._held = self._held or [], None
        for request in held:
            self._handle(request)

    def _serve(self):
        while True:
            try:
                request = os.read(self._device, 1 << 18)
            except OSError:  # unmounted
                return
            if not request:
                return
            with self._lock:
                if self._held is not None:
                    self._held.append(request)
                    continue
            self._handle(request)

    def _answer(self, unique, body=b"", error=0):
        with contextlib.suppress(OSError):  # who asked is gone
            os.write(self._device, struct.pack("<IiQ", 16 + len(body), -error, unique) + body)

    def _attributes(self, node):
        if node == ROOT:
            mode, size = stat.S_IFDIR | 0o755, 0
        else:
            mode, size = stat.S_IFREG | 0o644, len(self.contents[self._nodes[node - 2]])
        return struct.pack("<6Q10I", node, size, 0, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)

    def _look_up(self, unique, name):
        if name not in self.contents:
            return self._answer(unique, error=2)
        if name not in self._nodes:
            self._nodes.append(name)
        node = 2 + self._nodes.index(name)
        return self._answer(unique, struct.pack("<4Q2I", node, 0, 0, 0, 0, 0) + self._attributes(node))

    def _handle(self, request):
        _, opcode, unique, node = HEADER.unpack_from(request)[:4]
        body = request[HEADER.size:]
        if opcode == INIT:
            self._answer(unique, struct.pack("<4I2H2I2H8I", 7, 31, 4096, 0, 0, 0, 4096, 1, 0, 0, *[0] * 8))
        elif opcode == LOOKUP:
            self._look_up(unique, body.split(b"\0")[0].decode())
        elif opcode == GETATTR:
            self._answer(unique, struct.pack("<QII", 0, 0, 0) + self._attributes(node))
        elif opcode == OPEN:
            self._answer(unique, struct.pack("<QII", 0, 0, 0))
        elif opcode == READ:
            offset, size = struct.unpack_from("<QI", body, 8)
            self._answer(unique, self.contents[self._nodes[node - 2]][offset:offset + size])
        elif opcode in (RELEASE, FLUSH):
            self._answer(unique)
        elif opcode not in (FORGET, BATCH_FORGET, INTERRUPT):
            self._answer(unique, error=38)

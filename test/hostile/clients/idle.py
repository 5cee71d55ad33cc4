# SPDX-License-Identifier: Apache-2.0
"""Connections that say hello and then nothing; opened again when they are ended.

    idle.py PORT CONNECTIONS"""
import select
import socket
import sys
import time

HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0"


def main(port, n):
    poll, sockets = select.poll(), {}
    while True:
        while len(sockets) < n:
            try:
                sock = socket.create_connection(("127.0.0.1", port))
                sock.sendall(HELLO)
            except OSError:
                time.sleep(0.02)
                continue
            sockets[sock.fileno()] = sock
            poll.register(sock, select.POLLIN)
        print("attacking", flush=True)
        for number, _ in poll.poll(1000):
            try:
                ended = not sockets[number].recv(65536)
            except OSError:
                ended = True
            if ended:
                poll.unregister(number)
                sockets.pop(number).close()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))

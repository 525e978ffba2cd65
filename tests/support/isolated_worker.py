"""A remote worker on a network of its own, from which nothing can be reached but the server.

Run by ``unshare --net``. The one way out is a Unix socket, since those are files: a relay here listens where
the worker believes the server to be, and what comes goes through that file to a relay on the other side.
"""

from __future__ import annotations

import fcntl
import socket
import struct
import sys
import threading
from contextlib import suppress

SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 0x1


def bring_loopback_up() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        request = struct.pack("16sh14x", b"lo", 0)
        (flags,) = struct.unpack_from("16xh", fcntl.ioctl(control, SIOCGIFFLAGS, request))
        fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", flags | IFF_UP))


def relay(listening: socket.socket, connect) -> None:
    """Passes on what comes, in a thread for each direction, until the process ends."""

    def serve() -> None:
        while True:
            try:
                near, _ = listening.accept()
            except OSError:
                return
            try:
                far = connect()
            except OSError:
                near.close()
                continue
            threading.Thread(target=join, args=(near, far), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()


def join(near: socket.socket, far: socket.socket) -> None:
    with near, far:
        there = threading.Thread(target=pump, args=(near, far), daemon=True)
        there.start()
        pump(far, near)
        there.join()


def pump(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
    for end in (source, sink):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


def through(path: str):
    def connect() -> socket.socket:
        far = socket.socket(socket.AF_UNIX)
        far.connect(path)
        return far

    return connect


if __name__ == "__main__":
    bring_loopback_up()
    relay(socket.create_server(("127.0.0.1", int(sys.argv[1]))), through(sys.argv[2]))
    from support import conformance_jobs

    conformance_jobs.work_here()

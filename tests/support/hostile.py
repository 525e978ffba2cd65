"""A server in a thread of its own, keys of all roles, and requests byte by byte."""

from __future__ import annotations

import json
import socket
from contextlib import contextmanager
from urllib.parse import urlsplit

from support.server import ServerThread

ROLES = {
    "anonymous": None,
    "tenant-viewer": "acme",
    "tenant-admin": "acme",
    "worker": None,
    "super-admin": None,
}


class HostileServer(ServerThread):
    """A server with a key of each role."""

    def __enter__(self):
        super().__enter__()
        self.keys = {role: self.key(role, tenant) for role, tenant in ROLES.items() if role != "anonymous"}
        with self.connect() as connection:
            connection.execute('select posthouse.announce(\'[{"key": "noop"}]\')')
        return self

    def client(self, role="anonymous", *, key=None, **options):
        return super().client(key or self.keys.get(role), **options)

    @contextmanager
    def raw(self, *lines, body=b"", role="anonymous", end=b"\r\n\r\n"):
        """A connection that has sent these header lines and this much of a body."""
        address = urlsplit(self.url)
        key = self.keys.get(role)
        known = [f"Host: {address.netloc}", *([f"Authorization: Bearer {key}"] if key else [])]
        head = "\r\n".join([lines[0], *known, *lines[1:]]).encode()
        with socket.create_connection((address.hostname, address.port), timeout=60) as connection:
            connection.sendall(head + end + body)
            yield connection


def answered(connection):
    """Status and JSON of the response on a raw connection."""
    response = b""
    while b"\r\n\r\n" not in response:
        response += (piece := connection.recv(65536))
        assert piece, response
    head, _, body = response.partition(b"\r\n\r\n")
    length = next(
        int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")
    )
    while len(body) < length:
        body += connection.recv(65536)
    return int(head.split()[1]), json.loads(body)

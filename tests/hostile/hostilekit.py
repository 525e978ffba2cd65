"""A server in a thread of its own, keys of all roles, and requests byte by byte."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from contextlib import contextmanager
from urllib.parse import urlsplit

import httpx
import psycopg

from posthouse.cli.run_server import ServerProcess
from posthouse.identity import Role, issue_key

ROLES = {
    "anonymous": None,
    "tenant-viewer": "acme",
    "tenant-admin": "acme",
    "worker": None,
    "super-admin": None,
}


class Site:
    def __init__(self, url, database):
        self.url = url
        self.database = database
        self.keys = {role: self.key(role, tenant) for role, tenant in ROLES.items() if role != "anonymous"}
        self._clients = []
        with psycopg.connect(database, autocommit=True) as connection:
            connection.execute('select posthouse.announce(\'[{"key": "noop"}]\')')

    def key(self, role, tenant=None):
        return asyncio.run(self._issue(Role(role), tenant))

    async def _issue(self, role, tenant):
        async with await psycopg.AsyncConnection.connect(self.database, autocommit=True) as connection:
            return await issue_key(connection, f"a {role}", role, tenant=tenant, actor="test")

    def client(self, role="anonymous", *, key=None, **options):
        key = key or self.keys.get(role)
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        headers.update(options.pop("headers", {}))
        client = httpx.Client(base_url=self.url, headers=headers, timeout=60, **options)
        self._clients.append(client)
        return client

    def close(self):
        for client in self._clients:
            client.close()

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


@contextmanager
def served(settings):
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    def run(work):
        return asyncio.run_coroutine_threadsafe(work, loop).result(60)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = ServerProcess(settings)
        run(server.start(listening))
        site = Site(f"http://127.0.0.1:{listening.getsockname()[1]}", settings.database_url)
        try:
            yield site
        finally:
            site.close()
            run(server.stop())
            loop.call_soon_threadsafe(loop.stop)
            thread.join(10)
            loop.close()

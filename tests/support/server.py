"""A real server on a real Postgres, and HTTP clients with keys of any role."""

from __future__ import annotations

import asyncio
import socket
import sys
import threading
from contextlib import contextmanager

import httpx
import psycopg

from posthouse.cli.run_server import ServerProcess
from posthouse.identity import Role, issue_key


@contextmanager
def reserved_port():
    """A port on which nothing listens, but which no other process gets: it is bound.

    Servers that reuse addresses, as all of ours do, can listen on it.
    """
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
        port = holder.getsockname()[1]
        if sys.platform != "linux":  # elsewhere no second socket can be bound to the address
            holder.close()
        yield port


async def key_for(database, role, tenant=None, **options):
    async with await psycopg.AsyncConnection.connect(database, autocommit=True) as connection:
        return await issue_key(connection, f"a {role}", Role(role), tenant=tenant, actor="test", **options)


class RunningServer:
    """A server in the event loop of the test. ``database``: its database past a pooler."""

    def __init__(self, settings, apps=None, *, database=None, port=0):
        self.settings = settings
        self.database = database or settings.database_url
        self.port = port
        self.url = ""
        self._apps = apps
        self._clients = []

    async def __aenter__(self):
        await self.start()
        return self

    async def __aexit__(self, *_):
        await self.close_clients()
        await self.stop()

    async def start(self):
        """Start the server; after a stop, at the same address."""
        self._listening = socket.create_server(("127.0.0.1", self.port))
        self.port = self._listening.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.process = ServerProcess(self.settings, self._apps)
        await self.process.start(self._listening)

    async def stop(self):
        await self.process.stop()
        self._listening.close()

    async def key(self, role, tenant=None, **options):
        return await key_for(self.database, role, tenant, **options)

    def client(self, key=None, path=""):
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        client = httpx.AsyncClient(base_url=self.url + path, headers=headers, timeout=30)
        self._clients.append(client)
        return client

    async def client_for(self, role, tenant=None):
        return self.client(await self.key(role, tenant))

    async def close_clients(self):
        await asyncio.gather(*(client.aclose() for client in self._clients))


class ServerThread:
    """A server in a thread of its own, for tests that are not async or share one."""

    path = ""

    def __init__(self, settings, *, database=None):
        self.settings = settings
        self.database = database or settings.database_url
        self._clients = []

    def __enter__(self):
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._server = RunningServer(self.settings)
        try:
            self._run(self._server.start())
        except BaseException:
            self._end()
            raise
        self.url = self._server.url
        return self

    def __exit__(self, *_):
        for client in self._clients:
            client.close()
        try:
            self._run(self._server.stop())
        finally:
            self._end()

    def _run(self, work):
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    def _end(self):
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def connect(self):
        return psycopg.connect(self.database, autocommit=True)

    def key(self, role, tenant=None, **options):
        return asyncio.run(key_for(self.database, role, tenant, **options))

    def client(self, key=None, *, headers=None, **options):
        known = {"Authorization": f"Bearer {key}"} if key else {}
        client = httpx.Client(
            base_url=self.url + self.path, headers={**known, **(headers or {})}, timeout=60, **options
        )
        self._clients.append(client)
        return client

    def client_for(self, role, tenant=None):
        return self.client(self.key(role, tenant))

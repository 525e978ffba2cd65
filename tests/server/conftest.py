"""The API over HTTP as its users call it, on a real server and a real Postgres."""

from __future__ import annotations

import asyncio
import socket
from contextlib import asynccontextmanager

import httpx
import psycopg
import pytest

from posthouse.cli.run_server import ServerProcess
from posthouse.identity import Role, issue_key
from posthouse.settings import Settings

LIMITS = httpx.Limits(keepalive_expiry=2.0)
"""The server closes idle connections after 5 s. A client that does so as well may use one at that moment."""


class Api:
    """A running server, and clients with keys of any role."""

    def __init__(self, url, database):
        self.url = url
        self.database = database
        self._open = []

    async def key(self, role, tenant=None, **options):
        connection = await psycopg.AsyncConnection.connect(self.database, autocommit=True)
        async with connection:
            return await issue_key(
                connection, f"a {role}", Role(role), tenant=tenant, actor="test", **options
            )

    def client(self, key=None):
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        client = httpx.AsyncClient(base_url=self.url, headers=headers, timeout=30, limits=LIMITS)
        self._open.append(client)
        return client

    async def as_(self, role, tenant=None):
        return self.client(await self.key(role, tenant))

    async def close(self):
        await asyncio.gather(*(client.aclose() for client in self._open))


@asynccontextmanager
async def serving(settings):
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = ServerProcess(settings)
        await server.start(listening)
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            await server.stop()


@pytest.fixture
async def api(database):
    async with serving(Settings(database_url=database)) as url:
        api = Api(url, database)
        yield api
        await api.close()

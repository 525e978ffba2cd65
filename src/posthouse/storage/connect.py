"""Connections. One that is used alone and mends itself; whether a pooler stands in between."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeVar

import psycopg
from psycopg import AsyncConnection, Connection

T = TypeVar("T")

_RETRY_PAUSES = (0.0, 0.05, 0.1, 0.2, 0.4, 0.8)

_KEEPALIVE: dict[str, Any] = {
    # Finds a peer that vanished without closing within 15 s.
    "keepalives_idle": 5,
    "keepalives_interval": 3,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
    "connect_timeout": 5,
}


def retry_pause(failures: int) -> float:
    """Seconds until the next try, after so many that failed. Short: a restarted Postgres is back soon."""
    return _RETRY_PAUSES[min(failures, len(_RETRY_PAUSES) - 1)]


def _options(name: str) -> dict[str, Any]:
    return {**_KEEPALIVE, "autocommit": True, "application_name": f"posthouse {name}"}


def pool_options(name: str) -> dict[str, Any]:
    """Arguments for a psycopg pool whose connections are like those made here."""
    return {"kwargs": _options(name), "configure": _without_preparing_behind_pooler}


def sync_pool_options(name: str) -> dict[str, Any]:
    return {"kwargs": _options(name), "configure": _without_preparing_behind_pooler_sync}


def _without_preparing_behind_pooler_sync(connection: Connection[Any]) -> None:
    backend = connection.execute("select pg_backend_pid()").fetchone()
    if backend is None or backend[0] != connection.info.backend_pid:
        connection.prepare_threshold = None


async def _without_preparing_behind_pooler(connection: AsyncConnection[Any]) -> None:
    if await behind_pooler(connection):
        connection.prepare_threshold = None


async def connect_async(url: str, name: str) -> AsyncConnection[tuple[Any, ...]]:
    """A connection. Canceling waits for the handshake: one left hanging keeps its backend in authentication,
    where it holds up every DROP DATABASE for a minute.
    """
    connecting = asyncio.ensure_future(_connect(url, name))
    try:
        return await asyncio.shield(connecting)
    except asyncio.CancelledError:
        await asyncio.wait([connecting])
        if not connecting.cancelled() and connecting.exception() is None:
            await connecting.result().close()
        raise


async def _connect(url: str, name: str) -> AsyncConnection[tuple[Any, ...]]:
    connection = await AsyncConnection.connect(url, **_options(name))
    try:
        await _without_preparing_behind_pooler(connection)
    except BaseException:
        await connection.close()
        raise
    return connection


def connect_sync(url: str, name: str) -> Connection[tuple[Any, ...]]:
    connection = Connection.connect(url, **_options(name))
    try:
        _without_preparing_behind_pooler_sync(connection)
    except BaseException:
        connection.close()
        raise
    return connection


async def behind_pooler(connection: AsyncConnection[Any]) -> bool:
    """A pooler answers the handshake itself, so the process id it gave is not the backend's."""
    cursor = await connection.execute("select pg_backend_pid()")
    row = await cursor.fetchone()
    return row is None or row[0] != connection.info.backend_pid


class Running(Protocol):
    """Does work on a connection."""

    async def run(self, work: Callable[[AsyncConnection[tuple[Any, ...]]], Awaitable[T]]) -> T: ...
    async def close(self) -> None: ...


class Line:
    """One connection for one user, opened again when it breaks."""

    def __init__(self, url: str, name: str) -> None:
        self._url = url
        self._name = name
        self._connection: AsyncConnection[tuple[Any, ...]] | None = None
        self._lock = asyncio.Lock()

    async def connection(self) -> AsyncConnection[tuple[Any, ...]]:
        """The connection, opened if need be; raises OperationalError if Postgres is away."""
        if self._connection is None or self._connection.closed or self._connection.broken:
            await self._discard()
            self._connection = await connect_async(self._url, self._name)
        return self._connection

    async def run(self, work: Callable[[AsyncConnection[tuple[Any, ...]]], Awaitable[T]]) -> T:
        """Does the work on the connection. On a lost connection raises OperationalError, once."""
        async with self._lock:
            try:
                return await work(await self.connection())
            except psycopg.OperationalError:
                if self._connection is not None and self._connection.broken:
                    await self._discard()
                raise

    async def close(self) -> None:
        async with self._lock:
            await self._discard()

    async def _discard(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

"""Database connections: how they are opened and set up, alone and in pools."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Protocol, TypeVar

import psycopg
from psycopg import AsyncConnection, Connection
from psycopg.types.json import set_json_loads
from psycopg_pool import AsyncConnectionPool, ConnectionPool

from posthouse.core.payload import parse_json
from posthouse.errors import DatabaseRequired
from posthouse.storage.queries import Db, query

T = TypeVar("T")

_KEEPALIVE: dict[str, Any] = {
    # Detect within 15 s a peer that disappeared without closing the connection.
    "keepalives_idle": 5,
    "keepalives_interval": 3,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
    "connect_timeout": 5,
}


def _options(name: str) -> dict[str, Any]:
    return {**_KEEPALIVE, "autocommit": True, "application_name": f"posthouse {name}"}


def pool_options(name: str) -> dict[str, Any]:
    """Return arguments for a psycopg pool whose connections are set up like those opened here."""
    return {"kwargs": _options(name), "configure": _set_up}


def sync_pool_options(name: str) -> dict[str, Any]:
    """Return the same arguments for a synchronous psycopg pool."""
    return {"kwargs": _options(name), "configure": _set_up_sync}


def _set_up_sync(connection: Connection[Any]) -> None:
    row = connection.execute(query("connection_setup"), {"pid": connection.info.backend_pid}).fetchone()
    if row is None or not row[0]:
        connection.prepare_threshold = None


async def _set_up(connection: AsyncConnection[Any]) -> None:
    """Switch off JIT or, behind a pooler, prepared statements.

    JIT is not switched off by start-up options: PgBouncer rejects connections with unknown ones. Behind a
    pooler the session is shared with other clients, so the functions that JIT would slow down switch it off
    themselves.
    """
    set_json_loads(parse_json, connection)
    cursor = await connection.execute(query("connection_setup"), {"pid": connection.info.backend_pid})
    row = await cursor.fetchone()
    if row is None or not row[0]:
        connection.prepare_threshold = None


async def connect_async(
    url: str, name: str, kind: type[AsyncConnection[tuple[Any, ...]]] = AsyncConnection
) -> AsyncConnection[tuple[Any, ...]]:
    """Open a connection.

    Cancellation waits for the handshake: an abandoned handshake leaves its backend in authentication, where
    it blocks every DROP DATABASE for a minute.
    """
    connecting = asyncio.ensure_future(_connect(url, name, kind))
    try:
        return await asyncio.shield(connecting)
    except asyncio.CancelledError:
        await asyncio.wait([connecting])
        if not connecting.cancelled() and connecting.exception() is None:
            await connecting.result().close()
        raise


async def _connect(
    url: str, name: str, kind: type[AsyncConnection[tuple[Any, ...]]]
) -> AsyncConnection[tuple[Any, ...]]:
    connection = await kind.connect(url, **_options(name))
    try:
        await _set_up(connection)
    except BaseException:
        await connection.close()
        raise
    return connection


def connect_sync(url: str, name: str) -> Connection[tuple[Any, ...]]:
    """Open a synchronous connection."""
    connection = Connection.connect(url, **_options(name))
    try:
        _set_up_sync(connection)
    except BaseException:
        connection.close()
        raise
    return connection


async def is_pooled(connection: AsyncConnection[Any]) -> bool:
    """Return whether a pooler is between this connection and Postgres.

    A pooler answers the handshake itself, so the process id that it reported is not the backend's.
    """
    cursor = await connection.execute("select pg_backend_pid()")
    row = await cursor.fetchone()
    return row is None or row[0] != connection.info.backend_pid


class ConnectionRunner(Protocol):
    """An object that runs work on a connection."""

    async def run(self, work: Callable[[AsyncConnection[tuple[Any, ...]]], Awaitable[T]]) -> T: ...
    async def close(self) -> None: ...


class ReconnectingConnection:
    """A connection for one task, opened again after it broke."""

    def __init__(self, url: str, name: str) -> None:
        self._url = url
        self._name = name
        self._connection: AsyncConnection[tuple[Any, ...]] | None = None
        self._lock = asyncio.Lock()

    async def connection(self) -> AsyncConnection[tuple[Any, ...]]:
        """Return the connection, opened if necessary; raise OperationalError if Postgres is down."""
        if self._connection is None or self._connection.closed or self._connection.broken:
            await self._close()
            self._connection = await connect_async(self._url, self._name)
        return self._connection

    async def run(self, work: Callable[[AsyncConnection[tuple[Any, ...]]], Awaitable[T]]) -> T:
        """Run the work on the connection. Raise OperationalError once if the connection was lost."""
        async with self._lock:
            try:
                return await work(await self.connection())
            except psycopg.OperationalError:
                if self._connection is not None and self._connection.broken:
                    await self._close()
                raise

    async def close(self) -> None:
        async with self._lock:
            await self._close()

    async def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()


MAX_SIZE = 20


class HandlerPools:
    """A pool for async handlers and one for threads, opened on first use. Both need a URL."""

    def __init__(self, url: str | None) -> None:
        self._url = url
        self._async: AsyncConnectionPool[AsyncConnection[tuple[Any, ...]]] | None = None
        self._sync: ConnectionPool[Connection[tuple[Any, ...]]] | None = None
        self._lock = threading.Lock()

    async def async_pool(self) -> AsyncConnectionPool[AsyncConnection[tuple[Any, ...]]]:
        if self._async is None:
            self._async = AsyncConnectionPool(
                self._require_url(), min_size=0, max_size=MAX_SIZE, open=False, **pool_options("handlers")
            )
            await self._async.open()
        return self._async

    def sync_pool(self) -> ConnectionPool[Connection[tuple[Any, ...]]]:
        with self._lock:
            if self._sync is None:
                self._sync = ConnectionPool(
                    self._require_url(),
                    min_size=0,
                    max_size=MAX_SIZE,
                    open=True,
                    **sync_pool_options("handlers"),
                )
            return self._sync

    def _require_url(self) -> str:
        if self._url is None:
            raise DatabaseRequired(
                "job.commit(), job.step_commit() and job.transaction() need the database, but this worker is "
                "remote and has no database connection. Return a result, use job.step(), or run this kind of "
                "job on a worker that has the database"
            )
        return self._url

    async def close(self) -> None:
        if self._async is not None:
            await self._async.close()
        if self._sync is not None:
            self._sync.close()


@asynccontextmanager
async def tenant_transaction(connection: Db, tenant: str | None, *, seconds: float) -> AsyncIterator[Db]:
    """Open a transaction that sees the rows of one tenant (None: of all), with a statement timeout.

    The settings end with the transaction, so that nothing leaks through a pooler.
    """
    async with connection.transaction():
        await connection.execute(
            query("tenant_transaction"),
            {"tenant": tenant, "role": "posthouse_tenant", "milliseconds": int(seconds * 1000)},
        )
        yield connection

"""Connection pools for handlers, separate from the worker's own connections, which they must not use up."""

from __future__ import annotations

import threading
from typing import Any

from psycopg import AsyncConnection, Connection
from psycopg_pool import AsyncConnectionPool, ConnectionPool

from posthouse.errors import NoDatabase
from posthouse.storage.connect import pool_options, sync_pool_options

MAX_SIZE = 20


class Pools:
    """One pool for async handlers and one for threads, opened on first use. None without a URL."""

    def __init__(self, url: str | None) -> None:
        self._url = url
        self._async: AsyncConnectionPool[AsyncConnection[tuple[Any, ...]]] | None = None
        self._sync: ConnectionPool[Connection[tuple[Any, ...]]] | None = None
        self._lock = threading.Lock()

    async def for_loop(self) -> AsyncConnectionPool[AsyncConnection[tuple[Any, ...]]]:
        if self._async is None:
            self._async = AsyncConnectionPool(
                self._reachable(), min_size=0, max_size=MAX_SIZE, open=False, **pool_options("handlers")
            )
            await self._async.open()
        return self._async

    def for_threads(self) -> ConnectionPool[Connection[tuple[Any, ...]]]:
        with self._lock:
            if self._sync is None:
                self._sync = ConnectionPool(
                    self._reachable(),
                    min_size=0,
                    max_size=MAX_SIZE,
                    open=True,
                    **sync_pool_options("handlers"),
                )
            return self._sync

    def _reachable(self) -> str:
        if self._url is None:
            raise NoDatabase(
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

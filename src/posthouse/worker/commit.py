"""Completing a job inside the handler's own transaction."""

from __future__ import annotations

from contextlib import AsyncExitStack, ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import AsyncConnection, Connection

from posthouse.core.outcome import Cancel
from posthouse.core.payload import encode_result
from posthouse.errors import LeaseLost
from posthouse.storage.pools import Pools
from posthouse.storage.queries import query

if TYPE_CHECKING:
    from posthouse.worker.job import Job


class Commit:
    """``async with`` in an async handler, ``with`` in a thread: gives a connection in a transaction."""

    def __init__(self, job: Job, pools: Pools, result_limit: int) -> None:
        self._job = job
        self._pools = pools
        self._limit = result_limit
        self._async_stack = AsyncExitStack()
        self._stack = ExitStack()
        self._connection: Any = None

    async def __aenter__(self) -> AsyncConnection[tuple[Any, ...]]:
        self._refuse_twice()
        pool = await self._pools.for_loop()
        while True:
            connection = await self._async_stack.enter_async_context(pool.connection())
            try:
                await self._async_stack.enter_async_context(connection.transaction())
            except BaseException as error:
                await self._async_stack.aclose()
                if not _had_died(connection, error):
                    raise
            else:
                self._connection = connection
                return connection

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if kind is None:
                cursor = await self._connection.execute(query("complete"), self._parameters())
                self._check(await cursor.fetchone())
        except BaseException as late:
            await self._async_stack.__aexit__(type(late), late, late.__traceback__)
            raise
        await self._async_stack.__aexit__(kind, error, trace)
        self._job.finished = kind is None

    def __enter__(self) -> Connection[tuple[Any, ...]]:
        self._refuse_twice()
        pool = self._pools.for_threads()
        while True:
            connection = self._stack.enter_context(pool.connection())
            try:
                self._stack.enter_context(connection.transaction())
            except BaseException as error:
                self._stack.close()
                if not _had_died(connection, error):
                    raise
            else:
                self._connection = connection
                return connection

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if kind is None:
                row = self._connection.execute(query("complete"), self._parameters()).fetchone()
                self._check(row)
        except BaseException as late:
            self._stack.__exit__(type(late), late, late.__traceback__)
            raise
        self._stack.__exit__(kind, error, trace)
        self._job.finished = kind is None

    def _refuse_twice(self) -> None:
        if self._job.finished:
            raise LeaseLost("this job has already been committed")

    def _parameters(self) -> tuple[Any, ...]:
        job = self._job
        result = None if job.result is None else encode_result(job.result, self._limit)
        return (job.id, job.token, result, job.followups)

    def _check(self, row: tuple[Any, ...] | None) -> None:
        """Raises unless the completion landed; the transaction is then rolled back."""
        match row:
            case ("succeeded",):
                return
            case ("canceled",):
                raise Cancel("canceled while it ran: nothing was written")
            case _:
                raise LeaseLost(f"job {self._job.id} was given to another worker: nothing was written")


def _had_died(connection: AsyncConnection[Any] | Connection[Any], error: BaseException) -> bool:
    """The pool kept a connection that Postgres closed meanwhile. Nothing was done on it: another will do,
    and the job need not pay for it with an attempt.
    """
    return isinstance(error, psycopg.OperationalError) and connection.broken

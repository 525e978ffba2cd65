"""Transactions of a handler, and durable steps: a finished step is not run again by a later attempt."""

from __future__ import annotations

import asyncio
import inspect
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, ExitStack, contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import AsyncConnection, Connection

from posthouse.core.outcome import Cancel
from posthouse.core.payload import encode_result
from posthouse.core.progress import decode_kept, encode_kept
from posthouse.errors import InvalidReport, LeaseLost
from posthouse.storage.connections import Pools
from posthouse.storage.queries import query

if TYPE_CHECKING:
    from posthouse.worker.job import Desk, Job


class Transaction(ABC):
    """A transaction: use ``async with`` in an async handler, ``with`` in a thread; yields a connection.

    When the block ends without an error, a statement with the job's token may run; its result decides whether
    the transaction is committed.
    """

    _statement: str | None = None
    _ends_job = False

    def __init__(self, job: Job, pools: Pools) -> None:
        self._job = job
        self._pools = pools
        self._async_stack = AsyncExitStack()
        self._stack = ExitStack()
        self._connection: Any = None

    async def _begin(self) -> AsyncConnection[tuple[Any, ...]]:
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
        if self._connection is None:
            return
        try:
            if kind is None:
                if self._ends_job and self._job.told:
                    await self._job.land()
                if self._statement is not None:
                    cursor = await self._connection.execute(query(self._statement), self._parameters())
                    self._check(await cursor.fetchone())
        except BaseException as late:
            await self._async_stack.__aexit__(type(late), late, late.__traceback__)
            raise
        await self._async_stack.__aexit__(kind, error, trace)
        if kind is None:
            self._landed()

    def _begin_in_thread(self) -> Connection[tuple[Any, ...]]:
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
        if self._connection is None:
            return
        try:
            if kind is None:
                if self._ends_job and self._job.told:
                    self._job.land()
                if self._statement is not None:
                    row = self._connection.execute(query(self._statement), self._parameters()).fetchone()
                    self._check(row)
        except BaseException as late:
            self._stack.__exit__(type(late), late, late.__traceback__)
            raise
        self._stack.__exit__(kind, error, trace)
        if kind is None:
            self._landed()

    def _refuse_twice(self) -> None:
        if self._job.finished:
            raise LeaseLost("this job has already been committed")

    @abstractmethod
    def _parameters(self) -> tuple[Any, ...]:
        """Return the parameters of the statement that ends the transaction."""

    @abstractmethod
    def _landed(self) -> None:
        """Handle the commit."""

    def _check(self, row: tuple[Any, ...] | None) -> None:
        """Raise unless the statement took effect; the transaction is then rolled back."""
        match row:
            case ("succeeded" | "kept",):
                return
            case ("canceled",):
                raise Cancel("canceled while running; nothing was written")
            case ("again",):
                raise LeaseLost(f"this step of job {self._job.id} is already done; nothing was written")
            case _:
                raise LeaseLost(
                    f"lease lost: job {self._job.id} was reassigned to another worker; nothing was written"
                )


class Plain(Transaction):
    """Does not change the job."""

    async def __aenter__(self) -> AsyncConnection[tuple[Any, ...]]:
        return await self._begin()

    def __enter__(self) -> Connection[tuple[Any, ...]]:
        return self._begin_in_thread()

    def _parameters(self) -> tuple[Any, ...]:
        return ()

    def _landed(self) -> None:
        pass


class Commit(Transaction):
    """Completes the job."""

    _statement = "complete"
    _ends_job = True

    def __init__(self, job: Job, pools: Pools, result_limit: int) -> None:
        super().__init__(job, pools)
        self._limit = result_limit

    async def __aenter__(self) -> AsyncConnection[tuple[Any, ...]]:
        return await self._begin()

    def __enter__(self) -> Connection[tuple[Any, ...]]:
        return self._begin_in_thread()

    def _parameters(self) -> tuple[Any, ...]:
        job = self._job
        job.committing = True
        result = None if job.result is None else encode_result(job.result, self._limit)
        return (job.id, job.token, result, job.followups)

    def _landed(self) -> None:
        self._job.finished = True


class StepCommit(Transaction):
    """Stores a step of the job. Yields None instead of a connection if the step is already done."""

    _statement = "step_keep"

    def __init__(self, job: Job, desk: Desk, pools: Pools, name: str, lease_seconds: float) -> None:
        super().__init__(job, pools)
        self._desk = desk
        self._lease = lease_seconds
        self._started = time.monotonic()
        self.name = name
        self.result: Any = None
        """Stored with the step; for a step that is already done, its stored result."""

    async def __aenter__(self) -> AsyncConnection[tuple[Any, ...]] | None:
        done, self.result = await self._desk.find_step(self._job, self.name)
        return None if done else await self._begin()

    def __enter__(self) -> Connection[tuple[Any, ...]] | None:
        done, self.result = self._job.ask(self._desk.find_step(self._job, self.name))
        return None if done else self._begin_in_thread()

    def _parameters(self) -> tuple[Any, ...]:
        text = encode_kept(f"step {self.name!r}", self.result, self._desk.result_limit)
        seconds = time.monotonic() - self._started
        return (self._job.id, self._job.token, self._lease, self.name, text, seconds, True)

    def _landed(self) -> None:
        self._desk.note_step(self._job, self.name)


def _had_died(connection: AsyncConnection[Any] | Connection[Any], error: BaseException) -> bool:
    """Whether the pool returned a connection that Postgres had closed.

    Nothing was done on it, so another connection is used, and the job does not lose an attempt.
    """
    return isinstance(error, psycopg.OperationalError) and connection.broken


class Steps:
    """The steps of one job. A name identifies one step across all attempts."""

    def __init__(self, job: Job, desk: Desk) -> None:
        self._job = job
        self._desk = desk
        self._running: set[str] = set()

    async def run(self, name: str, function: Callable[[], Any]) -> Any:
        with self._alone(name):
            done, value = await self._desk.find_step(self._job, name)
            if done:
                return value
            started = time.monotonic()
            value = function()
            if inspect.isawaitable(value):
                value = await value
            text = self.encoded(name, value)
            await self._desk.keep_step(self._job, name, text, time.monotonic() - started)
            return decode_kept(text)

    def run_in_thread(self, name: str, function: Callable[[], Any]) -> Any:
        with self._alone(name):
            done, value = self._job.ask(self._desk.find_step(self._job, name))
            if done:
                return value
            started = time.monotonic()
            text = self.encoded(name, _called_in_thread(name, function))
            self._job.ask(self._desk.keep_step(self._job, name, text, time.monotonic() - started))
            return decode_kept(text)

    async def commit(self, step: StepCommit, function: Callable[[Any], Any]) -> Any:
        async with step as connection:
            if connection is None:
                return step.result
            value = function(connection)
            step.result = await value if inspect.isawaitable(value) else value
        return step.result

    def commit_in_thread(self, step: StepCommit, function: Callable[[Any], Any]) -> Any:
        with step as connection:
            if connection is None:
                return step.result
            step.result = _called_in_thread(step.name, lambda: function(connection))
        return step.result

    def encoded(self, name: str, value: Any) -> str:
        return encode_kept(f"step {name!r}", value, self._desk.result_limit)

    @contextmanager
    def _alone(self, name: str) -> Iterator[None]:
        if name in self._running:
            raise InvalidReport(f"step {name!r} is already running; give each step a unique name")
        self._running.add(name)
        try:
            yield
        finally:
            self._running.discard(name)


def _called_in_thread(name: str, function: Callable[[], Any]) -> Any:
    value = function()
    if inspect.isawaitable(value):
        if asyncio.iscoroutine(value):
            value.close()
        raise InvalidReport(
            f"step {name!r} is async, but this handler runs in a thread; make the step a plain def"
        )
    return value

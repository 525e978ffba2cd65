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
from posthouse.storage.queries import query
from posthouse.worker.contexts import is_in_loop

if TYPE_CHECKING:
    from posthouse.worker.attempt import Attempt


class Transaction(ABC):
    """A transaction of a handler: ``async with`` in an async handler, ``with`` in a thread handler.

    The block receives a connection. When the block ends without an error, a subclass may run a statement with
    the job's token; the result of this statement decides whether the transaction is committed.
    """

    _statement: str | None = None
    _ends_job = False

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt
        self._pools = attempt.services.get_pools(attempt)
        self._async_stack = AsyncExitStack()
        self._stack = ExitStack()
        self._connection: Any = None

    async def _begin(self) -> AsyncConnection[tuple[Any, ...]]:
        self._ensure_not_finished()
        pool = await self._pools.async_pool()
        while True:
            connection = await self._async_stack.enter_async_context(pool.connection())
            try:
                await self._async_stack.enter_async_context(connection.transaction())
            except BaseException as error:
                await self._async_stack.aclose()
                if not _is_stale(connection, error):
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
                if self._ends_job and self._attempt.has_reports:
                    await self._attempt.services.flush(self._attempt)
                if self._statement is not None:
                    cursor = await self._connection.execute(query(self._statement), self._parameters())
                    self._check(await cursor.fetchone())
        except BaseException as late:
            await self._async_stack.__aexit__(type(late), late, late.__traceback__)
            raise
        await self._async_stack.__aexit__(kind, error, trace)
        if kind is None:
            self._on_committed()

    def _begin_sync(self) -> Connection[tuple[Any, ...]]:
        self._ensure_not_finished()
        pool = self._pools.sync_pool()
        while True:
            connection = self._stack.enter_context(pool.connection())
            try:
                self._stack.enter_context(connection.transaction())
            except BaseException as error:
                self._stack.close()
                if not _is_stale(connection, error):
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
                if self._ends_job and self._attempt.has_reports:
                    self._attempt.run_in_loop(self._attempt.services.flush(self._attempt))
                if self._statement is not None:
                    row = self._connection.execute(query(self._statement), self._parameters()).fetchone()
                    self._check(row)
        except BaseException as late:
            self._stack.__exit__(type(late), late, late.__traceback__)
            raise
        self._stack.__exit__(kind, error, trace)
        if kind is None:
            self._on_committed()

    def _ensure_not_finished(self) -> None:
        if self._attempt.is_finished:
            raise LeaseLost("this job has already been committed")

    @abstractmethod
    def _parameters(self) -> tuple[Any, ...]:
        """Return the parameters of the statement that ends the transaction."""

    @abstractmethod
    def _on_committed(self) -> None:
        """Handle the commit."""

    def _check(self, row: tuple[Any, ...] | None) -> None:
        """Raise unless the statement took effect; the transaction is then rolled back."""
        match row:
            case ("succeeded" | "kept",):
                return
            case ("canceled",):
                raise Cancel("canceled while running; nothing was written")
            case ("again",):
                raise LeaseLost(f"this step of job {self._attempt.id} is already done; nothing was written")
            case _:
                raise LeaseLost(f"{self._attempt.lease_lost_error()}; nothing was written")


class PlainTransaction(Transaction):
    """A transaction that does not change the job."""

    async def __aenter__(self) -> AsyncConnection[tuple[Any, ...]]:
        return await self._begin()

    def __enter__(self) -> Connection[tuple[Any, ...]]:
        return self._begin_sync()

    def _parameters(self) -> tuple[Any, ...]:
        return ()

    def _on_committed(self) -> None:
        pass


class CommitTransaction(Transaction):
    """A transaction that completes the job."""

    _statement = "complete"
    _ends_job = True

    async def __aenter__(self) -> AsyncConnection[tuple[Any, ...]]:
        return await self._begin()

    def __enter__(self) -> Connection[tuple[Any, ...]]:
        return self._begin_sync()

    def _parameters(self) -> tuple[Any, ...]:
        attempt = self._attempt
        attempt.services.mark_committing(attempt)
        limit = attempt.services.limits.result_bytes
        result = None if attempt.result is None else encode_result(attempt.result, limit)
        return (attempt.id, attempt.token, result, attempt.followups_json)

    def _on_committed(self) -> None:
        self._attempt.is_finished = True


class StepTransaction(Transaction):
    """A transaction that stores a step of the job.

    The block receives None instead of a connection if the step is already done.
    """

    _statement = "step_keep"

    def __init__(self, attempt: Attempt, name: str) -> None:
        super().__init__(attempt)
        self._started = time.monotonic()
        self.name = name
        self.result: Any = None
        """The result to store with the step. If the step is already done, its stored result."""

    async def __aenter__(self) -> AsyncConnection[tuple[Any, ...]] | None:
        attempt = self._attempt
        done, self.result = await attempt.services.find_step(attempt, self.name)
        return None if done else await self._begin()

    def __enter__(self) -> Connection[tuple[Any, ...]] | None:
        attempt = self._attempt
        done, self.result = attempt.run_in_loop(attempt.services.find_step(attempt, self.name))
        return None if done else self._begin_sync()

    def _parameters(self) -> tuple[Any, ...]:
        attempt, seconds = self._attempt, time.monotonic() - self._started
        limits = attempt.services.limits
        text = encode_kept(f"step {self.name!r}", self.result, limits.result_bytes)
        return (attempt.id, attempt.token, limits.lease_seconds, self.name, text, seconds, True)

    def _on_committed(self) -> None:
        self._attempt.services.mark_step_done(self._attempt, self.name)


def _is_stale(connection: AsyncConnection[Any] | Connection[Any], error: BaseException) -> bool:
    """Return whether the pool returned a connection that Postgres had closed.

    No statement has run on it. The caller uses another connection, so that the job does not lose an attempt.
    """
    return isinstance(error, psycopg.OperationalError) and connection.broken


class StepRunner:
    """The steps of one job. A name identifies one step across all attempts."""

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt
        self._running: set[str] = set()

    def run(self, name: str, function: Callable[[], Any]) -> Any:
        """Run a step and return its result; in an event loop, return a coroutine that does so."""
        return self._run(name, function) if is_in_loop() else self._run_sync(name, function)

    async def _run(self, name: str, function: Callable[[], Any]) -> Any:
        services = self._attempt.services
        with self._exclusive(name):
            done, value = await services.find_step(self._attempt, name)
            if done:
                return value
            started = time.monotonic()
            value = function()
            if inspect.isawaitable(value):
                value = await value
            text = self._encode(name, value)
            await services.save_step(self._attempt, name, text, time.monotonic() - started)
            return decode_kept(text)

    def _run_sync(self, name: str, function: Callable[[], Any]) -> Any:
        services, wait = self._attempt.services, self._attempt.run_in_loop
        with self._exclusive(name):
            done, value = wait(services.find_step(self._attempt, name))
            if done:
                return value
            started = time.monotonic()
            text = self._encode(name, _call_sync(name, function))
            wait(services.save_step(self._attempt, name, text, time.monotonic() - started))
            return decode_kept(text)

    def commit(self, step: StepTransaction, function: Callable[[Any], Any]) -> Any:
        """Run a step that is committed with its writes; in an event loop, return a coroutine that does so."""
        return self._commit(step, function) if is_in_loop() else self._commit_sync(step, function)

    async def _commit(self, step: StepTransaction, function: Callable[[Any], Any]) -> Any:
        async with step as connection:
            if connection is None:
                return step.result
            value = function(connection)
            step.result = await value if inspect.isawaitable(value) else value
        return step.result

    def _commit_sync(self, step: StepTransaction, function: Callable[[Any], Any]) -> Any:
        with step as connection:
            if connection is None:
                return step.result
            step.result = _call_sync(step.name, lambda: function(connection))
        return step.result

    def _encode(self, name: str, value: Any) -> str:
        return encode_kept(f"step {name!r}", value, self._attempt.services.limits.result_bytes)

    @contextmanager
    def _exclusive(self, name: str) -> Iterator[None]:
        if name in self._running:
            raise InvalidReport(f"step {name!r} is already running; give each step a unique name")
        self._running.add(name)
        try:
            yield
        finally:
            self._running.discard(name)


def _call_sync(name: str, function: Callable[[], Any]) -> Any:
    value = function()
    if inspect.isawaitable(value):
        if asyncio.iscoroutine(value):
            value.close()
        raise InvalidReport(
            f"step {name!r} is async, but this handler runs in a thread; make the step a plain def"
        )
    return value

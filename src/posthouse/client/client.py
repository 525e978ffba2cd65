"""Enqueue jobs and wait for them, for code that runs in an event loop."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Self, TypeVar, Unpack
from uuid import UUID

from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool

from posthouse import tracing
from posthouse.blobs import new_blob_key, open_store, store_copy, validate_artifact_name
from posthouse.client.connections import execute_on
from posthouse.client.enqueue import (
    DefinitionCache,
    EnqueueBatch,
    EnqueueOutcome,
    EventOptions,
    Handles,
    Rows,
    Statement,
    duplicate_error,
    encode_erasure,
    encode_event,
    enqueue,
)
from posthouse.client.waiter import FinishListener, result_of
from posthouse.core.duration import Duration, seconds
from posthouse.core.erasure import Erasure
from posthouse.core.request import EnqueueOptions, Request
from posthouse.errors import ClientClosed, JobNotFound, WaitTimeout
from posthouse.settings import Settings, load_settings
from posthouse.storage.connections import is_pooled, pool_options
from posthouse.storage.database import database_url
from posthouse.storage.errors import connection_error, translate_errors
from posthouse.storage.prepared import PreparedStatements
from posthouse.storage.queries import query
from posthouse.waiting import Backoff

T = TypeVar("T")

MAX_CONNECTIONS = 10
SINGLE_STATEMENTS = ("enqueue_one", "enqueue_simple")
POOL_SECONDS = 5.0
RETRY_SECONDS = 30.0
"""Seconds for which an enqueue is retried while Postgres is unreachable.

Retries are safe, because the job ids stay the same.
"""


@dataclass(slots=True, eq=False)
class Handle:
    """A handle of an enqueued job: its ``id``, and the ``outcome`` of the enqueue.

    ``outcome`` is ``"created"``; ``"existing"`` if the handle refers to an existing job with the same dedupe
    key; ``"rejected"`` for a rejected duplicate; or ``"repeated"`` if a job with this id had already been
    enqueued.
    """

    _client: Client = field(repr=False)
    id: UUID
    outcome: EnqueueOutcome

    async def wait(self, timeout: Duration | None = None) -> Any:
        """Wait until the job has finished and return its result.

        Raises JobFailed if the job did not succeed, and WaitTimeout if it has not finished after ``timeout``.
        """
        return await self._client.wait(self.id, timeout)

    async def attach(self, path: str | Path, name: str | None = None, *, connection: Any) -> None:
        """Attach a file to the job. Its handler gets the file with ``job.download(name, …)``.

        ``connection`` must be the connection that the job was enqueued on: the job cannot start before that
        transaction is committed, and so never starts without the file. ``name`` defaults to the name of the
        file. Raises JobNotFound if the job is no longer queued.
        """
        await self._client.attach(self.id, Path(path), name, connection=connection)


class Client:
    """An asynchronous client that enqueues jobs and waits for their results.

    Use ``async with Client() as client:``, or call ``close()``. ``url`` is the URL of the Postgres database;
    the default comes from the settings. ``settings`` replaces the settings from the environment.
    """

    def __init__(self, url: str | None = None, *, settings: Settings | None = None) -> None:
        self.settings = settings or load_settings(database_url=url)
        if self.settings.tracing:
            tracing.start_tracing()
        self._url = url or ""
        self._pool: AsyncConnectionPool[AsyncConnection[tuple[Any, ...]]] | None = None
        self._listener: FinishListener | None = None
        self._singles = PreparedStatements("client", {name: query(name) for name in SINGLE_STATEMENTS})
        self._opening = asyncio.Lock()
        self._definitions = DefinitionCache()
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections. Pending ``wait()`` calls raise ClientClosed."""
        self._closed = True
        listener, self._listener = self._listener, None
        pool, self._pool = self._pool, None
        if listener is not None:
            await listener.close()
        await self._singles.close()
        if pool is not None:
            await pool.close()

    async def enqueue(
        self,
        kind: str,
        payload: Mapping[str, Any] | None = None,
        *,
        connection: Any = None,
        **options: Unpack[EnqueueOptions],
    ) -> Handle:
        """Enqueue one job and return its handle.

        - ``kind``: name of the job kind.
        - ``payload``: arguments of the job, stored as JSON.
        - ``connection``: a psycopg, asyncpg, SQLAlchemy or Django connection. The job is inserted in its open
          transaction, and exists only if that transaction is committed. Default: a connection of the client.
        - ``options``: see "Enqueue options".
        """
        return await self.submit(Request(kind=kind, payload=payload or {}, **options), connection=connection)

    async def submit(self, request: Request, *, connection: Any = None) -> Handle:
        """Enqueue one job from a ``Request`` and return its handle.

        ``connection`` is as for ``enqueue()``.
        """
        handle = (await self._enqueue([request], connection))[0]
        if handle.outcome == "rejected":
            raise duplicate_error(request, handle.id)
        return handle

    async def enqueue_many(self, requests: Iterable[Request], *, connection: Any = None) -> Sequence[Handle]:
        """Enqueue many jobs in one transaction: all of them or none.

        Returns the handles in the order of the requests. Plain requests are stored by COPY, which is the
        fastest way to enqueue. A duplicate that was rejected has the ``outcome`` ``"rejected"``; no error is
        raised. ``connection`` is as for ``enqueue()``.
        """
        return await self._enqueue(list(requests), connection)

    async def emit(
        self,
        name: str,
        context: Mapping[str, Any] | None = None,
        *,
        connection: Any = None,
        **options: Unpack[EventOptions],
    ) -> UUID:
        """Emit an event, from which triggers create jobs. Return the id of the event.

        ``context`` holds the values that trigger templates can use. ``options`` are ``tenant``, ``id``,
        ``subject``, ``correlation_id`` and ``created_by``. With ``connection``, the event is stored in the
        transaction that is open there, and exists only if that transaction is committed.
        """
        event_id, text = encode_event(name, context, options, self.settings.max_payload_bytes)
        await self._execute(Statement("emit", (text,)), connection)
        return event_id

    async def erase(
        self,
        subject: str,
        *,
        tenant: str = "default",
        actor: str = "",
        connection: Any = None,
    ) -> Erasure:
        """Erase the content of all jobs and events of a subject.

        Payloads, results, errors, logs, progress and artifacts are erased; times and statuses stay. Queued
        jobs are canceled, and running jobs are requested to stop; the keeper erases them when they have
        ended. ``actor`` is the name in the audit log. ``connection`` is as for ``enqueue()``.
        """
        text = encode_erasure(subject, tenant, actor)
        (row,) = await self._execute(Statement("erase", (text,)), connection)
        return Erasure(*row)

    async def wait(self, job_id: UUID, timeout: Duration | None = None) -> Any:
        """Wait until a job has finished and return its result.

        Raises JobFailed if the job did not succeed, JobNotFound if it does not exist, and WaitTimeout if it
        has not finished after ``timeout``.
        """
        limit = None if timeout is None else seconds(timeout)
        listener = await self._get_listener(limit)
        deadline = None if limit is None else time.monotonic() + limit
        ending = Statement("job_result", (job_id,))
        async with listener.waiting_for(job_id) as waiter:
            while True:
                left = None if deadline is None else deadline - time.monotonic()
                row = next(iter(await self._run(partial(_run_step, ending), left)), None)
                if row is None:
                    raise JobNotFound(f"job {job_id} does not exist")
                if row[0] not in {"queued", "running"}:
                    return result_of(job_id, *row)
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    raise WaitTimeout(f"job {job_id} was still {row[0]} after {limit:g} s")
                await waiter.pause(left)

    async def attach(self, job_id: UUID, path: Path, name: str | None = None, *, connection: Any) -> None:
        """Attach a file to a job that was enqueued on this connection. See ``Handle.attach``.

        The bytes are stored first. If the artifact cannot be recorded then, they are deleted again.
        """
        named = validate_artifact_name(name or path.name)
        store, place = open_store(self.settings), new_blob_key(job_id)
        digest = await store_copy(self.settings, store, place, path)
        file = {"job_id": str(job_id), "name": named, "place": place, "size": digest.size}
        file |= {"sha256": digest.sha256.hex(), "content_type": "application/octet-stream"}
        try:
            with translate_errors():
                ((found,),) = await execute_on(connection, "artifact_attach", json.dumps(file))
        except BaseException:
            await store.delete(place)
            raise
        if not found:
            await store.delete(place)
            raise JobNotFound(f"job {job_id} is not queued: artifacts can only be attached to queued jobs")

    async def _enqueue(self, requests: Sequence[Request], connection: Any) -> Sequence[Handle]:
        if not requests:
            return []
        span = nullcontext(requests) if tracing.traces is None else tracing.producing(requests)
        with span as traced:
            steps = enqueue(
                traced,
                self._definitions,
                self.settings.max_payload_bytes,
                partial(Handle, self),
                own_transaction=connection is None,
            )
            try:
                step = next(steps)
                while True:
                    step = steps.send(await self._execute(step, connection))
            except StopIteration as finished:
                handles: Handles[Handle] = finished.value
                return handles

    async def _execute(self, step: Statement | EnqueueBatch, connection: Any) -> Rows:
        """Run a step on the caller's connection or, with retries, on a connection of the client."""
        if connection is None:
            if isinstance(step, EnqueueBatch) and not self._singles.is_busy:
                single = step.single_statement()
                if single is not None:
                    return await self._enqueue_single(step, single)
            return await self._run(partial(_run_step, step))
        assert isinstance(step, Statement)
        with translate_errors():
            return await execute_on(connection, step.name, *step.parameters)

    async def _enqueue_single(self, batch: EnqueueBatch, statement: Statement) -> Rows:
        """Enqueue one job by a prepared statement.

        While another task uses that connection, and after it was lost, the job is enqueued on the pool.
        """
        may_be_stored = False
        try:
            if self._pool is None:
                await self._open_pool()
            if not self._singles.is_busy:
                may_be_stored = True
                await self._singles.run(self._url, statement.name, statement.parameters)
                return ()
        except Exception as error:  # noqa: BLE001 - every error but a lost connection is raised again
            connection_error(error)
        return await self._run(partial(_run_step, batch), may_be_stored=may_be_stored)

    async def _run(
        self,
        work: Callable[[AsyncConnection[tuple[Any, ...]], bool], Awaitable[T]],
        timeout: float | None = None,
        *,
        may_be_stored: bool = False,
    ) -> T:
        """Run the work on a pooled connection, and again after a lost connection.

        The second argument of ``work`` is whether the call is a retry; with ``may_be_stored``, the first call
        is one too.
        """
        timeout = RETRY_SECONDS if timeout is None else min(timeout, RETRY_SECONDS)
        give_up = time.monotonic() + timeout
        backoff: Backoff | None = None
        while True:
            try:
                pool = await self._open_pool()
                async with pool.connection(timeout=max(0.1, min(POOL_SECONDS, timeout))) as connection:
                    return await work(connection, may_be_stored or backoff is not None)
            except Exception as error:
                lost = connection_error(error)
                if time.monotonic() > give_up:
                    raise lost from error
                backoff = backoff or Backoff()
                await asyncio.sleep(backoff.next())

    async def _open_pool(self) -> AsyncConnectionPool[AsyncConnection[tuple[Any, ...]]]:
        if self._pool is not None:
            return self._pool
        async with self._opening:
            if self._closed:
                raise ClientClosed("the client is closed; create a new one")
            if self._pool is None:
                self._url = await asyncio.to_thread(database_url, self.settings)
                pool = AsyncConnectionPool(
                    self._url,
                    min_size=0,
                    max_size=MAX_CONNECTIONS - 1,  # one enqueues single jobs
                    open=False,
                    timeout=POOL_SECONDS,
                    **pool_options("client"),
                )
                await pool.open()
                self._pool = pool
            return self._pool

    async def _get_listener(self, timeout: float | None) -> FinishListener:
        if self._listener is None:
            url: str | None = self.settings.direct_url
            if not url:
                pooled = await self._run(lambda connection, _: is_pooled(connection), timeout)
                url = None if pooled else self._url
            if self._listener is None:  # otherwise another waiter has created it meanwhile
                self._listener = FinishListener(url)
        return self._listener


async def _run_step(
    step: Statement | EnqueueBatch,
    connection: AsyncConnection[tuple[Any, ...]],
    is_retry: bool,
) -> Rows:
    plan = step if isinstance(step, Statement) else step.plan(is_retry=is_retry)
    if isinstance(plan, Statement):
        cursor = await connection.execute(query(plan.name), plan.parameters)
        return await cursor.fetchall() if cursor.description else ()
    async with connection.transaction():
        try:
            statement = next(plan)
            while True:
                statement = plan.send(await _run_statement(statement, connection))
        except StopIteration as finished:
            rows: Rows = finished.value
            return rows


async def _run_statement(statement: Statement, connection: AsyncConnection[tuple[Any, ...]]) -> Rows:
    if statement.blocks is None:
        return await _run_step(statement, connection, is_retry=False)
    async with connection.cursor() as cursor, cursor.copy(query(statement.name)) as copy:
        for block in statement.blocks:
            await copy.write(block)
    return ()

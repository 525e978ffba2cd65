"""Enqueue jobs and wait for them, for code that runs in an event loop."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Self, TypeVar, Unpack
from uuid import UUID

import psycopg
from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from posthouse.client.attaching import attach
from posthouse.client.batch import Batch, Receipt, Sending, only
from posthouse.client.bulk import Copier, ways_to_copy
from posthouse.client.callers import ask_on
from posthouse.client.emitting import EventOptions, event_text
from posthouse.client.endings import Endings
from posthouse.client.erasing import erase_text, erasure_of
from posthouse.client.handle import Handle, Handles, result_of
from posthouse.client.kinds import Kinds, refuse_unstorable
from posthouse.client.options import Options
from posthouse.core.duration import Duration, seconds
from posthouse.core.erasure import Erasure
from posthouse.core.request import Request
from posthouse.errors import ClientClosed, DatabaseUnavailable, JobNotFound, WaitTimeout
from posthouse.settings import Settings, load_settings
from posthouse.storage.connect import behind_pooler, pool_options, retry_pause
from posthouse.storage.errors import translated
from posthouse.storage.queries import query
from posthouse.storage.server import database_url
from posthouse.tracing import producing, start_tracing

T = TypeVar("T")

POOL_SECONDS = 5.0
RETRY_FOR = 30.0
"""Seconds for which an enqueue is retried while Postgres is unreachable. Safe: the job ids stay the same."""


class Client:
    """An asynchronous client that enqueues jobs and waits for their results.

    Use ``async with Client() as client:``, or call ``close()``. ``url`` is the URL of the Postgres database;
    the default comes from the settings. ``settings`` replaces the settings from the environment.
    """

    def __init__(self, url: str | None = None, *, settings: Settings | None = None) -> None:
        self.settings = settings or load_settings(database_url=url)
        if self.settings.tracing:
            start_tracing()
        self._url = url or ""
        self._pool: AsyncConnectionPool[AsyncConnection[tuple[Any, ...]]] | None = None
        self._endings: Endings | None = None
        self._opening = asyncio.Lock()
        self._kinds = Kinds()
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections. Pending ``wait()`` calls raise ClientClosed."""
        self._closed = True
        endings, self._endings = self._endings, None
        pool, self._pool = self._pool, None
        if endings is not None:
            await endings.close()
        if pool is not None:
            await pool.close()

    async def enqueue(
        self,
        kind: str,
        payload: Mapping[str, Any] | None = None,
        *,
        connection: Any = None,
        **options: Unpack[Options],
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
        """Enqueue one job from a ``Request`` and return its handle. ``connection`` is as for
        ``enqueue()``.
        """
        return Handle(self, *only(await self._send([request], connection), request))

    async def enqueue_many(self, requests: Iterable[Request], *, connection: Any = None) -> Sequence[Handle]:
        """Enqueue many jobs in one transaction: all of them or none.

        Returns the handles in the order of the requests. Plain requests are stored by COPY, which is the
        fastest way to enqueue. A duplicate that was rejected has the ``outcome`` ``"rejected"``; no error is
        raised. ``connection`` is as for ``enqueue()``.
        """
        return Handles(partial(Handle, self), await self._send(list(requests), connection))

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
        event_id, text = event_text(name, context, options, self.settings.max_payload_bytes)
        if connection is None:
            await self._run(lambda c, _: c.execute(query("emit"), (text,)))
        else:
            with translated():
                await ask_on(connection, "emit", text)
        return event_id

    async def erase(
        self,
        subject: str,
        *,
        tenant: str = "default",
        actor: str = "",
        connection: Any = None,
    ) -> Erasure:
        """Erase all jobs and events of a subject: payloads, results, errors, logs, progress and
        artifacts. Times and statuses stay.

        Queued jobs are canceled, and running jobs are requested to stop; the keeper erases them when they
        have ended. ``actor`` is the name in the audit log. ``connection`` is as for ``enqueue()``.
        """
        text = erase_text(subject, tenant, actor)
        if connection is None:
            return erasure_of(await self._run(lambda c, _: _erase(c, text)))
        with translated():
            return erasure_of(await ask_on(connection, "erase", text))

    async def wait(self, job_id: UUID, timeout: Duration | None = None) -> Any:
        """Wait until a job has finished and return its result.

        Raises JobFailed if the job did not succeed, JobNotFound if it does not exist, and WaitTimeout if it
        has not finished after ``timeout``.
        """
        limit = None if timeout is None else seconds(timeout)
        endings = await self._watch_endings(limit)
        deadline = None if limit is None else time.monotonic() + limit
        async with endings.of(job_id) as ended:
            while True:
                left = None if deadline is None else deadline - time.monotonic()
                row = await self._run(lambda c, _: _fetch_ending(c, job_id), patience=left)
                if row is None:
                    raise JobNotFound(f"job {job_id} does not exist")
                if row[0] not in {"queued", "running"}:
                    return result_of(job_id, *row)
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    raise WaitTimeout(f"job {job_id} was still {row[0]} after {limit:g} s")
                await ended.pause(left)

    async def attach(self, job_id: UUID, path: Path, name: str | None = None, *, connection: Any) -> None:
        """Attach a file to a job that was enqueued on this connection. See ``Handle.attach``."""
        await attach(self.settings, job_id, path, name, connection)

    async def _send(self, requests: list[Request], connection: Any) -> Sequence[Receipt]:
        if not requests:
            return []
        with producing(requests) as traced:
            return await self._send_traced(traced, connection)

    async def _send_traced(self, requests: Sequence[Request], connection: Any) -> Sequence[Receipt]:
        admitted = await self._admitted(requests, connection)
        batch = Batch(admitted, self.settings.max_payload_bytes)
        if connection is None:
            return await self._run(lambda c, again: _send(c, batch.for_bulk(again=again)))
        sending = batch.for_engine()
        with translated():
            return sending.receipts(await ask_on(connection, "enqueue_here", sending.parameter() or "[]"))

    async def _admitted(self, requests: Sequence[Request], connection: Any) -> Sequence[Request]:
        """Return the requests after validation against the definitions of their kinds, which are cached for
        seconds.
        """
        unknown = self._kinds.unknown(requests)
        if unknown:
            await self._learn(unknown, requests, connection)
            code = [request.code() for request in self._kinds.undefined(requests) if request.code]
            if code and connection is None:  # a caller's transaction is not made to hold locks on definitions
                announced = json.dumps(code)
                await self._run(lambda c, _: c.execute(query("announce_missing"), (announced,)))
                await self._learn(unknown, requests, None)
        return self._kinds.admitted(requests, self.settings.max_payload_bytes)

    async def _learn(self, kinds: list[str], requests: Sequence[Request], connection: Any) -> None:
        """Read the definitions of these kinds."""
        asked = json.dumps(kinds)
        if connection is None:
            rows: Sequence[Any] = await self._run(lambda c, _: _fetch_rules(c, asked))
        else:
            refuse_unstorable(requests, self.settings.max_payload_bytes)
            with translated():
                rows = await ask_on(connection, "definition_rules", asked)
        self._kinds.learn(kinds, [row[0] for row in rows])

    async def _run(
        self,
        work: Callable[[AsyncConnection[tuple[Any, ...]], bool], Awaitable[T]],
        patience: float | None = None,
    ) -> T:
        """Run the work on a pooled connection. After a lost connection it runs again, with True as its
        argument.
        """
        patience = RETRY_FOR if patience is None else min(patience, RETRY_FOR)
        give_up = time.monotonic() + patience
        tries = 0
        while True:
            try:
                pool = await self._connected()
                async with pool.connection(timeout=max(0.1, min(POOL_SECONDS, patience))) as connection:
                    with translated():
                        return await work(connection, tries > 0)
            except (DatabaseUnavailable, PoolTimeout, psycopg.OperationalError) as error:
                if time.monotonic() > give_up:
                    raise DatabaseUnavailable(f"cannot connect to Postgres: {error}") from error
                await asyncio.sleep(retry_pause(tries))
                tries += 1

    async def _connected(self) -> AsyncConnectionPool[AsyncConnection[tuple[Any, ...]]]:
        async with self._opening:
            if self._closed:
                raise ClientClosed("the client is closed; create a new one")
            if self._pool is None:
                self._url = await asyncio.to_thread(database_url, self.settings)
                self._pool = AsyncConnectionPool(
                    self._url,
                    min_size=0,
                    max_size=10,
                    open=False,
                    timeout=POOL_SECONDS,
                    **pool_options("client"),
                )
                await self._pool.open()
            return self._pool

    async def _watch_endings(self, patience: float | None) -> Endings:
        if self._endings is None:
            url: str | None = self.settings.direct_url
            if not url:
                pooled = await self._run(lambda c, _: behind_pooler(c), patience)
                url = None if pooled else self._url
            return self._endings_at(url)
        return self._endings

    def _endings_at(self, url: str | None) -> Endings:
        if self._endings is None:  # otherwise another waiter has created it meanwhile
            self._endings = Endings(url)
        return self._endings


async def _send(connection: AsyncConnection[tuple[Any, ...]], sending: Sending) -> Sequence[Receipt]:
    if sending.plain_one:
        await connection.execute(query("enqueue_one"), sending.fields())
        return sending.receipts()
    if not sending.copies:
        cursor = await connection.execute(query("enqueue_many"), (sending.parameter(),))
        return sending.receipts(await cursor.fetchall())
    async with connection.transaction():
        cursor = await connection.execute(query("bulk_start"), (sending.kinds,))
        direct, *known = await cursor.fetchone() or ()
        copier = Copier(*known)
        before, copying, after = ways_to_copy(direct=direct)
        for name in before:
            await connection.execute(query(name))
        async with cursor.copy(query(copying)) as copy:
            for block in sending.blocks(copier):
                await copy.write(block)
        for name in after:
            await connection.execute(query(name))
        for noted in copier.undefined:
            await connection.execute(query("undefined_note"), noted)
        if copier.queues:
            await connection.execute(query("open_lanes"), (copier.lanes,))
            await connection.execute(query("wake"), (copier.queues,))
        parameter = sending.parameter()
        if parameter is None:
            return sending.receipts()
        cursor = await connection.execute(query("enqueue_many"), (parameter,))
        return sending.receipts(await cursor.fetchall())


async def _fetch_rules(connection: AsyncConnection[tuple[Any, ...]], asked: str) -> list[tuple[Any, ...]]:
    cursor = await connection.execute(query("definition_rules"), (asked,))
    return await cursor.fetchall()


async def _erase(connection: AsyncConnection[tuple[Any, ...]], text: str) -> list[tuple[Any, ...]]:
    cursor = await connection.execute(query("erase"), (text,))
    return await cursor.fetchall()


async def _fetch_ending(connection: AsyncConnection[tuple[Any, ...]], job_id: UUID) -> tuple[Any, ...] | None:
    cursor = await connection.execute(query("job_ending"), (job_id,))
    return await cursor.fetchone()

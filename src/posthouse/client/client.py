"""Enqueue and wait, for code that runs in an event loop."""

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
from posthouse.client.handle import Handle, Handles, result_of
from posthouse.client.kinds import Kinds, refuse_unstorable
from posthouse.client.options import Options
from posthouse.core.duration import Duration, seconds
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
"""Seconds that an enqueue keeps trying while Postgres is away. Safe: the ids stay the same."""


class Client:
    """Enqueues jobs and waits for them. ``async with Client() as client:``, or close() it."""

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
        """Closes its connections. Whoever still waits for a job gets ClientClosed."""
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
        """Enqueue one job; on ``connection`` if given, in the transaction that is open there."""
        return await self.submit(Request(kind=kind, payload=payload or {}, **options), connection=connection)

    async def submit(self, request: Request, *, connection: Any = None) -> Handle:
        """Enqueue one job from its request."""
        return Handle(self, *only(await self._send([request], connection), request))

    async def enqueue_many(self, requests: Iterable[Request], *, connection: Any = None) -> Sequence[Handle]:
        """Enqueue many, all or none. Plain ones go by COPY. A rejected duplicate shows in its outcome."""
        return Handles(partial(Handle, self), await self._send(list(requests), connection))

    async def emit(
        self,
        name: str,
        context: Mapping[str, Any] | None = None,
        *,
        connection: Any = None,
        **options: Unpack[EventOptions],
    ) -> UUID:
        """Say that something happened: triggers make jobs of it. Returns the event's id.

        On ``connection`` if given, in the transaction that is open there: no commit, no event.
        """
        event_id, text = event_text(name, context, options, self.settings.max_payload_bytes)
        if connection is None:
            await self._run(lambda c, _: c.execute(query("emit"), (text,)))
        else:
            with translated():
                await ask_on(connection, "emit", text)
        return event_id

    async def wait(self, job_id: UUID, timeout: Duration | None = None) -> Any:
        """The result of a job, once it has succeeded. Raises JobFailed, JobNotFound or WaitTimeout."""
        limit = None if timeout is None else seconds(timeout)
        endings = await self._watch_endings(limit)
        deadline = None if limit is None else time.monotonic() + limit
        async with endings.of(job_id) as ended:
            while True:
                left = None if deadline is None else deadline - time.monotonic()
                row = await self._run(lambda c, _: _fetch_ending(c, job_id), patience=left)
                if row is None:
                    raise JobNotFound(f"there is no job {job_id}")
                if row[0] not in {"queued", "running"}:
                    return result_of(job_id, *row)
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    raise WaitTimeout(f"job {job_id} was still {row[0]} after {limit:g} s")
                await ended.pause(left)

    async def attach(self, job_id: UUID, path: Path, name: str | None = None, *, connection: Any) -> None:
        """Give a file to a job that was enqueued on this connection: see ``Handle.attach``."""
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
        """The requests after a look at the definitions of their kinds, which is taken every few seconds."""
        unknown = self._kinds.unknown(requests)
        if unknown:
            asked = json.dumps(unknown)
            if connection is None:
                rows: Sequence[Any] = await self._run(lambda c, _: _fetch_rules(c, asked))
            else:
                refuse_unstorable(requests, self.settings.max_payload_bytes)
                with translated():
                    rows = await ask_on(connection, "definition_rules", asked)
            self._kinds.learn(unknown, [row[0] for row in rows])
        return self._kinds.admitted(requests, self.settings.max_payload_bytes)

    async def _run(
        self,
        work: Callable[[AsyncConnection[tuple[Any, ...]], bool], Awaitable[T]],
        patience: float | None = None,
    ) -> T:
        """Does the work on a pooled connection, again with True after a lost connection."""
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
                    raise DatabaseUnavailable(f"Postgres cannot be reached: {error}") from error
                await asyncio.sleep(retry_pause(tries))
                tries += 1

    async def _connected(self) -> AsyncConnectionPool[AsyncConnection[tuple[Any, ...]]]:
        async with self._opening:
            if self._closed:
                raise ClientClosed("this client is closed; make a new one")
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
        if self._endings is None:  # else another waiter was quicker
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


async def _fetch_ending(connection: AsyncConnection[tuple[Any, ...]], job_id: UUID) -> tuple[Any, ...] | None:
    cursor = await connection.execute(query("job_ending"), (job_id,))
    return await cursor.fetchone()

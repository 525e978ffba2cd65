"""Enqueue jobs for requests. Concurrent requests share a transaction but fail independently."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple
from uuid import UUID

import psycopg
from psycopg_pool import PoolTimeout

from posthouse.client.enqueue import DefinitionCache, EnqueueBatch, EnqueueOutcome, duplicate_error
from posthouse.core.request import Request
from posthouse.errors import DatabaseUnavailable
from posthouse.server.http.auth import Pool
from posthouse.storage.definitions import require_defined
from posthouse.storage.errors import translate_errors
from posthouse.storage.queries import Db, query
from posthouse.tracing import traced
from posthouse.waiting import Backoff, off_loop

MAX_TRANSACTIONS = 2
"""Concurrent transactions per tenant. Requests that arrive meanwhile form the next batch."""
MAX_BATCH = 100
MAX_TRIES = 6


class Enqueued(NamedTuple):
    """The result of a request. ``queued_at`` is valid only for a job that was created now."""

    id: UUID
    outcome: EnqueueOutcome
    queued_at: datetime


@dataclass(slots=True)
class _Pending:
    """Requests of a tenant that wait for the next transaction."""

    requests: deque[tuple[Request, asyncio.Future[Enqueued]]] = field(default_factory=deque)
    transactions: int = 0


class Enqueuer:
    """The enqueuer of a server. Definitions are cached for some seconds, as in every client."""

    def __init__(self, pool: Pool, payload_limit: int) -> None:
        self._pool = pool
        self._limit = payload_limit
        self._definitions = DefinitionCache()
        self._pending: dict[str, _Pending] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def enqueue(self, tenant: str, request: Request, *, undefined: bool) -> Enqueued:
        """Enqueue in a transaction of its own or, for plain requests, shared with concurrent requests.

        ``undefined``: whether the caller may enqueue a kind that has no definition.
        """
        (valid,) = await self._validate([request], undefined=undefined)
        if not valid.plain:
            (done,) = await self._send(tenant, [valid])
            return raise_if_rejected(done, valid)
        pending = self._pending.setdefault(tenant, _Pending())
        future: asyncio.Future[Enqueued] = asyncio.get_running_loop().create_future()
        pending.requests.append((valid, future))
        if pending.transactions < MAX_TRANSACTIONS:
            pending.transactions += 1
            task = asyncio.create_task(self._drain(tenant, pending))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return await future

    async def enqueue_in(self, db: Db, requests: Sequence[Request], *, undefined: bool) -> list[Enqueued]:
        """Enqueue all requests, or none, in the transaction and for the tenant of the caller."""
        valid = await self._validate(requests, db, undefined=undefined)
        batch = EnqueueBatch(valid, self._limit)
        cursor = await db.execute(query("tenant_enqueue"), (await _jobs_json(batch),))
        return _in_order(await cursor.fetchall())

    async def _validate(
        self, requests: Sequence[Request], db: Db | None = None, *, undefined: bool
    ) -> Sequence[Request]:
        """Validate requests against their definitions. Uses ``db`` if given, not a second connection."""
        kinds = {request.kind for request in requests}
        unknown = self._definitions.stale(kinds)
        if not undefined:  # absence is not cached: the definition may exist by now
            unknown += [
                item.kind for item in self._definitions.undefined(requests) if item.kind not in unknown
            ]
        if unknown and db is not None:
            await self._learn(db, unknown, undefined=undefined)
        elif unknown:
            async with self._pool.connection() as connection:
                with translate_errors():
                    await self._learn(connection, unknown, undefined=undefined)
        payloads = [request.payload for request in requests]
        valid = await off_loop(self._definitions.apply, kinds, requests, self._limit, data=payloads)
        return [traced(request) for request in valid]

    async def _learn(self, db: Db, kinds: list[str], *, undefined: bool) -> None:
        if not undefined:
            await require_defined(db, kinds)
        cursor = await db.execute(query("definitions_by_kind"), (json.dumps(kinds),))
        self._definitions.update(kinds, await cursor.fetchall())

    async def _drain(self, tenant: str, pending: _Pending) -> None:
        """Send batches until no request is waiting."""
        try:
            while pending.requests:
                batch = [pending.requests.popleft() for _ in range(min(len(pending.requests), MAX_BATCH))]
                await self._send_batch(tenant, batch)
        finally:
            pending.transactions -= 1
            if not pending.transactions and not pending.requests:
                self._pending.pop(tenant, None)

    async def _send_batch(self, tenant: str, batch: list[tuple[Request, asyncio.Future[Enqueued]]]) -> None:
        try:
            done = await self._send(tenant, [request for request, _ in batch])
        except BaseException as error:  # noqa: BLE001 - passed on to the waiting requests
            if len(batch) > 1 and not isinstance(error, DatabaseUnavailable | asyncio.CancelledError):
                for alone in batch:  # send each one alone to find the rejected one
                    await self._send_batch(tenant, [alone])
                return
            for _, future in batch:
                if not future.done():
                    future.set_exception(error)
            return
        for (_, future), found in zip(batch, done, strict=True):
            if not future.done():  # the future of a canceled request is already done
                future.set_result(found)

    async def _send(self, tenant: str, requests: Sequence[Request]) -> list[Enqueued]:
        """Send requests, and retry after a lost connection.

        The ids stay the same, so a retry creates no duplicates.
        """
        batch, backoff = EnqueueBatch(requests, self._limit), Backoff()
        for tries in range(MAX_TRIES):
            jobs_json = await _jobs_json(batch, is_retry=tries > 0)
            try:
                async with self._pool.connection() as connection:
                    with translate_errors():
                        cursor = await connection.execute(query("enqueue_for"), (tenant, jobs_json))
                        return _in_order(await cursor.fetchall())
            except (DatabaseUnavailable, PoolTimeout, psycopg.OperationalError) as error:
                lost = error
            await asyncio.sleep(backoff.next())
        raise DatabaseUnavailable(f"cannot connect to Postgres after {MAX_TRIES} attempts: {lost}") from lost


async def _jobs_json(batch: EnqueueBatch, *, is_retry: bool = False) -> str:
    payloads = [request.payload for request in batch.requests]
    return await off_loop(partial(batch.jobs_json, is_retry=is_retry), data=payloads)


def raise_if_rejected(done: Enqueued, request: Request) -> Enqueued:
    if done.outcome == "rejected":
        raise duplicate_error(request, done.id)
    return done


def _in_order(rows: Sequence[Sequence[Any]]) -> list[Enqueued]:
    return [Enqueued(*row[1:]) for row in sorted(rows, key=lambda row: row[0])]

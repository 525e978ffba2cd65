"""Enqueues jobs for requests. Concurrent requests share a transaction but fail independently."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

import psycopg
from psycopg_pool import PoolTimeout

from posthouse.client.batch import Batch, Outcome, Sending
from posthouse.client.kinds import Kinds
from posthouse.core.request import Request
from posthouse.errors import DatabaseUnavailable, DuplicateJob
from posthouse.heavy import off_loop
from posthouse.server.http.auth import Pool
from posthouse.storage.connect import retry_pause
from posthouse.storage.definitions import refuse_undefined
from posthouse.storage.errors import translated
from posthouse.storage.queries import Db, query
from posthouse.tracing import traced

FLIGHTS = 2
"""Concurrent transactions per tenant. Requests that arrive meanwhile form the next batch."""
MOST_TOGETHER = 100
TRIES = 6


class Enqueued(NamedTuple):
    """The result of a request. ``queued_at`` is valid for a job that was created now."""

    id: UUID
    outcome: Outcome
    queued_at: datetime


@dataclass(slots=True)
class _Line:
    """Requests of a tenant that wait for the next transaction."""

    waiting: deque[tuple[Request, asyncio.Future[Enqueued]]] = field(default_factory=deque)
    flights: int = 0


class Enqueuer:
    """The enqueuer of a server. Its definitions are cached for some seconds, as in every client."""

    def __init__(self, pool: Pool, payload_limit: int) -> None:
        self._pool = pool
        self._limit = payload_limit
        self._kinds = Kinds()
        self._lines: dict[str, _Line] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def enqueue(self, tenant: str, request: Request, *, undefined: bool) -> Enqueued:
        """Enqueue in a transaction of its own or, for plain requests, shared with concurrent requests.

        ``undefined``: whether the caller may enqueue a kind that has no definition.
        """
        (admitted,) = await self._admitted([request], undefined=undefined)
        if not admitted.plain:
            (done,) = await self._send(tenant, [admitted])
            return refuse_rejected(done, admitted)
        line = self._lines.setdefault(tenant, _Line())
        future: asyncio.Future[Enqueued] = asyncio.get_running_loop().create_future()
        line.waiting.append((admitted, future))
        if line.flights < FLIGHTS:
            line.flights += 1
            task = asyncio.create_task(self._fly(tenant, line))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return await future

    async def enqueue_in(self, db: Db, requests: Sequence[Request], *, undefined: bool) -> list[Enqueued]:
        """Enqueue all requests, or none, in the transaction and for the tenant of the caller."""
        admitted = await self._admitted(requests, db, undefined=undefined)
        sending = Batch(admitted, self._limit).for_engine()
        cursor = await db.execute(query("tenant_enqueue"), (await _parameter(sending, admitted),))
        return _in_order(await cursor.fetchall())

    async def _admitted(
        self, requests: Sequence[Request], db: Db | None = None, *, undefined: bool
    ) -> Sequence[Request]:
        """Validate requests against their definitions. Uses ``db`` if given, not a second connection."""
        unknown = self._kinds.unknown(requests)
        if not undefined:  # asked again each time: the definition may have been created since
            unknown += [item.kind for item in self._kinds.undefined(requests) if item.kind not in unknown]
        if unknown and db is not None:
            await self._learn(db, unknown, undefined=undefined)
        elif unknown:
            async with self._pool.connection() as connection:
                with translated():
                    await self._learn(connection, unknown, undefined=undefined)
        payloads = [request.payload for request in requests]
        admitted = await off_loop(self._kinds.admitted, requests, self._limit, about=payloads)
        return [traced(request) for request in admitted]

    async def _learn(self, db: Db, kinds: list[str], *, undefined: bool) -> None:
        if not undefined:
            await refuse_undefined(db, kinds)
        cursor = await db.execute(query("definition_rules"), (json.dumps(kinds),))
        self._kinds.learn(kinds, [row[0] for row in await cursor.fetchall()])

    async def _fly(self, tenant: str, line: _Line) -> None:
        """Send batches until no request waits."""
        try:
            while line.waiting:
                together = [line.waiting.popleft() for _ in range(min(len(line.waiting), MOST_TOGETHER))]
                await self._land(tenant, together)
        finally:
            line.flights -= 1
            if not line.flights and not line.waiting:
                self._lines.pop(tenant, None)

    async def _land(self, tenant: str, together: list[tuple[Request, asyncio.Future[Enqueued]]]) -> None:
        try:
            done = await self._send(tenant, [request for request, _ in together])
        except BaseException as error:  # noqa: BLE001 - passed on to the waiting requests
            if len(together) > 1 and not isinstance(error, DatabaseUnavailable | asyncio.CancelledError):
                for alone in together:  # send each alone to find the rejected one
                    await self._land(tenant, [alone])
                return
            for _, future in together:
                if not future.done():
                    future.set_exception(error)
            return
        for (_, future), found in zip(together, done, strict=True):
            if not future.done():  # canceled requests no longer wait
                future.set_result(found)

    async def _send(self, tenant: str, requests: Sequence[Request]) -> list[Enqueued]:
        """Send, and retry after a lost connection. The ids stay the same, so retrying adds no duplicates."""
        batch = Batch(requests, self._limit)
        for tries in range(TRIES):
            parameter = await _parameter(batch.for_engine(again=tries > 0), requests)
            try:
                async with self._pool.connection() as connection:
                    with translated():
                        cursor = await connection.execute(query("enqueue_for"), (tenant, parameter))
                        return _in_order(await cursor.fetchall())
            except (DatabaseUnavailable, PoolTimeout, psycopg.OperationalError) as error:
                lost = error
            await asyncio.sleep(retry_pause(tries))
        raise DatabaseUnavailable(f"cannot connect to Postgres after {TRIES} attempts: {lost}") from lost


async def _parameter(sending: Sending, requests: Sequence[Request]) -> str:
    return await off_loop(sending.parameter, about=[request.payload for request in requests]) or "[]"


def refuse_rejected(done: Enqueued, request: Request) -> Enqueued:
    if done.outcome == "rejected":
        key = f"dedupe key {request.dedupe_key!r}" if request.dedupe_key else "payload as dedupe key"
        raise DuplicateJob(f"duplicate job: job {done.id} already has the same {key}")
    return done


def _in_order(rows: Sequence[Sequence[Any]]) -> list[Enqueued]:
    return [Enqueued(*row[1:]) for row in sorted(rows, key=lambda row: row[0])]

"""Enqueues for requests. Those that arrive together share a transaction; none fails for another's sake."""

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

from posthouse.client.batch import Batch, Outcome
from posthouse.client.kinds import Kinds
from posthouse.core.request import Request
from posthouse.errors import DatabaseUnavailable, DuplicateJob
from posthouse.server.access import Pool
from posthouse.storage.connect import retry_pause
from posthouse.storage.errors import translated
from posthouse.storage.queries import query
from posthouse.storage.reading import Db
from posthouse.tracing import traced

FLIGHTS = 2
"""Transactions of one tenant at a time. While they are under way the next requests gather."""
MOST_TOGETHER = 100
TRIES = 6


class Enqueued(NamedTuple):
    """What became of a request. ``queued_at`` is that of a job that was created now."""

    id: UUID
    outcome: Outcome
    queued_at: datetime


@dataclass(slots=True)
class _Line:
    """The plain requests of a tenant that wait for the next transaction."""

    waiting: deque[tuple[Request, asyncio.Future[Enqueued]]] = field(default_factory=deque)
    flights: int = 0


class Enqueuer:
    """One for a server. What it knows of kinds is some seconds old, as in every client."""

    def __init__(self, pool: Pool, payload_limit: int) -> None:
        self._pool = pool
        self._limit = payload_limit
        self._kinds = Kinds()
        self._lines: dict[str, _Line] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def enqueue(self, tenant: str, request: Request) -> Enqueued:
        """Alone or, if nothing can make it wait, in one transaction with those that come at the same time."""
        (admitted,) = await self._admitted([request])
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

    async def enqueue_in(self, db: Db, requests: Sequence[Request]) -> list[Enqueued]:
        """In the caller's transaction and for its tenant, all or none."""
        admitted = await self._admitted(requests, db)
        sending = Batch(admitted, self._limit).for_engine()
        cursor = await db.execute(query("tenant_enqueue"), (sending.parameter() or "[]",))
        return _in_order(await cursor.fetchall())

    async def _admitted(self, requests: Sequence[Request], db: Db | None = None) -> Sequence[Request]:
        """After a look at their definitions; on ``db``, if given: who holds a connection takes no second."""
        unknown = self._kinds.unknown(requests)
        if unknown and db is not None:
            await self._learn(db, unknown)
        elif unknown:
            async with self._pool.connection() as connection:
                with translated():
                    await self._learn(connection, unknown)
        return [traced(request) for request in self._kinds.admitted(requests, self._limit)]

    async def _learn(self, db: Db, kinds: list[str]) -> None:
        cursor = await db.execute(query("definition_rules"), (json.dumps(kinds),))
        self._kinds.learn(kinds, [row[0] for row in await cursor.fetchall()])

    async def _fly(self, tenant: str, line: _Line) -> None:
        """Takes what waits, again and again, until nothing does."""
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
        except BaseException as error:  # noqa: BLE001 - whoever waits is told
            if len(together) > 1 and not isinstance(error, DatabaseUnavailable | asyncio.CancelledError):
                for alone in together:  # one of them was refused: which one?
                    await self._land(tenant, [alone])
                return
            for _, future in together:
                if not future.done():
                    future.set_exception(error)
            return
        for (_, future), found in zip(together, done, strict=True):
            if not future.done():  # else nobody waits any more
                future.set_result(found)

    async def _send(self, tenant: str, requests: Sequence[Request]) -> list[Enqueued]:
        """Again after a lost connection: the ids stay the same, so that it is one job however often."""
        batch = Batch(requests, self._limit)
        for tries in range(TRIES):
            sending = batch.for_engine(again=tries > 0)
            try:
                async with self._pool.connection() as connection:
                    with translated():
                        cursor = await connection.execute(
                            query("enqueue_for"), (tenant, sending.parameter() or "[]")
                        )
                        return _in_order(await cursor.fetchall())
            except (DatabaseUnavailable, PoolTimeout, psycopg.OperationalError) as error:
                lost = error
            await asyncio.sleep(retry_pause(tries))
        raise DatabaseUnavailable(f"Postgres cannot be reached: {lost}") from lost


def refuse_rejected(done: Enqueued, request: Request) -> Enqueued:
    if done.outcome == "rejected":
        key = repr(request.dedupe_key) if request.dedupe_key else "for this content"
        raise DuplicateJob(f"dedupe key {key} is taken by job {done.id}")
    return done


def _in_order(rows: Sequence[Sequence[Any]]) -> list[Enqueued]:
    return [Enqueued(*row[1:]) for row in sorted(rows, key=lambda row: row[0])]

"""The remote workers of this server: who they are, and what is done for them in the database.

A key says which tenant and which queues its workers serve. A worker is bound to the key that registered it,
and what the key is good for stands in the worker's row, where the claim itself reads it.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar
from uuid import UUID

import psycopg
from psycopg import AsyncConnection

from posthouse.errors import Forbidden, LeaseLost, Refused, WorkerNotFound
from posthouse.identity import Principal
from posthouse.server.access import Access, Pool
from posthouse.storage.errors import explain
from posthouse.storage.leases import Claim, Leases
from posthouse.storage.notebook import Notebook
from posthouse.storage.queries import query
from posthouse.storage.reading import fetch_rows

T = TypeVar("T")
KNOWN_SECONDS = 10.0
UNSTORABLE = (psycopg.DataError, psycopg.IntegrityError, psycopg.errors.CardinalityViolation)
MOST_KNOWN = 10_000


class Borrowed:
    """Does each piece of work in a transaction on a connection of the server's pool."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def run(self, work: Callable[[AsyncConnection[tuple[Any, ...]]], Awaitable[T]]) -> T:
        with refused_if_unstorable():
            async with self._pool.connection() as connection, connection.transaction():
                return await work(connection)

    async def close(self) -> None:
        """They are the pool's."""


@contextmanager
def refused_if_unstorable() -> Iterator[None]:
    """What the database will never take is the caller's to drop, not to send again."""
    try:
        yield
    except psycopg.OperationalError:
        raise
    except psycopg.Error as error:
        ours = explain(error)
        if ours is None and not isinstance(error, UNSTORABLE):
            raise
        raise ours or Refused(str(error).partition("\n")[0]) from error


class Staff:
    def __init__(self, pool: Pool) -> None:
        self.line = Borrowed(pool)
        self._pool = pool
        self.library = Leases.over(self.line, UUID(int=0), 30.0)
        """For what concerns no worker in particular."""
        self._known: dict[tuple[str, UUID], float] = {}

    def leases(self, worker_id: UUID, lease_seconds: float) -> Leases:
        return Leases.over(self.line, worker_id, lease_seconds)

    def notebook(self, lease_seconds: float) -> Notebook:
        return Notebook.over(self.line, lease_seconds)

    async def demand(self, access: Access, worker_id: UUID) -> None:
        """Refuses to speak for a worker of another key, or for none."""
        known = (access.actor, worker_id)
        if self._known.get(known, 0) > time.monotonic():
            return
        async with self._pool.connection() as connection:
            await self._check(connection, access.actor, worker_id)
        if len(self._known) > MOST_KNOWN:
            self._known.clear()
        self._known[known] = time.monotonic() + KNOWN_SECONDS

    async def _check(self, connection: AsyncConnection[Any], key: str, worker_id: UUID) -> None:
        found = await fetch_rows(connection, "worker_key", id=worker_id)
        if not found:
            raise WorkerNotFound(f"there is no worker {worker_id}: register it first")
        if found[0]["key"] != key:
            raise Forbidden(f"{worker_id} is not a worker of this key")

    async def claim(
        self, access: Access, worker_id: UUID, lease_seconds: float, token: UUID, wanted: Mapping[str, Any]
    ) -> Claim:
        """In one transaction with the look at who asks: the row that limits the claim is surely there."""
        async with self._pool.connection() as connection, connection.transaction():
            await self._check(connection, access.actor, worker_id)
            leases = Leases.over(_Here(connection), worker_id, lease_seconds)
            return await leases.claim(**wanted, token=token)

    async def recover(self, worker_id: UUID, lease_seconds: float, tokens: Sequence[UUID]) -> list[Claim]:
        """What claims took whose answers were not heard, with leases that start now."""
        leases = self.leases(worker_id, lease_seconds)
        found = []
        for token in tokens:
            claim = await leases.claimed(token)
            if not claim.rows:
                continue
            ids = [UUID(bytes=row[0]) for row in claim.rows]
            gone = await self.beat(worker_id, ids, [token] * len(ids), lease_seconds)
            rows = [row for row in claim.rows if gone.get(UUID(bytes=row[0])) != "lost"]
            found.append(Claim(token, rows, claim.asked_at))
        return found

    async def beat(
        self, worker_id: UUID, ids: Sequence[UUID], tokens: Sequence[UUID], lease_seconds: float
    ) -> dict[UUID, str]:
        """Renews leases; returns what the worker must know of, by id: its own for a drain."""
        async with self._pool.connection() as connection:
            cursor = await connection.execute(
                query("heartbeat"), (worker_id, list(ids), list(tokens), lease_seconds)
            )
            return {UUID(bytes=row[0]): row[1] for row in await cursor.fetchall()}

    async def held(self, access: Access, job_id: UUID, token: UUID) -> dict[str, Any]:
        """The attempt that somebody with this key and token works at. Raises LeaseLost if there is none."""
        async with self._pool.connection() as connection:
            found = await fetch_rows(connection, "attempt_held", id=job_id, token=token, key=access.actor)
        if not found:
            raise LeaseLost(f"job {job_id} is not, or no longer, with the worker that has this token")
        return found[0]

    async def worker_of(self, principal: Principal) -> dict[str, Any] | None:
        """The worker that was registered last with a key, for callers who do not say which they are."""
        async with self._pool.connection() as connection:
            found = await fetch_rows(connection, "worker_of_key", key=principal.name)
        return found[0] if found else None

    async def token_of(self, access: Access, job_id: UUID) -> UUID:
        """Of the lease that a worker of this key has, for callers who keep no tokens."""
        async with self._pool.connection() as connection:
            found = await fetch_rows(connection, "lease_of_key", id=job_id, key=access.actor)
        if not found:
            raise LeaseLost(f"job {job_id} is not, or no longer, with a worker of this key")
        token: UUID = found[0]["token"]
        return token

    async def known_kinds(self) -> list[str]:
        async with self._pool.connection() as connection:
            return [row["key"] for row in await fetch_rows(connection, "kinds_known")]


class _Here:
    """Does the work on one connection, in the transaction that is open there."""

    def __init__(self, connection: AsyncConnection[tuple[Any, ...]]) -> None:
        self._connection = connection

    async def run(self, work: Callable[[AsyncConnection[tuple[Any, ...]]], Awaitable[T]]) -> T:
        return await work(self._connection)

    async def close(self) -> None:
        """It is somebody else's."""

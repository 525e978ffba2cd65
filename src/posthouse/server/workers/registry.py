"""The remote workers of this server and their access to the database.

A key determines the tenant and the queues that its workers serve. A worker is bound to the key that
registered it; the restrictions of the key are stored in the worker's row, where the claim reads them.
"""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar
from uuid import UUID, uuid4

import psycopg
from psycopg import AsyncConnection

from posthouse.core.capabilities import capability_words, checked_facts, checked_worker_name
from posthouse.core.trigger import validate_trigger
from posthouse.definitions import validate_fields
from posthouse.errors import Forbidden, InvalidDefinition, LeaseLost, RequestRejected, WorkerNotFound
from posthouse.identity import Principal, Role, issue_key, prefix_of
from posthouse.server.http.auth import Access, Pool
from posthouse.server.schemas.workers import LeaseRef, Registration
from posthouse.storage.attempts import PostgresAttemptStore
from posthouse.storage.errors import to_posthouse_error
from posthouse.storage.leases import Claim, ClaimOptions, Leases
from posthouse.storage.queries import fetch_rows, query

T = TypeVar("T")
KNOWN_SECONDS = 10.0
INVALID_DATA = (psycopg.DataError, psycopg.IntegrityError, psycopg.errors.CardinalityViolation)
MAX_KNOWN = 10_000


class PooledRunner:
    """A runner that does each piece of work in a transaction on a connection of the pool."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def run(self, work: Callable[[AsyncConnection[tuple[Any, ...]]], Awaitable[T]]) -> T:
        with reject_invalid_data():
            async with self._pool.connection() as connection, connection.transaction():
                return await work(connection)

    async def close(self) -> None:
        """Do nothing: the pool owns the connections."""


@contextmanager
def reject_invalid_data() -> Iterator[None]:
    """Raise RequestRejected for data that the database can never store, so that the caller does not retry."""
    try:
        yield
    except psycopg.OperationalError:
        raise
    except psycopg.Error as error:
        ours = to_posthouse_error(error)
        if ours is None and not isinstance(error, INVALID_DATA):
            raise
        raise ours or RequestRejected(str(error).partition("\n")[0]) from error


class RemoteWorkers:
    def __init__(self, pool: Pool) -> None:
        self.connections = PooledRunner(pool)
        self._pool = pool
        self.shared_leases = Leases.over(self.connections, UUID(int=0), 30.0)
        """Leases for operations that do not concern one worker."""
        self._known: dict[tuple[str, UUID], float] = {}

    def leases(self, worker_id: UUID, lease_seconds: float) -> Leases:
        return Leases.over(self.connections, worker_id, lease_seconds)

    def attempts(self, lease_seconds: float) -> PostgresAttemptStore:
        return PostgresAttemptStore.over(self.connections, lease_seconds)

    async def check_owner(self, access: Access, worker_id: UUID) -> None:
        """Raise unless the worker exists and was registered with the key of the caller."""
        known = (access.actor, worker_id)
        if self._known.get(known, 0) > time.monotonic():
            return
        async with self._pool.connection() as connection:
            await self._check(connection, access.actor, worker_id)
        if len(self._known) > MAX_KNOWN:
            self._known.clear()
        self._known[known] = time.monotonic() + KNOWN_SECONDS

    async def _check(self, connection: AsyncConnection[Any], key: str, worker_id: UUID) -> None:
        found = await fetch_rows(connection, "worker_key", id=worker_id)
        if not found:
            raise WorkerNotFound(
                f"worker {worker_id} does not exist; register it with POST /api/v1/worker/register"
            )
        if found[0]["key"] != key:
            raise Forbidden(f"worker {worker_id} was registered with another key; use that key")

    async def claim(
        self, access: Access, worker_id: UUID, lease_seconds: float, token: UUID, options: ClaimOptions
    ) -> Claim:
        """Claim jobs in the transaction that checks the worker, so that its row exists for the claim."""
        async with self._pool.connection() as connection, connection.transaction():
            await self._check(connection, access.actor, worker_id)
            leases = Leases.over(_TransactionRunner(connection), worker_id, lease_seconds)
            return await leases.claim(options, token)

    async def recover_claims(
        self, worker_id: UUID, lease_seconds: float, tokens: Sequence[UUID]
    ) -> list[Claim]:
        """Return the jobs of claims whose response was lost, with renewed leases."""
        leases = self.leases(worker_id, lease_seconds)
        found = []
        for token in tokens:
            claim = await leases.claimed(token)
            if not claim.rows:
                continue
            ids = [UUID(bytes=row.id) for row in claim.rows]
            gone = await self.beat(worker_id, ids, [token] * len(ids), lease_seconds)
            rows = [row for row in claim.rows if gone.get(UUID(bytes=row.id)) != "lost"]
            found.append(Claim(token, rows, claim.asked_at))
        return found

    async def renew(
        self, access: Access, worker_id: UUID, held: Sequence[LeaseRef], lease_seconds: float
    ) -> dict[UUID, str]:
        """Renew the leases that a worker reports.

        Leases that belong to workers with another key are reported as lost.
        """
        ids, tokens = [job["id"] for job in held], [job["token"] for job in held]
        others = await self.leased_by_others(access, ids, tokens)
        own = [job for job in held if job["id"] not in others]
        verdicts = await self.beat(
            worker_id, [job["id"] for job in own], [job["token"] for job in own], lease_seconds
        )
        return verdicts | dict.fromkeys(others, "lost")

    async def beat(
        self, worker_id: UUID, ids: Sequence[UUID], tokens: Sequence[UUID], lease_seconds: float
    ) -> dict[UUID, str]:
        """Renew leases. Return a verdict by job id, and one under the id of the worker if it must drain."""
        async with self._pool.connection() as connection:
            cursor = await connection.execute(
                query("heartbeat"), (worker_id, list(ids), list(tokens), lease_seconds)
            )
            return {UUID(bytes=row[0]): row[1] for row in await cursor.fetchall()}

    async def get_attempt(self, access: Access, job_id: UUID, token: UUID) -> dict[str, Any]:
        """Return the running attempt with this key and token. Raises LeaseLost if there is none."""
        async with self._pool.connection() as connection:
            found = await fetch_rows(connection, "attempt_by_token", id=job_id, token=token, key=access.actor)
        if not found:
            raise LeaseLost(f"lease lost: this token does not own job {job_id}; discard the job")
        return found[0]

    async def leased_by_others(
        self, access: Access, ids: Sequence[UUID], tokens: Sequence[UUID]
    ) -> set[UUID]:
        """Return the jobs that run under one of these tokens for a worker with another key.

        A token belongs to one claim, so the result cannot change between the check and the write.
        """
        if not ids:
            return set()
        ask = {"ids": list(ids), "tokens": list(tokens), "key": access.actor}
        async with self._pool.connection() as connection:
            return {row["id"] for row in await fetch_rows(connection, "leases_of_others", **ask)}

    async def latest_worker(self, principal: Principal) -> dict[str, Any] | None:
        """Return the worker last registered with a key, for callers that send no worker id."""
        async with self._pool.connection() as connection:
            found = await fetch_rows(connection, "worker_latest_by_key", key=principal.name)
        return found[0] if found else None

    async def lease_token(self, access: Access, job_id: UUID) -> UUID:
        """Return the token of the lease held by a worker of this key, for callers that store no tokens."""
        async with self._pool.connection() as connection:
            found = await fetch_rows(connection, "lease_by_key", id=job_id, key=access.actor)
        if not found:
            raise LeaseLost(f"lease lost: no worker of this key owns job {job_id}; discard the job")
        token: UUID = found[0]["token"]
        return token

    async def known_kinds(self) -> list[str]:
        async with self._pool.connection() as connection:
            return [row["key"] for row in await fetch_rows(connection, "definitions_active_kinds")]


class _TransactionRunner:
    """A runner that does work on one connection, in its open transaction."""

    def __init__(self, connection: AsyncConnection[tuple[Any, ...]]) -> None:
        self._connection = connection

    async def run(self, work: Callable[[AsyncConnection[tuple[Any, ...]]], Awaitable[T]]) -> T:
        return await work(self._connection)

    async def close(self) -> None:
        """Do nothing: the caller owns the connection."""


@dataclass(frozen=True, slots=True)
class Registered:
    """The result of a registration.

    ``announced``: the kinds whose definitions were stored. ``left_out``: the others, with the reason.
    """

    worker_id: UUID
    name: str
    announced: list[str]
    left_out: dict[str, str] = field(default_factory=dict)
    api_key: str | None = None


async def register(workers: RemoteWorkers, access: Access, body: Registration) -> Registered:
    """Register a worker that has its own key. The database decides what the key may announce."""
    principal = access.principal
    worker_id = body.worker_id or uuid4()
    queues = None if principal.queues is None else list(principal.queues)
    row = _row(body, principal.name, worker_id, principal.tenant, queues)
    definitions = [_definition(item) for item in body.definitions]
    left_out = await workers.leases(worker_id, 30.0).register(
        row,
        definitions,
        body.limits,
        [_trigger(item) for item in body.triggers],
        key=principal.key,
    )
    announced = {item["key"] for item in definitions} - set(left_out)
    return Registered(worker_id, row["name"], sorted(announced), left_out)


async def register_with_new_key(workers: RemoteWorkers, access: Access, body: Registration) -> Registered:
    """Create a worker and its key, for an admin. The key is shown in the answer and never again."""
    worker_id = body.worker_id or uuid4()
    name = checked_worker_name(body.name) or str(worker_id)

    async def issued(connection: Any) -> str:
        return await issue_key(
            connection,
            name,
            Role.WORKER,
            tenant=body.tenant,
            queues=body.queues or None,
            may_announce=body.may_announce,
            actor=access.actor,
            limit=access.authenticator.settings.keys_per_tenant,
        )

    text = await workers.connections.run(issued)
    row = _row(body, f"key:{prefix_of(text)}", worker_id, body.tenant, body.queues or None)
    await workers.leases(worker_id, 30.0).register(row, [], key=prefix_of(text))
    return Registered(worker_id, row["name"], [], api_key=text)


def _definition(announced: Mapping[str, Any]) -> dict[str, Any]:
    """Return an announced definition, checked by the rules for definitions that operators write."""
    key = announced.get("key")
    if not isinstance(key, str) or not key:
        raise InvalidDefinition("definitions: each one needs a key")
    return {
        "key": key,
        **validate_fields({name: value for name, value in announced.items() if name != "key"}),
    }


def _trigger(announced: Mapping[str, Any]) -> dict[str, Any]:
    named = {name: announced.get(name) for name in ("tenant_id", "name", "type")}
    fields = {name: value for name, value in announced.items() if name not in named}
    return {**validate_trigger(fields, str(named["type"])), **named}


def _row(
    body: Registration, key: str, worker_id: UUID, tenant: str | None, queues: list[str] | None
) -> dict[str, Any]:
    checked_facts(json.dumps(body.metadata))
    checked_facts(json.dumps(body.capability_details))
    return {
        "name": checked_worker_name(body.name) or f"{body.hostname or worker_id}:{body.pid}",
        "hostname": body.hostname,
        "pid": body.pid,
        "version": body.version,
        "code": body.code,
        "queues": body.queues if queues is None else [name for name in body.queues if name in queues],
        "kinds": body.kinds,
        "concurrency": body.concurrency,
        "capability_details": body.capability_details,
        "capabilities": capability_words(",".join(body.capabilities)),
        "metadata": {**body.metadata, "remote": True},
        "heartbeat_seconds": body.heartbeat_seconds,
        "lease_seconds": body.lease_seconds,
        "key": key,
        "only_tenant": tenant,
        "only_queues": queues,
    }

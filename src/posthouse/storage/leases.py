"""The statements of a worker: claim, report, renew. Each write is guarded by the lease token."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, Self
from uuid import UUID, uuid4

import psycopg
from psycopg import AsyncConnection, Connection

from posthouse.core.payload import encode_result
from posthouse.errors import Forbidden
from posthouse.settings import offline_default
from posthouse.storage.claimed import ClaimedJob
from posthouse.storage.connections import ConnectionRunner, ReconnectingConnection, connect_sync
from posthouse.storage.errors import to_posthouse_error
from posthouse.storage.queries import calling, query
from posthouse.waiting import until_readable

ERROR_LIMIT = 64_000


class Success(NamedTuple):
    id: str
    token: str
    result: str | None
    followups: str | None = None
    output: str | None = None


class Settlement(NamedTuple):
    id: str
    token: str
    event: str
    outcome: str
    delay: float | None
    error: Mapping[str, Any] | None
    output: str | None = None


class ReadyBatch(NamedTuple):
    """The ready jobs of a batch kind: how many, at most one batch, and the position of the newest."""

    kind: str
    jobs: int
    newest: int


class ClaimOptions(NamedTuple):
    """Which jobs to claim: up to ``limit``, or none if fewer than ``min_jobs`` can start.

    - ``lane_cursors``: the position in each known lane after which to read.
    - ``allow_suspect``: whether one of the jobs may be a suspect.
    - ``tenant_usage``: how many jobs the worker has lately given to each tenant, divided by its weight.
    - ``preference_wait``: seconds for which jobs wait for a worker that they prefer.
    """

    queues: Sequence[str]
    kinds: Sequence[str]
    limit: int
    lane_cursors: Mapping[int, int]
    allow_suspect: bool = True
    capabilities: Sequence[str] = ()
    tenant_usage: Mapping[str, float] | None = None
    preference_wait: float = 20.0
    min_jobs: int = 0


@dataclass(frozen=True, slots=True)
class Claim:
    token: UUID
    rows: list[ClaimedJob]
    asked_at: float  # on the monotonic clock: the leases are at least that old
    recovered: tuple[Claim, ...] = ()  # jobs of earlier claims whose replies were lost

    @property
    def size(self) -> int:
        """The number of jobs, with those of recovered claims."""
        return len(self.rows) + sum(len(claim.rows) for claim in self.recovered)


class Leases:
    """Claims on one connection and reports on another, so that neither waits for the other.

    ``direct_url`` bypasses a pooler: a session on that connection holds the wakeup requests.
    """

    def __init__(self, url: str, worker_id: UUID, lease_seconds: float, direct_url: str = "") -> None:
        self.worker_id = worker_id
        self.lease_seconds = lease_seconds
        self.grace_seconds = 0.0
        self._claims: ConnectionRunner = ReconnectingConnection(url, "claims")
        self._reports: ConnectionRunner = ReconnectingConnection(url, "reports")
        self._wakeups: ConnectionRunner = (
            ReconnectingConnection(direct_url, "wakeups") if direct_url not in {"", url} else self._claims
        )
        self._wakeups_on: AsyncConnection[tuple[Any, ...]] | None = None
        self._asked: tuple[UUID, float] | None = None

    @classmethod
    def over(cls, connections: ConnectionRunner, worker_id: UUID, lease_seconds: float) -> Self:
        """Return leases for a remote worker, on connections that the server shares."""
        leases = cls("", worker_id, lease_seconds)
        leases._claims = leases._reports = leases._wakeups = connections
        return leases

    async def close(self) -> None:
        await self._claims.close()
        await self._reports.close()
        await self._wakeups.close()

    async def backend_pids(self) -> list[int]:
        """The backend pids of the two connections."""
        own = [each for each in (self._claims, self._reports) if isinstance(each, ReconnectingConnection)]
        return [(await each.connection()).info.backend_pid for each in own]

    async def claim(self, options: ClaimOptions, token: UUID | None = None) -> Claim:
        """Claim jobs. After a lost connection, the next call returns the jobs that the lost call claimed."""
        asked, self._asked = self._asked, None
        if asked is not None:
            taken = await self._fetch(query("claimed"), {"token": asked[0], "worker": self.worker_id}, *asked)
            if taken.rows:
                return taken
        token = token or uuid4()
        parameters = {
            "worker": self.worker_id,
            "token": token,
            "queues": _text_array(options.queues),
            "kinds": _text_array(options.kinds),
            "limit": options.limit,
            "lease": self.lease_seconds,
            "lanes": _array(map(str, options.lane_cursors)),
            "lane_cursors": _array(map(str, options.lane_cursors.values())),
            "allow_suspect": options.allow_suspect,
            "capabilities": _text_array(options.capabilities),
            "tenants": _text_array(options.tenant_usage or ()),
            "tenant_usage": _array(map(str, (options.tenant_usage or {}).values())),
            "preference_wait": options.preference_wait,
            "min_jobs": options.min_jobs,
        }
        return await self._fetch(query("claim"), parameters, token, time.monotonic())

    async def ready_batches(
        self, queues: Sequence[str], sizes: Mapping[str, int], lane_cursors: Mapping[int, int]
    ) -> list[ReadyBatch]:
        """Return which of these batch kinds, given with their batch sizes, have ready jobs."""
        parameters = {
            "worker": self.worker_id,
            "queues": _text_array(queues),
            "kinds": _text_array(sizes),
            "sizes": _array(map(str, sizes.values())),
            "lanes": _array(map(str, lane_cursors)),
            "lane_cursors": _array(map(str, lane_cursors.values())),
        }

        async def work(connection: AsyncConnection[tuple[Any, ...]]) -> list[ReadyBatch]:
            cursor = await connection.execute(calling("ready_batches", *parameters), parameters)
            return [ReadyBatch(*row) for row in await cursor.fetchall()]

        return await self._claims.run(work)

    async def claimed(self, token: UUID) -> Claim:
        """Return the jobs of a claim whose reply was lost."""
        return await self._fetch(
            query("claimed"), {"token": token, "worker": self.worker_id}, token, time.monotonic()
        )

    async def _fetch(
        self, statement: Any, parameters: Mapping[str, Any], token: UUID, asked_at: float
    ) -> Claim:
        async def work(connection: AsyncConnection[tuple[Any, ...]]) -> list[ClaimedJob]:
            cursor = connection.cursor(binary=True)
            await cursor.execute(statement, parameters)
            return list(map(ClaimedJob._make, await cursor.fetchall()))

        try:
            return Claim(token, await self._claims.run(work), asked_at)
        except psycopg.OperationalError:
            self._asked = (token, asked_at)
            raise

    async def claim_settings(self) -> tuple[dict[str, float], bool]:
        """Return the tenant weights other than 1, and whether any limit has a rate."""
        row = await self._ask(query("claim_settings"), {})
        return (row[0] or {}, row[1]) if row else ({}, False)

    async def next_token(self, queues: Sequence[str], kinds: Sequence[str]) -> float | None:
        """Return the seconds until a rate limit allows another start; None if no job waits for one."""
        parameters = {"queues": list(queues), "kinds": list(kinds)}
        row = await self._ask(calling("next_token", *parameters), parameters)
        return row[0] if row else None

    async def _ask(self, statement: Any, parameters: Mapping[str, Any]) -> tuple[Any, ...] | None:
        async def work(connection: AsyncConnection[tuple[Any, ...]]) -> tuple[Any, ...] | None:
            return await (await connection.execute(statement, parameters)).fetchone()

        return await self._claims.run(work)

    async def request_wakeup(self, queues: Sequence[str]) -> None:
        """Request a notification for new jobs: enqueue notifies only queues whose lock is held."""

        async def work(connection: AsyncConnection[tuple[Any, ...]]) -> None:
            if connection is not self._wakeups_on:  # a lock that is taken twice must be released twice
                await connection.execute(query("request_wakeup"), (list(queues),))
                self._wakeups_on = connection

        await self._wakeups.run(work)

    async def cancel_wakeup(self, queues: Sequence[str]) -> None:
        async def work(connection: AsyncConnection[tuple[Any, ...]]) -> None:
            if connection is self._wakeups_on:
                self._wakeups_on = None
                await connection.execute(query("cancel_wakeup"), (list(queues),))

        await self._wakeups.run(work)

    async def succeed(self, reports: Sequence[Success]) -> list[UUID]:
        """Report successes; returns the ids whose lease was lost."""
        parameters: list[Any] = [
            _array(report.id for report in reports),
            _array(report.token for report in reports),
            _none_if_all_null([report.result for report in reports]),
            _none_if_all_null([report.output for report in reports]),
        ]
        if any(report.followups for report in reports):
            parameters.append(_text_array(report.followups for report in reports))
            return list(await self._report(query("succeed_with"), parameters))
        return list(await self._report(query("succeed"), parameters))

    async def settle(self, reports: Sequence[Settlement]) -> list[UUID]:
        """Report every other outcome; returns the ids whose lease was lost."""
        parameters = [
            _array(report.id for report in reports),
            _array(report.token for report in reports),
            _text_array(report.event for report in reports),
            _text_array(report.outcome for report in reports),
            [report.delay for report in reports],
            _text_array(
                None if report.error is None else encode_result(report.error, ERROR_LIMIT)
                for report in reports
            ),
            _none_if_all_null([report.output for report in reports]),
        ]
        return list(await self._report(query("settle"), parameters))

    async def register(
        self,
        worker: Mapping[str, Any],
        definitions: Sequence[Mapping[str, Any]],
        limits: Sequence[Mapping[str, Any]] = (),
        triggers: Sequence[Mapping[str, Any]] = (),
        *,
        key: str | None = None,
    ) -> dict[str, str]:
        """Register the worker and store the definitions, limits and triggers of its code.

        ``key`` is the prefix of the API key that a remote worker authenticates with; only what that key may
        announce is stored. Returns the kinds that were left out, with the reason.
        """
        row = {
            "key": None,
            "code": None,
            "only_tenant": None,
            "only_queues": None,
            **worker,
            "id": self.worker_id,
        }
        row["offline_after"] = offline_default(row.pop("heartbeat_seconds"), row.pop("lease_seconds"))
        for name in ("capability_details", "metadata"):
            row[name] = json.dumps(row[name])

        code = {
            "definitions": json.dumps(list(definitions)),
            "limits": json.dumps(list(limits)),
            "triggers": json.dumps(list(triggers)),
            "key": key,
        }

        async def work(connection: AsyncConnection[tuple[Any, ...]]) -> dict[str, str]:
            announced = await (await connection.execute(calling("announce_code", *code), code)).fetchone()
            known = await (await connection.execute(calling("register", *row), row)).fetchone()
            if known is None or known[0] is None:
                raise Forbidden(f"worker {self.worker_id} is registered with another key")
            return announced[0] if announced else {}

        try:
            return await self._reports.run(work)
        except psycopg.Error as error:
            ours = to_posthouse_error(error)
            if ours is None:
                raise
            raise ours from error

    async def definitions_since(self, digest: str) -> tuple[str, list[str]] | None:
        """Return all definitions and their digest; None if the digest is unchanged.

        The definitions are JSON texts, as the statement definitions_by_kind returns them.
        """

        async def work(connection: AsyncConnection[tuple[Any, ...]]) -> tuple[str, list[str]] | None:
            row = await (await connection.execute(query("definitions_digest"))).fetchone()
            now = str(row[0]) if row else ""
            if now == digest:
                return None
            cursor = await connection.execute(query("definitions_by_kind"), ("null",))
            return now, [found[0] for found in await cursor.fetchall()]

        return await self._reports.run(work)

    async def update_subscription(self, queues: Sequence[str], kinds: Sequence[str]) -> None:
        """Store the queues and kinds that this worker serves from now on."""
        await self._report(query("worker_update_queues"), (list(queues), list(kinds), self.worker_id))

    async def deregister(self) -> None:
        await self._report(calling("sign_off", "worker"), {"worker": self.worker_id})

    async def end_worker(
        self, blockers: Sequence[UUID] | None, error: Mapping[str, Any], crash_limit: int
    ) -> None:
        """End this worker, whose process was killed.

        ``blockers`` (None: all its jobs) count a crash with this error; its other jobs are released.
        """
        parameters = {
            "worker": self.worker_id,
            "blockers": None if blockers is None else list(blockers),
            "error": encode_result(error, ERROR_LIMIT),
            "crash_limit": crash_limit,
        }

        async def work(connection: AsyncConnection[tuple[Any, ...]]) -> None:
            await connection.execute(calling("end_worker", *parameters), parameters)

        await self._reports.run(work)

    async def _report(self, statement: Any, parameters: Sequence[Any] | Mapping[str, Any]) -> Any:
        async def work(connection: AsyncConnection[tuple[Any, ...]]) -> Any:
            cursor = await connection.execute(statement, parameters, binary=True)
            row = await cursor.fetchone()
            return row[0] if row else None

        return await self._reports.run(work)


def _array(values: Iterable[str]) -> str:
    """Return a Postgres array literal: one string is ten times cheaper to send than a list."""
    return "{" + ",".join(values) + "}"


def _text_array(texts: Iterable[str | None]) -> str:
    return _array(
        "null" if text is None else '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
        for text in texts
    )


def _none_if_all_null(texts: list[str | None]) -> str | None:
    """Return None if all values are empty, as in most batches, so that nothing is sent."""
    return _text_array(texts) if any(text is not None for text in texts) else None


class PostgresHeartbeatConnection:
    def __init__(self, connection: Connection[Any], worker_id: UUID, lease_seconds: float) -> None:
        self._connection = connection
        self._worker_id = worker_id
        self._lease_seconds = lease_seconds
        self.holds_liveness_lock = self._watch()

    def _watch(self) -> bool:
        """Take the liveness lock, unless a pooler would share the session."""
        backend = self._connection.execute("select pg_backend_pid()").fetchone()
        if not backend or backend[0] != self._connection.info.backend_pid:
            return False
        self._connection.execute(calling("take_liveness_lock", "worker"), {"worker": self._worker_id})
        return True

    def beat(self, ids: Sequence[str], tokens: Sequence[str]) -> list[tuple[str, str]]:
        held = ["{" + ",".join(texts) + "}" for texts in (ids, tokens)]
        rows = self._connection.execute(
            query("heartbeat"), (self._worker_id, *held, self._lease_seconds), binary=True
        ).fetchall()
        return [(raw_id.hex(), verdict) for raw_id, verdict in rows]

    def wait(self, wakeup: int, seconds: float) -> None:
        connection = self._connection.fileno()
        if connection in until_readable(seconds, connection, wakeup):
            self._connection.execute("select")  # unexpected data: most likely the end of the session


@contextmanager
def heartbeat_connection(
    url: str, worker_id: UUID, lease_seconds: float
) -> Iterator[PostgresHeartbeatConnection]:
    with connect_sync(url, "heartbeat") as connection:
        yield PostgresHeartbeatConnection(connection, worker_id, lease_seconds)

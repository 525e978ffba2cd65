"""A worker's dealings with the database: claim, report, renew. Everything is guarded by the lease token."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self, TypeAlias
from uuid import UUID, uuid4

import psycopg
from psycopg import AsyncConnection

from posthouse.core.payload import encode_result
from posthouse.errors import Forbidden
from posthouse.storage.connect import Line, Running
from posthouse.storage.errors import explain
from posthouse.storage.queries import query

ClaimedRow: TypeAlias = tuple[Any, ...]
"""The columns of sql/claim.sql, in order."""

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


@dataclass(frozen=True, slots=True)
class Claim:
    token: UUID
    rows: list[ClaimedRow]
    asked_at: float  # by the monotonic clock: the leases are at least that old


class Leases:
    """Claims on one connection, reports on another, so that neither waits for the other.

    ``direct_url`` leads past a pooler: there the wish to be woken stays in a session of ours.
    """

    def __init__(self, url: str, worker_id: UUID, lease_seconds: float, direct_url: str = "") -> None:
        self.worker_id = worker_id
        self.lease_seconds = lease_seconds
        self._claims: Running = Line(url, "claims")
        self._reports: Running = Line(url, "reports")
        self._hunger: Running = Line(direct_url, "hunger") if direct_url not in {"", url} else self._claims
        self._hungry_on: AsyncConnection[tuple[Any, ...]] | None = None
        self._asked: tuple[UUID, float] | None = None

    @classmethod
    def over(cls, line: Running, worker_id: UUID, lease_seconds: float) -> Self:
        """For a server that asks for a worker, on connections that it shares."""
        leases = cls("", worker_id, lease_seconds)
        leases._claims = leases._reports = leases._hunger = line
        return leases

    async def close(self) -> None:
        await self._claims.close()
        await self._reports.close()
        await self._hunger.close()

    async def backend_pids(self) -> list[int]:
        """The processes that serve the two connections."""
        lines = [line for line in (self._claims, self._reports) if isinstance(line, Line)]
        return [(await line.connection()).info.backend_pid for line in lines]

    async def claim(
        self,
        queues: Sequence[str],
        kinds: Sequence[str],
        limit: int,
        marks: Mapping[int, int],
        *,
        careful: bool,
        offers: Sequence[str] = (),
        served: Mapping[str, float] | None = None,
        patience: float = 20.0,
        token: UUID | None = None,
    ) -> Claim:
        """Up to ``limit`` jobs. After a lost connection the next call asks what the lost one took."""
        asked, self._asked = self._asked, None
        if asked is not None:
            taken = await self._fetch(query("claimed"), {"token": asked[0], "worker": self.worker_id}, *asked)
            if taken.rows:
                return taken
        token = token or uuid4()
        parameters = {
            "worker": self.worker_id,
            "token": token,
            "queues": _text_array(queues),
            "kinds": _text_array(kinds),
            "limit": limit,
            "lease": self.lease_seconds,
            "lanes": _array(map(str, marks)),
            "marks": _array(map(str, marks.values())),
            "careful": careful,
            "offers": _text_array(offers),
            "tenants": _text_array(served or ()),
            "served": _array(map(str, (served or {}).values())),
            "patience": patience,
        }
        return await self._fetch(query("claim"), parameters, token, time.monotonic())

    async def claimed(self, token: UUID) -> Claim:
        """What a claim took whose answer was not heard."""
        return await self._fetch(
            query("claimed"), {"token": token, "worker": self.worker_id}, token, time.monotonic()
        )

    async def _fetch(
        self, statement: Any, parameters: Mapping[str, Any], token: UUID, asked_at: float
    ) -> Claim:
        async def work(connection: AsyncConnection[tuple[Any, ...]]) -> list[ClaimedRow]:
            cursor = connection.cursor(binary=True)
            await cursor.execute(statement, parameters)
            return await cursor.fetchall()

        try:
            return Claim(token, await self._claims.run(work), asked_at)
        except psycopg.OperationalError:
            self._asked = (token, asked_at)
            raise

    async def claim_rules(self) -> tuple[dict[str, float], bool]:
        """The weights of tenants other than 1, and whether some limit is a rate."""
        row = await self._ask("claim_rules", ())
        return (row[0] or {}, row[1]) if row else ({}, False)

    async def next_token(self, queues: Sequence[str], kinds: Sequence[str]) -> float | None:
        """Seconds until a rate lets another job start; None if none holds any up."""
        row = await self._ask("next_token", (list(queues), list(kinds)))
        return row[0] if row else None

    async def _ask(self, name: str, parameters: Sequence[Any]) -> tuple[Any, ...] | None:
        async def work(connection: AsyncConnection[tuple[Any, ...]]) -> tuple[Any, ...] | None:
            return await (await connection.execute(query(name), parameters)).fetchone()

        return await self._claims.run(work)

    async def be_hungry(self, queues: Sequence[str]) -> None:
        """Ask to be woken: enqueue notifies only queues for which somebody holds this lock."""

        async def work(connection: AsyncConnection[tuple[Any, ...]]) -> None:
            if connection is not self._hungry_on:  # held twice, it would have to be given back twice
                await connection.execute(query("be_hungry"), (list(queues),))
                self._hungry_on = connection

        await self._hunger.run(work)

    async def be_fed(self, queues: Sequence[str]) -> None:
        async def work(connection: AsyncConnection[tuple[Any, ...]]) -> None:
            if connection is self._hungry_on:
                self._hungry_on = None
                await connection.execute(query("be_fed"), (list(queues),))

        await self._hunger.run(work)

    async def succeed(self, reports: Sequence[Success]) -> list[UUID]:
        """Report successes; returns the ids whose lease was lost."""
        parameters: list[Any] = [
            _array(report.id for report in reports),
            _array(report.token for report in reports),
            _unless_empty([report.result for report in reports]),
            _unless_empty([report.output for report in reports]),
        ]
        if any(report.followups for report in reports):
            parameters.append([report.followups for report in reports])
            return list(await self._report(query("succeed_with"), parameters))
        return list(await self._report(query("succeed"), parameters))

    async def settle(self, reports: Sequence[Settlement]) -> list[UUID]:
        """Report every other outcome; returns the ids whose lease was lost."""
        parameters = [
            _array(report.id for report in reports),
            _array(report.token for report in reports),
            [report.event for report in reports],
            [report.outcome for report in reports],
            [report.delay for report in reports],
            [
                None if report.error is None else encode_result(report.error, ERROR_LIMIT)
                for report in reports
            ],
            _unless_empty([report.output for report in reports]),
        ]
        return list(await self._report(query("settle"), parameters))

    async def announce(
        self,
        worker: Mapping[str, Any],
        definitions: Sequence[Mapping[str, Any]],
        limits: Sequence[Mapping[str, Any]] = (),
        triggers: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        """Make the worker known, the kinds that it knows, their limits and their triggers."""
        row = {"key": None, "only_tenant": None, "only_queues": None, **worker, "id": self.worker_id}
        for name in ("capabilities", "metadata"):
            row[name] = json.dumps(row[name])

        async def work(connection: AsyncConnection[tuple[Any, ...]]) -> bool:
            await connection.execute(query("define"), (json.dumps(list(definitions)),))
            if limits:
                await connection.execute(query("announce_limits"), (json.dumps(list(limits)),))
            kinds = [definition["key"] for definition in definitions]
            await connection.execute(query("announce_triggers"), (kinds, json.dumps(list(triggers))))
            known = await (await connection.execute(query("register"), row)).fetchone()
            return known is not None and known[0] is not None

        try:
            if not await self._reports.run(work):
                raise Forbidden(f"{self.worker_id} is the worker of another key")
        except psycopg.Error as error:
            ours = explain(error)
            if ours is None:
                raise
            raise ours from error

    async def definitions_since(self, digest: str) -> tuple[str, list[str]] | None:
        """All definitions, as definition_rules.sql gives them, and their digest; None if it is the same."""

        async def work(connection: AsyncConnection[tuple[Any, ...]]) -> tuple[str, list[str]] | None:
            row = await (await connection.execute(query("definitions_digest"))).fetchone()
            now = str(row[0]) if row else ""
            if now == digest:
                return None
            cursor = await connection.execute(query("definition_rules"), ("null",))
            return now, [found[0] for found in await cursor.fetchall()]

        return await self._reports.run(work)

    async def serve(self, queues: Sequence[str], kinds: Sequence[str]) -> None:
        """Tell what this worker serves from now on."""
        await self._report(query("worker_serves"), (list(queues), list(kinds), self.worker_id))

    async def sign_off(self) -> None:
        await self._report(query("sign_off"), (self.worker_id,))

    async def _report(self, statement: Any, parameters: Sequence[Any]) -> Any:
        async def work(connection: AsyncConnection[tuple[Any, ...]]) -> Any:
            cursor = await connection.execute(statement, parameters, binary=True)
            row = await cursor.fetchone()
            return row[0] if row else None

        return await self._reports.run(work)


def _array(values: Iterable[str]) -> str:
    """A Postgres array literal of ids or numbers: one string is ten times cheaper to send than a list."""
    return "{" + ",".join(values) + "}"


def _text_array(texts: Iterable[str]) -> str:
    return _array('"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"' for text in texts)


def _unless_empty(texts: list[str | None]) -> list[str | None] | None:
    """Most batches have none of them: nothing is sent then."""
    return texts if any(text is not None for text in texts) else None

"""How attempts of remote workers ended, in batches: one that cannot be written does not keep the others."""

from __future__ import annotations

import json
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar
from uuid import UUID

from posthouse.client.kinds import Kinds
from posthouse.core.fingerprint import fingerprint
from posthouse.core.outcome import Fail, Policy, Reported, decide
from posthouse.core.payload import encode_result, escape
from posthouse.core.request import Request
from posthouse.core.retry import DEFAULT_RETRY, Retry
from posthouse.errors import InvalidJob, LeaseLost, PosthouseError
from posthouse.server.access import Access
from posthouse.server.staff import Staff
from posthouse.settings import Settings
from posthouse.storage.leases import Settlement, Success
from posthouse.storage.queries import query

Report = TypeVar("Report", Success, Settlement)
_rng = random.Random()  # noqa: S311 - jitter


@dataclass(slots=True)
class Written:
    """What did not land, and why."""

    lost: list[UUID] = field(default_factory=list)
    refused: list[dict[str, str]] = field(default_factory=list)

    def refuse(self, job_id: str, error: Exception) -> None:
        self.refused.append({"id": str(UUID(job_id)), "detail": str(error).partition("\n")[0]})


class Desk:
    """Writes for one request."""

    def __init__(self, access: Access, staff: Staff, settings: Settings, worker_id: UUID) -> None:
        self._access = access
        self._staff = staff
        self._settings = settings
        self._leases = staff.leases(worker_id, settings.lease_seconds)
        self._kinds = Kinds()

    async def complete(self, items: Sequence[Mapping[str, Any]]) -> Written:
        written = Written()
        reports = []
        for item in items:
            try:
                reports.append(await self._success(item))
            except PosthouseError as error:
                written.refuse(item["id"].hex, error)
        await self._write(self._leases.succeed, reports, written)
        return written

    async def settle(self, items: Sequence[Mapping[str, Any]]) -> Written:
        written = Written()
        await self._write(self._leases.settle, [self._settlement(item) for item in items], written)
        return written

    async def fail(self, items: Sequence[Mapping[str, Any]]) -> Written:
        written = Written()
        reports = []
        for item in items:
            try:
                reports.append(await self._judged(item))
            except LeaseLost:
                written.lost.append(item["id"])
        await self._write(self._leases.settle, reports, written)
        return written

    async def _write(
        self, write: Callable[[Sequence[Report]], Awaitable[list[UUID]]], reports: list[Report], into: Written
    ) -> None:
        if not reports:
            return
        try:
            into.lost += await write(reports)
        except PosthouseError as error:
            if len(reports) == 1:
                into.refuse(reports[0].id, error)
                return
            middle = len(reports) // 2
            await self._write(write, reports[:middle], into)
            await self._write(write, reports[middle:], into)

    async def _success(self, item: Mapping[str, Any]) -> Success:
        result = item.get("result")
        limit = self._settings.max_result_bytes
        followups = item.get("followups")
        return Success(
            item["id"].hex,
            item["token"].hex,
            None if result is None else encode_result(result, limit),
            await self._followups(followups, item["id"]) if followups else None,
            _object(item.get("output"), limit),
        )

    def _settlement(self, item: Mapping[str, Any]) -> Settlement:
        return Settlement(
            item["id"].hex,
            item["token"].hex,
            item["event"],
            item.get("outcome") or item["event"],
            item.get("delay"),
            item.get("error"),
            _object(item.get("output"), self._settings.max_result_bytes),
        )

    async def _judged(self, item: Mapping[str, Any]) -> Settlement:
        """What follows from a failure, by the rules of its kind."""
        row = await self._staff.held(self._access, item["id"], item["token"])
        retry = Retry.from_json(row["retry"]) if row["retry"] else DEFAULT_RETRY
        ending: BaseException = Reported(_error(item.get("error")))
        if not item.get("retry", True):
            told, ending = ending, Fail()
            ending.__cause__ = told
        verdict = decide(_Attempt(row), ending, Policy(retry), _rng)
        error = (
            None if verdict.error is None else {**verdict.error, "fingerprint": fingerprint(verdict.error)}
        )
        return Settlement(
            item["id"].hex, item["token"].hex, verdict.event, verdict.outcome, verdict.delay, error
        )

    async def _followups(self, followups: Sequence[Mapping[str, Any]], parent: UUID) -> str:
        """As they are enqueued. Who serves one tenant enqueues for that one only, whatever they say."""
        tenant = self._access.principal.tenant
        own = {} if tenant is None else {"tenant_id": tenant}
        jobs = [{**job, **own, "parent_id": str(parent)} for job in followups]
        requests = [_request(job) for job in jobs]
        unknown = self._kinds.unknown(requests)
        if unknown:
            self._kinds.learn(unknown, await self._staff.line.run(_rules_of(unknown)))
        self._kinds.admitted(requests, self._settings.max_payload_bytes)
        if tenant is not None:
            await self._refuse_strangers(jobs, tenant)
        return json.dumps(jobs)

    async def _refuse_strangers(self, jobs: Sequence[Mapping[str, Any]], tenant: str) -> None:
        try:
            needed = {UUID(str(other)) for job in jobs for other in job.get("depends_on") or ()}
            made = {UUID(str(job["id"])) for job in jobs if "id" in job}
        except (TypeError, ValueError):
            raise InvalidJob("ids of follow-ups are UUIDs") from None
        if needed - made:

            async def work(connection: Any) -> Any:
                ask = {"ids": list(needed - made), "tenant": tenant}
                return await (await connection.execute(query("jobs_not_of_tenant"), ask)).fetchone()

            stranger = await self._staff.line.run(work)
            if stranger is not None:
                raise InvalidJob(f"a job depends on {stranger[0]}, which does not exist")


def _rules_of(kinds: Sequence[str]) -> Callable[[Any], Awaitable[list[str]]]:
    async def work(connection: Any) -> list[str]:
        cursor = await connection.execute(query("definition_rules"), (json.dumps(kinds),))
        return [row[0] for row in await cursor.fetchall()]

    return work


def _request(job: Mapping[str, Any]) -> Request:
    """Enough of a request to be checked."""
    try:
        return Request(
            kind=job["kind"],
            payload=job.get("payload") or {},
            tenant=job.get("tenant_id") or "default",
            correlation_id=job.get("correlation_id"),
            subject=job.get("subject"),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise InvalidJob(f"a follow-up is an object with kind and payload: {error!r}") from None


def _object(value: Any, limit: int) -> str | None:
    return None if value is None else encode_result(value, limit)


def _error(said: Any) -> dict[str, Any]:
    if isinstance(said, Mapping):
        kept = {escape(str(name)): value for name, value in said.items()}
        return {
            **kept,
            "type": str(kept.get("type") or "Error"),
            "message": escape(str(kept.get("message", ""))),
        }
    return {"type": "Error", "message": escape(str(said or "it did not say why"))}


class _Attempt:
    def __init__(self, row: Mapping[str, Any]) -> None:
        self.attempt: int = row["attempt"]
        self.max_attempts: int = row["max_attempts"]
        self.crashes: int = row["crashes"]
        self.snoozes: int = row["snoozes"]
        self.age: float = row["age"]

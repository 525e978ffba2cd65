"""Reports of remote workers about attempts, in batches.

An item that cannot be stored does not fail the others.
"""

from __future__ import annotations

import json
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar
from uuid import UUID

from posthouse.client.enqueue import DefinitionCache
from posthouse.core.failure import fingerprint
from posthouse.core.outcome import Fail, Policy, Reported, decide
from posthouse.core.payload import encode_result, escape
from posthouse.core.request import Request
from posthouse.core.retry import DEFAULT_RETRY, Retry
from posthouse.errors import InvalidJob, LeaseLost, PosthouseError
from posthouse.server.http.auth import Access
from posthouse.server.schemas.workers import NO_MESSAGE
from posthouse.server.workers.registry import RemoteWorkers
from posthouse.settings import Settings
from posthouse.storage.attempts import LogEntry
from posthouse.storage.leases import Settlement, Success
from posthouse.storage.queries import query

Report = TypeVar("Report", Success, Settlement)
_rng = random.Random()  # noqa: S311 - jitter


@dataclass(slots=True)
class WriteResult:
    """Items that were not stored: leases that were lost, and rejected items with the reason."""

    lost: list[UUID] = field(default_factory=list)
    rejected: list[dict[str, str]] = field(default_factory=list)

    def reject(self, job_id: str, error: Exception) -> None:
        self.rejected.append({"id": str(UUID(job_id)), "detail": str(error).partition("\n")[0]})


class AttemptReports:
    """A writer of the reports in one request."""

    def __init__(self, access: Access, workers: RemoteWorkers, settings: Settings) -> None:
        self._access = access
        self._workers = workers
        self._settings = settings
        self._leases = workers.shared_leases
        self._definitions = DefinitionCache()
        self._queues: dict[str, str] = {}

    async def complete(self, items: Sequence[Mapping[str, Any]]) -> WriteResult:
        written = WriteResult()
        reports = []
        for item in await self._own(items, written):
            try:
                reports.append(await self._success(item))
            except PosthouseError as error:
                written.reject(item["id"].hex, error)
        await self._write(self._leases.succeed, reports, written)
        return written

    async def settle(self, items: Sequence[Mapping[str, Any]]) -> WriteResult:
        written = WriteResult()
        own = await self._own(items, written)
        await self._write(self._leases.settle, [self._settlement(item) for item in own], written)
        return written

    async def fail(self, items: Sequence[Mapping[str, Any]]) -> WriteResult:
        written = WriteResult()
        reports = []
        for item in items:
            try:
                reports.append(await self._decide_failure(item))
            except LeaseLost:
                written.lost.append(item["id"])
        await self._write(self._leases.settle, reports, written)
        return written

    async def progress(self, items: Sequence[Mapping[str, Any]], lease_seconds: float) -> dict[UUID, str]:
        """Write progress, and renew the leases. Return the jobs not written: ``lost`` or ``busy``."""
        others = await self._leased_by_others(items)
        own = [
            {**item, "id": item["id"].hex, "token": item["token"].hex}
            for item in items if item["id"] not in others
        ]  # fmt: skip
        missed = await self._workers.attempts(lease_seconds).report(own) if own else {}
        return missed | dict.fromkeys(others, "lost")

    async def log(self, items: Sequence[Mapping[str, Any]], lease_seconds: float) -> None:
        """Write log lines. Lines of lost leases are dropped."""
        others = await self._leased_by_others(items)
        lines = [
            LogEntry(
                item["id"].hex, item["token"].hex, item.get("age", 0.0), item.get("stream", "log"),
                item.get("level"), escape(item["text"]),
            )
            for item in items if item["id"] not in others
        ]  # fmt: skip
        if lines:
            await self._workers.attempts(lease_seconds).write_log(lines)

    async def _leased_by_others(self, items: Sequence[Mapping[str, Any]]) -> set[UUID]:
        """Return the jobs that run for a worker with another key. To this worker they are lost."""
        return await self._workers.leased_by_others(
            self._access, [item["id"] for item in items], [item["token"] for item in items]
        )

    async def _own(self, items: Sequence[Mapping[str, Any]], written: WriteResult) -> list[Mapping[str, Any]]:
        others = await self._leased_by_others(items)
        written.lost += others
        return [item for item in items if item["id"] not in others]

    async def _write(
        self,
        write: Callable[[Sequence[Report]], Awaitable[list[UUID]]],
        reports: list[Report],
        into: WriteResult,
    ) -> None:
        if not reports:
            return
        try:
            into.lost += await write(reports)
        except PosthouseError as error:
            if len(reports) == 1:
                into.reject(reports[0].id, error)
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
            await self._followups(followups, item["id"], item["token"]) if followups else None,
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

    async def _decide_failure(self, item: Mapping[str, Any]) -> Settlement:
        """Decide what follows from a failure by the retry policy of the job."""
        row = await self._workers.get_attempt(self._access, item["id"], item["token"])
        retry = Retry.from_json(row["retry"]) if row["retry"] else DEFAULT_RETRY
        ending: BaseException = Reported(_normalize_error(item.get("error")))
        if not item.get("retry", True):
            reported, ending = ending, Fail()
            ending.__cause__ = reported
        verdict = decide(_Attempt(row), ending, Policy(retry), _rng)
        error = (
            None if verdict.error is None else {**verdict.error, "fingerprint": fingerprint(verdict.error)}
        )
        return Settlement(
            item["id"].hex, item["token"].hex, verdict.event, verdict.outcome, verdict.delay, error
        )

    async def _followups(
        self, followups: Sequence[Mapping[str, Any]], parent: UUID, token: UUID
    ) -> str | None:
        """Return the follow-ups as JSON to enqueue, or None if the attempt is over.

        Follow-ups of a key for one tenant or for some queues take the parent's tenant. They stay in queues
        that the key serves or that the parent's definition names. After the end of the attempt nothing is
        stored, and what was stored before is not repeated.
        """
        try:
            held = await self._workers.get_attempt(self._access, parent, token)
        except LeaseLost:
            return None
        principal = self._access.principal
        scoped = principal.tenant is not None or principal.queues is not None
        own = {"tenant_id": held["tenant_id"]} if scoped else {}
        jobs = [{**job, **own, "parent_id": str(parent)} for job in followups]
        requests = [_request(job) for job in jobs]
        kinds = {request.kind for request in requests}
        stale = self._definitions.stale(kinds)
        if stale:
            rows = await self._workers.connections.run(_rules_of(stale))
            self._definitions.update(stale, rows)
            self._queues |= {rule["key"]: rule["queue"] for rule in (json.loads(row[0]) for row in rows)}
        self._definitions.apply(kinds, requests, self._settings.max_payload_bytes)
        if principal.queues is not None:
            self._check_queues(jobs, {*principal.queues, *held["followup_queues"]}, held["kind"])
        if scoped:
            await self._check_dependencies(jobs, held["tenant_id"])
        return json.dumps(jobs)

    def _check_queues(self, jobs: Sequence[Mapping[str, Any]], allowed: set[str], parent_kind: str) -> None:
        for job in jobs:
            queue = job.get("queue") or self._queues.get(job["kind"], "default")
            if queue not in allowed:
                raise InvalidJob(
                    f"follow-up {job['kind']!r} goes to queue {queue!r}, which this key does not serve; "
                    f"allow it in followup_queues of the definition {parent_kind!r}"
                )

    async def _check_dependencies(self, jobs: Sequence[Mapping[str, Any]], tenant: str) -> None:
        try:
            needed = {UUID(str(other)) for job in jobs for other in job.get("depends_on") or ()}
            made = {UUID(str(job["id"])) for job in jobs if "id" in job}
        except (TypeError, ValueError):
            raise InvalidJob("invalid follow-up: id and depends_on must be UUIDs") from None
        if needed - made:

            async def work(connection: Any) -> Any:
                ask = {"ids": list(needed - made), "tenant": tenant}
                return await (await connection.execute(query("jobs_foreign_id"), ask)).fetchone()

            stranger = await self._workers.connections.run(work)
            if stranger is not None:
                raise InvalidJob(
                    f"invalid follow-up: depends_on names job {stranger[0]}, which does not exist"
                )


def _rules_of(kinds: Sequence[str]) -> Callable[[Any], Awaitable[list[tuple[str]]]]:
    async def work(connection: Any) -> list[tuple[str]]:
        cursor = await connection.execute(query("definitions_by_kind"), (json.dumps(kinds),))
        rows: list[tuple[str]] = await cursor.fetchall()
        return rows

    return work


def _request(job: Mapping[str, Any]) -> Request:
    """Return the request with the fields that are validated."""
    try:
        return Request(
            kind=job["kind"],
            payload=job.get("payload") or {},
            tenant=job.get("tenant_id") or "default",
            correlation_id=job.get("correlation_id"),
            subject=job.get("subject"),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise InvalidJob(f"invalid follow-up: expected an object with kind and payload: {error!r}") from None


def _object(value: Any, limit: int) -> str | None:
    return None if value is None else encode_result(value, limit)


def _normalize_error(error: Any) -> dict[str, Any]:
    if isinstance(error, Mapping):
        kept = {escape(str(name)): value for name, value in error.items()}
        return {
            **kept,
            "type": str(kept.get("type") or "Error"),
            "message": escape(str(kept.get("message", ""))),
        }
    return {"type": "Error", "message": escape(str(error or NO_MESSAGE))}


class _Attempt:
    def __init__(self, row: Mapping[str, Any]) -> None:
        self.attempt: int = row["attempt"]
        self.max_attempts: int = row["max_attempts"]
        self.crashes: int = row["crashes"]
        self.snoozes: int = row["snoozes"]
        self.age: float = row["age"]

"""Bulk changes: retry or cancel the jobs that match a filter. Failure groups, whose jobs they often retry."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import Path, Query, Request, Response

from posthouse import insights
from posthouse.core.filters import Filter, JobQuery, format_filter, parse_filter
from posthouse.errors import IllegalTransition, InvalidRequest, JobNotFound
from posthouse.insights import BulkChange, FailureDetail, FailureFilter, FailureGroup, JobFilter
from posthouse.server.http.auth import Access
from posthouse.server.http.requests import (
    ApiDatetime,
    IdempotencyKey,
    JobReader,
    JobWriter,
    QueryText,
    api_router,
    run_idempotent,
)
from posthouse.server.http.responses import (
    Cursor,
    Limit,
    Page,
    clamp_limit,
    decode_cursor,
    json_response,
    page,
)
from posthouse.server.schemas.jobs import Bulk, BulkResponse, ChangeResponse, JobSelection
from posthouse.storage import actions
from posthouse.storage.actions import start_bulk_change
from posthouse.storage.queries import Db

router = api_router("/jobs", "jobs")

COUNTED = 100_000
CANCELED_AT_ONCE = 1000
"""Jobs canceled per request, each in its own transaction: 1 to 2 s."""
RETRY_FIELDS = {"definition_key", "queue", "fingerprint", "ended_after", "ended_before"}
_ACTIVE = {"queued", "running"}


@router.post("/bulk", response_model=BulkResponse)
async def change_many(
    request: Request, bulk: Bulk, access: JobWriter, idempotency_key: IdempotencyKey = None
) -> Response:
    """Retry or cancel all jobs that match a filter.

    Select the jobs with `q` or `filter`; with `dry_run` they are only counted. A retry includes failed and
    dead-letter jobs, and canceled ones if `q` contains `status:canceled`; it halts if too many fail again.
    The keeper changes the jobs at the given rate: follow it with GET `/jobs/bulk/{id}`, stop it with POST
    `/jobs/bulk/{id}/stop`. A cancel with `filter` is immediate, up to 1,000 jobs per request.
    """
    if bulk.q is not None:
        if bulk.filter is not None:
            raise InvalidRequest("q and filter are alternatives; send only one")
        found = FilteredBulkChange(bulk, access, parse_filter(bulk.q))
        return await run_idempotent(request, access, idempotency_key, found.start)
    if bulk.filter is None or not bulk.filter.given_fields():
        raise InvalidRequest("no jobs selected: send q, or filter with at least one field")
    if bulk.action == "cancel":
        if bulk.start_in_seconds:
            raise InvalidRequest(
                "start_in_seconds is not supported for a cancel with filter, which is immediate; select the "
                "jobs with q instead"
            )
        return json_response(await _cancel(bulk, bulk.filter, access))
    criteria = _criteria(bulk, bulk.filter, access)
    return await run_idempotent(
        request, access, idempotency_key, lambda db: _retry(db, bulk, access, criteria)
    )


@router.get("/bulk", response_model=Page[BulkChange])
async def list_bulk_changes(
    access: JobReader,
    action: Annotated[Literal["retry", "cancel"] | None, Query(description="Only this action.")] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Response:
    """List bulk changes, newest first."""
    before: Any = decode_cursor(cursor, datetime, UUID)
    async with access.transaction() as db:
        found = await insights.bulk_changes(
            db, tenant=access.tenant, action=action, before=before, limit=limit
        )
    return json_response(page(found, limit, "created_at", "id"))


@router.get("/bulk/{bulk_id}", response_model=BulkChange)
async def show_bulk_change(bulk_id: UUID, access: JobReader) -> Response:
    """Get a bulk change and its progress."""
    async with access.transaction() as db:
        return json_response(await insights.get_bulk_change(db, bulk_id, tenant=access.tenant))


@router.post("/bulk/{bulk_id}/stop", response_model=ChangeResponse)
async def stop_bulk_change(bulk_id: UUID, access: JobWriter) -> Response:
    """Stop a bulk change.

    Jobs that were already changed stay changed. Before `starts_at` there are none.
    """
    async with access.transaction() as db:
        await insights.get_bulk_change(db, bulk_id, tenant=access.tenant)
        return json_response(
            ChangeResponse(changed=await actions.stop_bulk_change(db, bulk_id, actor=access.actor))
        )


async def _retry(db: Db, bulk: Bulk, access: Access, criteria: dict[str, Any]) -> Response:
    matched = await insights.count_retriable(db, criteria, most=COUNTED)
    if bulk.dry_run:
        return json_response(_answer(bulk, matched))
    bulk_id = await actions.start_bulk_retry(
        db, criteria, rate=bulk.rate, stop_share=bulk.stop_share, stop_after=bulk.stop_after,
        in_seconds=bulk.start_in_seconds, actor=access.actor,
    )  # fmt: skip
    started = await insights.get_bulk_change(db, bulk_id, tenant=access.tenant)
    return json_response(_answer(bulk, matched, bulk_id=bulk_id, starts_at=started.starts_at))


def _criteria(bulk: Bulk, choice: JobSelection, access: Access) -> dict[str, Any]:
    if other := choice.given_fields() - RETRY_FIELDS:
        raise InvalidRequest(
            f"filter fields not supported for retry: {', '.join(sorted(other))}; use q instead"
        )
    criteria = {
        "fingerprint": choice.fingerprint,
        "kind": choice.definition_key,
        "queue": choice.queue,
        "tenant": access.tenant,
        "since": choice.ended_after,
        "until": choice.ended_before,
        "limit": bulk.limit,
    }
    return {name: value for name, value in criteria.items() if value is not None}


async def _cancel(bulk: Bulk, choice: JobSelection, access: Access) -> BulkResponse:
    criteria = _active(choice, access)
    async with access.transaction() as db:
        matched = await insights.count_jobs(db, criteria, most=COUNTED)
        if bulk.dry_run:
            return _answer(bulk, matched)
        most = min(bulk.limit or CANCELED_AT_ONCE, CANCELED_AT_ONCE)
        wanted = await insights.active_job_ids(db, criteria, most=most)
    counts = {"canceled": 0, "canceling": 0, "skipped": 0}
    async with access.authenticator.pool.connection() as connection:
        for job_id in wanted:
            # One transaction per job: a single one would violate the lock order of other transactions.
            try:
                counts[
                    await actions.cancel_job(connection, job_id, actor=access.actor, tenant=access.tenant)
                ] += 1
            except (IllegalTransition, JobNotFound):  # finished in the meantime
                counts["skipped"] += 1
    left = len(wanted) == CANCELED_AT_ONCE < (bulk.limit or matched)
    return _answer(bulk, matched, more=left and matched > len(wanted), **counts)


def _active(choice: JobSelection, access: Access) -> JobFilter:
    if other := choice.given_fields() & {"fingerprint", "ended_after", "ended_before"}:
        raise InvalidRequest(
            f"filter fields not supported for cancel: {', '.join(sorted(other))}; they only apply to "
            "finished jobs"
        )
    statuses = set(choice.status or _ACTIVE)
    if not statuses <= _ACTIVE:
        raise InvalidRequest(
            f"cannot cancel jobs with status {', '.join(sorted(statuses - _ACTIVE))}: only queued and "
            "running jobs can be canceled"
        )
    return JobFilter(
        statuses=sorted(statuses),
        kind=choice.definition_key,
        queue=choice.queue,
        tenant=access.tenant,
        source=choice.source,
        created_after=choice.created_after,
        created_before=choice.created_before,
        correlation=choice.correlation_id,
        subject=choice.subject,
    )


def _answer(bulk: Bulk, matched: int, **done: Any) -> BulkResponse:
    return BulkResponse(
        action=bulk.action, dry_run=bulk.dry_run, matched=matched, count_limit=COUNTED,
        exact=matched < COUNTED, **done,
    )  # fmt: skip


SAMPLE = 5


@dataclass(frozen=True, slots=True)
class FilteredBulkChange:
    bulk: Bulk
    access: Access
    filter: Filter

    async def start(self, db: Db) -> Response:
        """Start the bulk change or, for a dry run, return what it would change."""
        search = await insights.search_changeable_jobs(
            db, self.bulk.action, self.filter, tenant=self.access.tenant
        )
        count = await insights.count_to_change(db, search, self.bulk.limit)
        response = BulkResponse(
            action=self.bulk.action, dry_run=self.bulk.dry_run, matched=count.count, exact=count.exact,
            count_limit=count.count_limit,
        )  # fmt: skip
        if self.bulk.dry_run:
            response.sample = await insights.sample_jobs(db, search, SAMPLE)
        else:
            await self._start(db, search, response)
        return json_response(response)

    async def _start(self, db: Db, search: JobQuery, response: BulkResponse) -> None:
        bulk, access = self.bulk, self.access
        criteria = {"q": format_filter(self.filter), "tenant": access.tenant, "limit": bulk.limit}
        response.bulk_id = await start_bulk_change(
            db, bulk.action, criteria, search.as_json(), rate=bulk.rate, stop_share=bulk.stop_share,
            stop_after=bulk.stop_after, in_seconds=bulk.start_in_seconds, actor=access.actor,
        )  # fmt: skip
        response.starts_at = (
            await insights.get_bulk_change(db, response.bulk_id, tenant=access.tenant)
        ).starts_at


failures = api_router("/failures", "failures")
Fingerprint = Annotated[
    str,
    Path(min_length=1, max_length=64, description="Fingerprint of the failure group, or a unique prefix."),
]


@failures.get("", response_model=Page[FailureGroup])
async def list_failures(
    access: JobReader,
    kind: QueryText = None,
    since: Annotated[ApiDatetime | None, Query(description="Only groups seen since this time.")] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Response:
    """List failure groups, latest first."""
    behind: Any = decode_cursor(cursor, datetime, str, str, str)
    criteria = FailureFilter(kind=kind, tenant=access.tenant, since=since, behind=behind, limit=limit)
    async with access.transaction() as db:
        found = await insights.list_failure_groups(db, criteria)
    return json_response(page(found, limit, "last_seen", "tenant_id", "kind", "fingerprint"))


@failures.get("/{fingerprint}", response_model=FailureDetail)
async def show_failure(
    fingerprint: Fingerprint,
    access: JobReader,
    kind: QueryText = None,
    jobs: Annotated[int, Query(ge=1, description="Number of jobs to return, up to 200.")] = 10,
) -> Response:
    """Get a failure group with its latest error and its jobs."""
    async with access.transaction() as db:
        found = await insights.get_failure(
            db, fingerprint, kind=kind, tenant=access.tenant, jobs=clamp_limit(jobs)
        )
    return json_response(found)

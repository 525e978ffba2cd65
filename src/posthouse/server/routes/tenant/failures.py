"""Failure groups and bulk retries of their jobs."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from fastapi import Path, Query, Request, Response
from pydantic import ConfigDict, Field

from posthouse import insights
from posthouse.identity import Permission
from posthouse.insights import BulkChange, FailureDetail, FailureFilter, FailureGroup
from posthouse.server.http.auth import Access, allow
from posthouse.server.http.bodies import api_router
from posthouse.server.http.idempotency import IdempotencyKey, once
from posthouse.server.http.parameters import Moment
from posthouse.server.http.responses import Cursor, Limit, Page, answer, clamped, page, read_cursor
from posthouse.server.schemas.jobs import Done, Name, Strict
from posthouse.storage.control import retry_many, stop_bulk_change
from posthouse.storage.queries import Db

router = api_router("/failures", "failures")
Reader = Annotated[Access, allow(Permission.JOBS_READ, of_tenants=True)]
Writer = Annotated[Access, allow(Permission.JOBS_WRITE, of_tenants=True)]
Kind = Annotated[str | None, Query(min_length=1, max_length=512)]
Fingerprint = Annotated[
    str,
    Path(min_length=1, max_length=64, description="Fingerprint of the failure group, or a unique prefix."),
]


@router.get("", response_model=Page[FailureGroup])
async def list_failures(
    access: Reader,
    kind: Kind = None,
    since: Annotated[Moment | None, Query(description="Only groups seen since this time.")] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Response:
    """List failure groups, latest first."""
    behind: Any = read_cursor(cursor, datetime, str, str, str)
    chosen = FailureFilter(
        kind=kind, tenant=access.whose, since=since, behind=behind, limit=(most := clamped(limit))
    )
    async with access.session() as db:
        found = await insights.failure_groups(db, chosen)
    return answer(page(found, most, "last_seen", "tenant_id", "kind", "fingerprint"))


class NewRetries(Strict):
    """A bulk retry. At least one of fingerprint, definition_key, queue and ended_after is required."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"fingerprint": "3f2a9c01d2e4b687", "rate": 50}]}
    )

    fingerprint: Name | None = None
    definition_key: Name | None = None
    queue: Name | None = None
    ended_after: Moment | None = None
    ended_before: Moment | None = None
    limit: int | None = Field(None, ge=1, le=1_000_000)
    rate: float = Field(10.0, gt=0, le=10_000)
    stop_share: float = Field(0.5, ge=0, le=1)
    stop_after: int = Field(20, ge=1, le=1_000_000)

    def chosen(self, tenant: str | None) -> dict[str, Any]:
        return {
            "fingerprint": self.fingerprint,
            "kind": self.definition_key,
            "queue": self.queue,
            "since": self.ended_after,
            "until": self.ended_before,
            "limit": self.limit,
            "tenant": tenant,
        }


@router.post("/retries", status_code=202, response_model=BulkChange)
async def start_retry(
    request: Request, new: NewRetries, access: Writer, idempotency_key: IdempotencyKey = None
) -> Response:
    """Start a bulk retry of failed jobs.

    The keeper retries the jobs at the given rate and halts if too many fail again.
    """

    async def work(db: Db) -> Response:
        bulk_id = await retry_many(
            db, new.chosen(access.whose), rate=new.rate, stop_share=new.stop_share,
            stop_after=new.stop_after, actor=access.actor,
        )  # fmt: skip
        return answer(await insights.get_bulk_change(db, bulk_id, tenant=access.whose), 202)

    return await once(request, access, idempotency_key, work)


@router.get("/retries", response_model=Page[BulkChange])
async def list_retries(access: Reader, limit: Limit = 50, cursor: Cursor = None) -> Response:
    """List bulk retries, newest first."""
    most = clamped(limit)
    before: Any = read_cursor(cursor, datetime, UUID)
    async with access.session() as db:
        found = await insights.bulk_changes(
            db, tenant=access.whose, action="retry", before=before, limit=most
        )
    return answer(page(found, most, "created_at", "id"))


@router.get("/retries/{bulk_id}", response_model=BulkChange)
async def show_retry(bulk_id: UUID, access: Reader) -> Response:
    """Get a bulk retry and its progress."""
    async with access.session() as db:
        return answer(await insights.get_bulk_change(db, bulk_id, tenant=access.whose))


@router.post("/retries/{bulk_id}/stop", response_model=Done)
async def stop_retry(bulk_id: UUID, access: Writer) -> Response:
    """Stop a bulk retry.

    Jobs that were already retried keep running.
    """
    async with access.session() as db:
        await insights.get_bulk_change(db, bulk_id, tenant=access.whose)
        return answer(Done(changed=await stop_bulk_change(db, bulk_id, actor=access.actor)))


@router.get("/{fingerprint}", response_model=FailureDetail)
async def show_failure(
    fingerprint: Fingerprint,
    access: Reader,
    kind: Kind = None,
    jobs: Annotated[int, Query(ge=1, description="Number of jobs to return, up to 200.")] = 10,
) -> Response:
    """Get a failure group with its latest error and its jobs."""
    async with access.session() as db:
        found = await insights.get_failure(
            db, fingerprint, kind=kind, tenant=access.whose, jobs=clamped(jobs)
        )
    return answer(found)

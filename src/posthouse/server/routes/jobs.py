"""Jobs of a tenant: enqueue, look, cancel, retry."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field

from posthouse import insights
from posthouse.core.request import OnDuplicate
from posthouse.core.request import Request as JobRequest
from posthouse.identity import Permission
from posthouse.insights import AttemptInfo, JobDetail, JobFilter, JobSummary
from posthouse.server.access import Access, allow
from posthouse.server.enqueueing import enqueue
from posthouse.server.paging import Cursor, Limit, Page, cursor_of, read_cursor
from posthouse.storage.control import cancel_job, retry_job

router = APIRouter(prefix="/jobs", tags=["jobs"])
Reader = Annotated[Access, allow(Permission.JOBS_READ)]
Writer = Annotated[Access, allow(Permission.JOBS_WRITE)]


class NewJob(BaseModel):
    """A job to run. What is left out comes from its definition."""

    model_config = ConfigDict(extra="forbid")

    definition_key: str
    payload: dict[str, Any] = Field(default_factory=dict)
    queue: str | None = None
    priority: int | str | None = Field(None, description="Lower first; or urgent, high, normal, low.")
    scheduled_for: datetime | None = None
    dedupe_key: str | None = None
    on_duplicate: OnDuplicate = "existing"
    correlation_id: str | None = None
    subject: str | None = None
    depends_on: list[UUID] = Field(default_factory=list)
    max_attempts: int | None = None
    timeout_seconds: float | None = None

    def request(self, access: Access) -> JobRequest:
        return JobRequest(
            kind=self.definition_key,
            payload=self.payload,
            tenant=access.principal.tenant or "default",
            queue=self.queue,
            priority=self.priority,
            at=self.scheduled_for,
            dedupe_key=self.dedupe_key,
            on_duplicate=self.on_duplicate,
            correlation_id=self.correlation_id,
            subject=self.subject,
            depends_on=self.depends_on,
            max_attempts=self.max_attempts,
            timeout=self.timeout_seconds,
            created_by=access.actor,
        )


class EnqueuedJob(BaseModel):
    id: UUID
    tenant_id: str
    status: str
    definition_key: str
    queued_at: datetime
    outcome: str


class Answer(BaseModel):
    id: UUID
    status: str


@router.post("", status_code=201)
async def create(new: NewJob, access: Writer) -> EnqueuedJob:
    """Enqueue a job."""
    request = new.request(access)
    async with access.session() as db:
        receipt = await enqueue(db, access, request)
        job = await insights.get_job(db, receipt.id)
    return EnqueuedJob(
        id=job.id,
        tenant_id=job.tenant_id,
        status=job.status,
        definition_key=job.kind,
        queued_at=job.queued_at,
        outcome=receipt.outcome,
    )


@router.get("")
async def find(
    access: Reader,
    status: Annotated[list[str] | None, Query()] = None,
    kind: str | None = None,
    queue: str | None = None,
    correlation_id: str | None = None,
    subject: str | None = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Page[JobSummary]:
    """Jobs, newest first."""
    chosen = JobFilter(
        statuses=status,
        kind=kind,
        queue=queue,
        correlation=correlation_id,
        subject=subject,
        after=read_cursor(cursor),
        limit=limit,
    )
    async with access.session() as db:
        found = await insights.list_jobs(db, chosen)
    return Page(found, cursor_of(found[-1].id) if len(found) == limit else None)


@router.get("/{job_id}")
async def show(job_id: UUID, access: Reader) -> JobDetail:
    """All of one job."""
    async with access.session() as db:
        return await insights.get_job(db, job_id)


@router.get("/{job_id}/attempts")
async def attempts(job_id: UUID, access: Reader) -> list[AttemptInfo]:
    """Its attempts, first to last."""
    async with access.session() as db:
        return await insights.attempts_of(db, job_id)


@router.post("/{job_id}/cancel")
async def cancel(job_id: UUID, access: Writer) -> Answer:
    """Cancel it: at once if it is queued, through its worker if it runs."""
    async with access.session() as db:
        return Answer(id=job_id, status=await cancel_job(db, job_id, actor=access.actor))


@router.post("/{job_id}/retry")
async def retry(job_id: UUID, access: Writer) -> Answer:
    """Run an ended job again, with fresh attempts."""
    async with access.session() as db:
        return Answer(id=job_id, status=await retry_job(db, job_id, actor=access.actor))

"""Details of a job: attempts, log, parts, steps, explanation, timeline and pipeline."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import Query, Response

from posthouse import insights
from posthouse.identity import Permission
from posthouse.insights import (
    AttemptInfo,
    LogLine,
    PartInfo,
    Pipeline,
    StepInfo,
    Timeline,
    WhichAttempt,
    Why,
)
from posthouse.server.access import Access, allow
from posthouse.server.answers import answer
from posthouse.server.bodies import api_router
from posthouse.server.paging import Cursor, Page, cursor_of, read_one

router = api_router("/jobs/{job_id}", "jobs")
Reader = Annotated[Access, allow(Permission.JOBS_READ, of_tenants=True)]
Number = Annotated[int | None, Query(ge=1, lt=2**31)]

MOST_LINES = 1000


@router.get("/attempts", response_model=list[AttemptInfo])
async def list_attempts(job_id: UUID, access: Reader) -> Response:
    """List the attempts of a job, oldest first."""
    async with access.session() as db:
        return answer(await insights.attempts_of(db, job_id, tenant=access.whose))


@router.get("/logs", response_model=Page[LogLine])
async def read_log(
    job_id: UUID,
    access: Reader,
    attempt_no: Number = None,
    generation: Number = None,
    cursor: Cursor = None,
    limit: Annotated[
        int, Query(ge=1, description=f"Number of lines; values above {MOST_LINES} are clamped.")
    ] = 200,
    last: Annotated[bool, Query(description="Return the last lines instead of the first.")] = False,
    before: Annotated[
        int | None, Query(ge=1, lt=2**63, description="With `last`: only lines before this sequence.")
    ] = None,
) -> Response:
    """Read the log of a job, oldest line first."""
    after = read_one(cursor, int)
    most = min(limit, MOST_LINES)
    which = WhichAttempt(attempt_no, generation)
    async with access.session() as db:
        if last:
            lines = await insights.end_of_log(
                db, job_id, tenant=access.whose, before=before, which=which, limit=most
            )
        else:
            lines = await insights.log_of(
                db, job_id, tenant=access.whose, after=after or 0, which=which, limit=most
            )
        if not lines:
            await insights.get_job(db, job_id, tenant=access.whose)
    return answer(Page(lines, cursor_of(lines[-1].sequence) if len(lines) == most and not last else None))


@router.get("/why", response_model=Why)
async def explain(job_id: UUID, access: Reader) -> Response:
    """Explain the status of a job.

    Returns what the job waits for, which worker runs it, or how it ended.
    """
    async with access.session() as db:
        found = await insights.why(
            db,
            job_id,
            tenant=access.whose,
            offline_after=access.offline_after,
            mismatch_seconds=access.gate.settings.mismatch_seconds,
        )
    return answer(found)


@router.get("/parts", response_model=list[PartInfo])
async def list_parts(job_id: UUID, access: Reader) -> Response:
    """List the parts of a job and their progress."""
    async with access.session() as db:
        found = await insights.parts_of(db, job_id, tenant=access.whose)
        if not found:
            await insights.get_job(db, job_id, tenant=access.whose)
    return answer(found)


@router.get("/steps", response_model=list[StepInfo])
async def list_steps(job_id: UUID, access: Reader) -> Response:
    """List the completed steps of a job, oldest first."""
    async with access.session() as db:
        found = await insights.steps_of(db, job_id, tenant=access.whose)
        if not found:
            await insights.get_job(db, job_id, tenant=access.whose)
    return answer(found)


@router.get("/timeline", response_model=Timeline)
async def draw_timeline(job_id: UUID, access: Reader) -> Response:
    """Get the timeline of a job.

    Returns waits with their reasons, attempts, steps and parts from enqueue to end, and the follow-up jobs.
    """
    async with access.session() as db:
        return answer(await insights.timeline_of(db, job_id, tenant=access.whose))


@router.get("/pipeline", response_model=Pipeline)
async def draw_pipeline(job_id: UUID, access: Reader) -> Response:
    """Get the pipeline of a job.

    Returns the jobs with the same correlation id, their dependencies and their follow-up jobs.
    """
    async with access.session() as db:
        return answer(await insights.pipeline_of(db, job_id, tenant=access.whose))

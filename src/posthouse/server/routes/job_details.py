"""What hangs on one job: attempts, log, parts, steps, why it is where it is; as a chart and as a graph."""

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
    """Its attempts, first to last."""
    async with access.session() as db:
        return answer(await insights.attempts_of(db, job_id, tenant=access.whose))


@router.get("/logs", response_model=Page[LogLine])
async def read_log(
    job_id: UUID,
    access: Reader,
    attempt: Number = None,
    generation: Number = None,
    cursor: Cursor = None,
    limit: Annotated[int, Query(ge=1, description=f"More than {MOST_LINES} counts as that.")] = 200,
    last: Annotated[bool, Query(description="The last lines instead of the first.")] = False,
    before: Annotated[
        int | None, Query(ge=1, lt=2**63, description="With last: those before the line of this sequence.")
    ] = None,
) -> Response:
    """What it logged and put out, first to last."""
    after = read_one(cursor, int)
    most = min(limit, MOST_LINES)
    which = WhichAttempt(attempt, generation)
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
    """Why it is where it is: what it waits for, who runs it, how it ended."""
    async with access.session() as db:
        return answer(await insights.why(db, job_id, tenant=access.whose))


@router.get("/parts", response_model=list[PartInfo])
async def list_parts(job_id: UUID, access: Reader) -> Response:
    """The parts that it named, and how far each is."""
    async with access.session() as db:
        found = await insights.parts_of(db, job_id, tenant=access.whose)
        if not found:
            await insights.get_job(db, job_id, tenant=access.whose)
    return answer(found)


@router.get("/steps", response_model=list[StepInfo])
async def list_steps(job_id: UUID, access: Reader) -> Response:
    """The steps that are done, first to last."""
    async with access.session() as db:
        found = await insights.steps_of(db, job_id, tenant=access.whose)
        if not found:
            await insights.get_job(db, job_id, tenant=access.whose)
    return answer(found)


@router.get("/timeline", response_model=Timeline)
async def draw_timeline(job_id: UUID, access: Reader) -> Response:
    """What took time, from its enqueue to its end: waits with their reasons, attempts, steps and parts; and
    the jobs that it made.
    """
    async with access.session() as db:
        return answer(await insights.timeline_of(db, job_id, tenant=access.whose))


@router.get("/pipeline", response_model=Pipeline)
async def draw_pipeline(job_id: UUID, access: Reader) -> Response:
    """The graph that it is part of: the jobs of its correlation, what they depend on and what they made."""
    async with access.session() as db:
        return answer(await insights.pipeline_of(db, job_id, tenant=access.whose))

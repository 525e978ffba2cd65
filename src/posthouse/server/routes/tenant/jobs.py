"""Jobs: enqueue, list, search, read, cancel and retry them."""

from __future__ import annotations

from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import Query, Request, Response

from posthouse import insights
from posthouse.core.filters import completion_at, parse_filter
from posthouse.core.filters.parser import MAX_LENGTH
from posthouse.core.states import Status
from posthouse.errors import InvalidRequest
from posthouse.insights import (
    AttemptFilter,
    AttemptInfo,
    JobCount,
    JobDetail,
    JobFilter,
    LogLine,
    PartInfo,
    Pipeline,
    StatusCounts,
    StepInfo,
    Timeline,
    Why,
)
from posthouse.server.enqueuer import Enqueued, Enqueuer, raise_if_rejected
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
    Offset,
    Page,
    clamp_limit,
    clamp_offset,
    decode_single_cursor,
    encode_cursor,
    etag_response,
    json_response,
)
from posthouse.server.schemas.jobs import (
    BatchReceipt,
    EnqueuedBatch,
    EnqueuedJob,
    JobPage,
    JobStatusResponse,
    Line,
    NewBatch,
    NewJob,
    Suggestions,
    page_of,
)
from posthouse.storage.actions import cancel_job, retry_job
from posthouse.storage.queries import Db

router = api_router("/jobs", "jobs", payloads=True)
Statuses = Annotated[list[Status] | None, Query(description="Only jobs with this status; repeatable.")]
Source = Annotated[Literal["manual", "event", "schedule", "system"] | None, Query()]


@router.post("", status_code=201, response_model=EnqueuedJob)
async def enqueue_job(
    request: Request, new: NewJob, access: JobWriter, idempotency_key: IdempotencyKey = None
) -> Response:
    """Enqueue a job.

    Callers of a tenant can enqueue only kinds that have a definition. Super-admins can enqueue any kind; the
    job waits until the definition arrives.
    """
    access = access.with_default_tenant()
    assert access.tenant is not None
    wanted = new.request(access)
    enqueuer: Enqueuer = request.app.state.enqueuer

    async def work(db: Db) -> Response:
        (done,) = await enqueuer.enqueue_in(db, [wanted], undefined=access.is_platform)
        return json_response(await existing_job(db, access, new, raise_if_rejected(done, wanted)), 201)

    if idempotency_key is not None:
        return await run_idempotent(request, access, idempotency_key, work)
    done = await enqueuer.enqueue(access.tenant, wanted, undefined=access.is_platform)
    if needs_no_read(new, done):
        return json_response(created_job(access, new, done), 201)
    async with access.transaction() as db:
        return json_response(await existing_job(db, access, new, done), 201)


async def existing_job(db: Db, access: Access, new: NewJob, done: Enqueued) -> dict[str, Any]:
    """Return the response, reading the job if its state is not known."""
    if needs_no_read(new, done):
        return created_job(access, new, done)
    job = await insights.get_job(db, done.id)
    found = {"id": job.id, "tenant_id": job.tenant_id, "status": job.status, "definition_key": job.kind}
    return {**found, "queued_at": job.queued_at, "outcome": done.outcome}


def needs_no_read(new: NewJob, done: Enqueued) -> bool:
    """Return whether the job is in its initial state: new, and not canceled by a failed dependency."""
    return done.outcome == "created" and not new.depends_on


def created_job(access: Access, new: NewJob, done: Enqueued) -> dict[str, Any]:
    return {
        "id": done.id,
        "tenant_id": access.tenant,
        "status": "queued",
        "definition_key": new.definition_key,
        "queued_at": done.queued_at,
        "outcome": "created",
    }


@router.post("/batch", status_code=201, response_model=EnqueuedBatch)
async def enqueue_jobs(
    request: Request, batch: NewBatch, access: JobWriter, idempotency_key: IdempotencyKey = None
) -> Response:
    """Enqueue up to 1,000 jobs in one transaction.

    If one job is invalid, none is enqueued. A duplicate does not fail the others; see its outcome.
    """
    access = access.with_default_tenant()
    wanted = [new.request(access) for new in batch.jobs]
    enqueuer: Enqueuer = request.app.state.enqueuer

    async def work(db: Db) -> Response:
        done = await enqueuer.enqueue_in(db, wanted, undefined=access.is_platform)
        items = [BatchReceipt(id=one.id, outcome=one.outcome) for one in done]
        created = sum(one.outcome == "created" for one in done)
        return json_response(EnqueuedBatch(items=items, created=created), 201)

    return await run_idempotent(request, access, idempotency_key, work)


@router.get("", response_model=JobPage)
async def list_jobs(
    access: JobReader,
    q: Line = None,
    status: Statuses = None,
    kind: QueryText = None,
    definition_key: Annotated[str | None, Query(max_length=512, description="Alias of kind.")] = None,
    queue: QueryText = None,
    source: Source = None,
    created_after: ApiDatetime | None = None,
    created_before: ApiDatetime | None = None,
    correlation_id: QueryText = None,
    subject: QueryText = None,
    limit: Limit = 50,
    cursor: Cursor = None,
    offset: Offset = 0,
) -> Response:
    """List jobs, newest first.

    Returns the jobs that match `q` and all other filters. The search per page is limited: if few jobs match,
    the page may be `partial` and have fewer items than requested, even none. Continue while there is a
    `next_cursor`.
    """
    if kind and definition_key and kind != definition_key:
        raise InvalidRequest("kind and definition_key are aliases; send only one")
    wanted = None if q is None else parse_filter(q)
    chosen = JobFilter(
        statuses=None if status is None else [one.value for one in status],
        kind=kind or definition_key,
        queue=queue,
        tenant=access.tenant,
        source=source,
        created_after=created_after,
        created_before=created_before,
        correlation=correlation_id,
        subject=subject,
        after=decode_single_cursor(cursor, UUID),
        limit=clamp_limit(limit),
        offset=clamp_offset(offset),
    )
    async with access.transaction() as db:
        if wanted is None or not wanted.terms:
            return json_response(page_of(await insights.page_of_jobs(db, chosen)))
        return json_response(page_of(await insights.find_jobs(db, wanted, chosen)))


@router.get("/summary", response_model=StatusCounts)
async def summarize_jobs(access: JobReader) -> Response:
    """Count the jobs by status.

    Also returns the age of the oldest queued job.
    """
    async with access.transaction() as db:
        return json_response(await insights.jobs_summary(db, tenant=access.tenant))


@router.get("/{job_id}", response_model=JobDetail)
async def show_job(request: Request, job_id: UUID, access: JobReader) -> Response:
    """Get a job."""
    async with access.transaction() as db:
        return etag_response(request, await insights.get_job(db, job_id, tenant=access.tenant))


@router.post("/{job_id}/cancel", response_model=JobStatusResponse)
async def cancel(job_id: UUID, access: JobWriter) -> Response:
    """Cancel a job.

    A queued job is canceled immediately, a running one by its worker.
    """
    async with access.transaction() as db:
        status = await cancel_job(db, job_id, actor=access.actor, tenant=access.tenant)
    return json_response(JobStatusResponse(id=job_id, status=status))


@router.post("/{job_id}/retry", response_model=JobStatusResponse)
async def retry(
    job_id: UUID,
    access: JobWriter,
    fresh: Annotated[bool, Query(description="Discard completed steps.")] = False,
) -> Response:
    """Retry a finished job, with a new set of attempts."""
    async with access.transaction() as db:
        status = await retry_job(db, job_id, actor=access.actor, tenant=access.tenant, fresh=fresh)
    return json_response(JobStatusResponse(id=job_id, status=status))


details = api_router("/jobs/{job_id}", "jobs")
Number = Annotated[int | None, Query(ge=1, lt=2**31)]

MAX_LINES = 1000


@details.get("/attempts", response_model=list[AttemptInfo])
async def list_attempts(job_id: UUID, access: JobReader) -> Response:
    """List the attempts of a job, oldest first."""
    async with access.transaction() as db:
        return json_response(await insights.list_attempts(db, job_id, tenant=access.tenant))


@details.get("/logs", response_model=Page[LogLine])
async def read_log(
    job_id: UUID,
    access: JobReader,
    attempt_no: Number = None,
    generation: Number = None,
    cursor: Cursor = None,
    limit: Annotated[
        int, Query(ge=1, description=f"Number of lines; values above {MAX_LINES} are clamped.")
    ] = 200,
    last: Annotated[bool, Query(description="Return the last lines instead of the first.")] = False,
    before: Annotated[
        int | None, Query(ge=1, lt=2**63, description="With `last`: only lines before this sequence.")
    ] = None,
) -> Response:
    """Read the log of a job, oldest line first."""
    after = decode_single_cursor(cursor, int)
    most = min(limit, MAX_LINES)
    which = AttemptFilter(attempt_no, generation)
    async with access.transaction() as db:
        if last:
            lines = await insights.end_of_log(
                db, job_id, tenant=access.tenant, before=before, which=which, limit=most
            )
        else:
            lines = await insights.read_log(
                db, job_id, tenant=access.tenant, after=after or 0, which=which, limit=most
            )
        if not lines:
            await insights.get_job(db, job_id, tenant=access.tenant)
    return json_response(
        Page(lines, encode_cursor(lines[-1].sequence) if len(lines) == most and not last else None)
    )


@details.get("/why", response_model=Why)
async def explain(job_id: UUID, access: JobReader) -> Response:
    """Explain the status of a job.

    Returns what the job waits for, which worker runs it, or how it ended.
    """
    async with access.transaction() as db:
        found = await insights.why(
            db,
            job_id,
            tenant=access.tenant,
            offline_after=access.offline_after,
            mismatch_seconds=access.authenticator.settings.mismatch_seconds,
        )
    return json_response(found)


@details.get("/parts", response_model=list[PartInfo])
async def list_parts(job_id: UUID, access: JobReader) -> Response:
    """List the parts of a job and their progress."""
    async with access.transaction() as db:
        found = await insights.parts_of(db, job_id, tenant=access.tenant)
        if not found:
            await insights.get_job(db, job_id, tenant=access.tenant)
    return json_response(found)


@details.get("/steps", response_model=list[StepInfo])
async def list_steps(job_id: UUID, access: JobReader) -> Response:
    """List the completed steps of a job, oldest first."""
    async with access.transaction() as db:
        found = await insights.steps_of(db, job_id, tenant=access.tenant)
        if not found:
            await insights.get_job(db, job_id, tenant=access.tenant)
    return json_response(found)


@details.get("/timeline", response_model=Timeline)
async def show_timeline(job_id: UUID, access: JobReader) -> Response:
    """Get the timeline of a job.

    Returns waits with their reasons, attempts, steps and parts from enqueue to end, and the follow-up jobs.
    """
    async with access.transaction() as db:
        return json_response(await insights.timeline_of(db, job_id, tenant=access.tenant))


@details.get("/pipeline", response_model=Pipeline)
async def show_pipeline(job_id: UUID, access: JobReader) -> Response:
    """Get the pipeline of a job.

    Returns the jobs with the same correlation id, their dependencies and their follow-up jobs.
    """
    async with access.transaction() as db:
        return json_response(await insights.pipeline_of(db, job_id, tenant=access.tenant))


search = api_router("/jobs", "jobs")
At = Annotated[
    int | None,
    Query(ge=0, le=MAX_LENGTH, description="Position of the text cursor in `q`; default: its end."),
]


@search.get("/count", response_model=JobCount)
async def count_jobs(access: JobReader, q: Line = None) -> Response:
    """Count the jobs that match a filter query.

    The count is exact or a lower bound; see `exact`. The search is limited and never reads all of history.
    """
    chosen = parse_filter(q or "")
    async with access.transaction() as db:
        return json_response(await insights.count_found(db, chosen, tenant=access.tenant))


@search.get("/suggest", response_model=Suggestions)
async def suggest(access: JobReader, q: Line = None, at: At = None) -> Response:
    """Suggest completions for a filter query.

    Returns field names, and values that occur.
    """
    asked = completion_at(q or "", at)
    async with access.transaction() as db:
        items = await insights.suggest(db, asked, tenant=access.tenant)
    return json_response(Suggestions(**{"from": asked.start}, to=asked.end, items=items))

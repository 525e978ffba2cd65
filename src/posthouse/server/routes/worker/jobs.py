"""Jobs of remote workers: claim, report progress, finish; in batches or one at a time."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any
from uuid import UUID

from fastapi import Header, Query, Request, Response
from pydantic_core import to_json

from posthouse.core.payload import escape
from posthouse.core.progress import encode_kept
from posthouse.errors import InvalidJob, LeaseLost
from posthouse.server.http.requests import worker_router
from posthouse.server.routes.worker.fleet import Worker, as_json
from posthouse.server.schemas.workers import (
    ClaimRequest,
    ClaimScope,
    CompleteRequest,
    FailRequest,
    LogRequest,
    ProgressRequest,
    ReadyBatches,
    SettleRequest,
    SingleCompletion,
    SingleFailure,
    SingleLog,
    SingleReport,
    Step,
    Token,
)
from posthouse.server.workers.reports import WriteResult
from posthouse.worker.services import PART_FIELDS

router = worker_router("/worker/jobs", "worker")
BUSY_PAUSES = (0.05, 0.1, 0.2, 0.4, 0.8)
"""Seconds between the tries of a report whose job another transaction has locked."""
LeaseToken = Annotated[UUID, Header(alias="X-Lease-Token", description="Lease token of the claim.")]


@router.post("/claim")
async def claim(body: ClaimRequest, request: Request, worker: Worker) -> Response:
    """Claim jobs.

    Each job comes with a lease. Only jobs of the tenant and the queues of the key are returned. With
    `wait_seconds` the response is delayed until jobs are available. `recovered` contains the jobs of the
    claims in `pending_tokens`.
    """
    return Response(await worker.claim(body, request), media_type="application/json")


@router.post("/ready_batches")
async def ready_batches(body: ReadyBatches, worker: Worker) -> Response:
    """List the batch kinds that have ready jobs.

    With the number of jobs, at most one batch, and the position of the newest.
    """
    await worker.check_owner(body.worker_id)
    if body.wants_wakeup:
        await worker.notifications.wakeup_requests.request(body.queues)
    found = await worker.workers.leases(body.worker_id, 30.0).ready_batches(
        body.queues, body.sizes, dict(body.lane_cursors)
    )
    return as_json(batches=[batch._asdict() for batch in found])


@router.post("/next_token")
async def next_token(body: ClaimScope, worker: Worker) -> Response:
    """Get the time until a rate limit allows another job.

    `seconds` is null if no rate limit blocks jobs.
    """
    return as_json(seconds=await worker.workers.shared_leases.next_token(body.queues, body.kinds))


@router.post("/complete")
async def complete_many(body: CompleteRequest, worker: Worker) -> Response:
    """Report jobs that succeeded.

    With results and follow-up jobs. Jobs in `lost` and `rejected` were not stored.
    """
    await worker.check_owner(body.worker_id)
    return _written(await worker.reports.complete(body.jobs))


@router.post("/settle")
async def settle_many(body: SettleRequest, worker: Worker) -> Response:
    """Report attempts that did not succeed, with their outcomes.

    The worker decides the outcome: retry, fail, snooze, cancel, release and so on.
    """
    await worker.check_owner(body.worker_id)
    return _written(await worker.reports.settle(body.jobs))


@router.post("/fail")
async def fail_many(body: FailRequest, worker: Worker) -> Response:
    """Report failed attempts.

    The server decides by the retry policy of each job whether it is retried.
    """
    await worker.check_owner(body.worker_id)
    return _written(await worker.reports.fail(body.jobs))


@router.post("/progress")
async def report_many(body: ProgressRequest, worker: Worker) -> Response:
    """Report the progress of jobs.

    Each report extends the lease of its job. Send reports in `busy` again.
    """
    await worker.check_owner(body.worker_id)
    missed = await worker.reports.progress(body.jobs, body.lease_seconds)
    return as_json(
        **{name: [str(job) for job, what in missed.items() if what == name] for name in ("lost", "busy")}
    )


@router.post("/log", status_code=204)
async def log_many(body: LogRequest, worker: Worker) -> None:
    """Write log lines of jobs.

    Lines of lost leases are dropped.
    """
    await worker.check_owner(body.worker_id)
    await worker.reports.log(body.lines, body.lease_seconds)


@router.get("/{job_id}/parts")
async def parts(job_id: UUID, token: LeaseToken, worker: Worker) -> Response:
    """List the parts of a job, including earlier attempts."""
    await worker.get_attempt(job_id, token)
    rows = await worker.workers.attempts(30.0).parts(job_id, token)
    return _list([{name: row[name] for name in PART_FIELDS} for row in rows])


@router.get("/{job_id}/steps")
async def steps(
    job_id: UUID,
    token: LeaseToken,
    worker: Worker,
    name: Annotated[str | None, Query(max_length=200, pattern=r"^[^\x00]*$")] = None,
) -> Response:
    """List the completed steps of a job, oldest first.

    With `name`, returns only that step and its result.
    """
    await worker.get_attempt(job_id, token)
    store = worker.workers.attempts(30.0)
    if name is None:
        return _list([{"name": done} for done in await store.steps_done(job_id, token)])
    text = await store.step_result(job_id, token, name)
    if text is None:
        return _list([])
    return Response(
        b'[{"name":%b,"result":%b}]' % (to_json(name), text.encode()), media_type="application/json"
    )


@router.post("/{job_id}/steps")
async def save_step(job_id: UUID, step: Step, worker: Worker) -> Response:
    """Store a completed step.

    `outcome` is `again` if the step was stored before.
    """
    await worker.get_attempt(job_id, step.token)
    limit = worker.settings.max_result_bytes
    text = encode_kept(f"step {step.name!r}", step.result, limit)
    values = (job_id, step.token, step.lease_seconds, escape(step.name), text, step.seconds, False)
    outcome = await worker.workers.attempts(step.lease_seconds).save_step(values)
    if outcome == "lost":
        raise _lost(job_id)
    return as_json(outcome=outcome)


@router.post("/{job_id}/heartbeat")
async def beat_one(job_id: UUID, body: Token, worker: Worker) -> Response:
    """Renew the lease of a job.

    Stop the job if `canceled` is true.
    """
    attempt = await worker.get_attempt(job_id, body.token)
    worker_id = attempt["worker_id"]
    verdicts = await worker.workers.beat(worker_id, [job_id], [body.token], body.lease_seconds)
    if verdicts.get(job_id) == "lost":
        raise _lost(job_id)
    return as_json(canceled=verdicts.get(job_id) == "cancel", drain=worker_id in verdicts)


@router.post("/{job_id}/progress")
async def report_one(job_id: UUID, body: SingleReport, worker: Worker) -> Response:
    """Report the progress of a job.

    Extends its lease. `busy` means that another transaction has locked the job for more than a second:
    repeat the report.
    """
    report = {**body.model_dump(exclude={"lease_seconds"}, exclude_none=True), "id": job_id}
    if body.parts:
        report["derive"] = body.percent is None
    for pause in (*BUSY_PAUSES, None):
        missed = await worker.reports.progress([report], body.lease_seconds)
        if missed.get(job_id) == "lost":
            raise _lost(job_id)
        if job_id not in missed or pause is None:
            break
        await asyncio.sleep(pause)
    return as_json(busy=job_id in missed)


@router.post("/{job_id}/log", status_code=204)
async def log_one(job_id: UUID, body: SingleLog, worker: Worker) -> None:
    """Write log lines of a job."""
    await worker.get_attempt(job_id, body.token)
    lease = {"id": job_id, "token": body.token, "stream": body.stream, "level": body.level}
    await worker.reports.log([{**lease, "text": text} for text in body.lines], body.lease_seconds)


@router.post("/{job_id}/complete")
async def complete_one(job_id: UUID, body: SingleCompletion, worker: Worker) -> Response:
    """Report that a job succeeded."""
    return _written_one(job_id, await worker.reports.complete([{**dict(body), "id": job_id}]))


@router.post("/{job_id}/fail")
async def fail_one(job_id: UUID, body: SingleFailure, worker: Worker) -> Response:
    """Report that an attempt failed.

    The job is retried according to its retry policy.
    """
    return _written_one(job_id, await worker.reports.fail([{**dict(body), "id": job_id}]))


def _written(written: WriteResult) -> Response:
    return as_json(lost=[str(job_id) for job_id in written.lost], rejected=written.rejected)


def _written_one(job_id: UUID, written: WriteResult) -> Response:
    if written.lost:
        raise _lost(job_id)
    if written.rejected:
        raise InvalidJob(written.rejected[0]["detail"])
    return as_json(id=str(job_id))


def _lost(job_id: UUID) -> LeaseLost:
    return LeaseLost(f"lease lost: job {job_id} was reassigned to another worker; discard the job")


def _list(items: list[Any]) -> Response:
    return Response(to_json(items), media_type="application/json")

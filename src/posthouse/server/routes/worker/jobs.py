"""Jobs of remote workers: claim, report progress, finish; in batches or one at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Annotated, Any
from uuid import UUID

from fastapi import Header, Query, Request, Response
from pydantic_core import to_json

from posthouse.core.payload import escape
from posthouse.core.progress import encode_kept
from posthouse.errors import InvalidJob, LeaseLost
from posthouse.server.http.auth import Access
from posthouse.server.http.bodies import worker_router
from posthouse.server.routes.worker.fleet import NotificationsDep, RemoteWorkersDep, Worker, as_json
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
from posthouse.server.workers import claims as claiming
from posthouse.server.workers.registry import RemoteWorkers
from posthouse.server.workers.reports import AttemptReports, WriteResult
from posthouse.storage.attempts import LogLine
from posthouse.worker.services import PART_FIELDS

router = worker_router("/worker/jobs", "worker")
BUSY_PAUSES = (0.05, 0.1, 0.2, 0.4, 0.8)
"""Seconds between the tries of a report whose job another transaction has locked."""
LeaseToken = Annotated[UUID, Header(alias="X-Lease-Token", description="Lease token of the claim.")]


@router.post("/claim")
async def claim(
    asked: ClaimRequest,
    request: Request,
    access: Worker,
    workers: RemoteWorkersDep,
    notifications: NotificationsDep,
) -> Response:
    """Claim jobs.

    Each job comes with a lease. Only jobs of the tenant and the queues of the key are returned. With
    `wait_seconds` the response is delayed until jobs are available. `recovered` contains the jobs of the
    claims in `unanswered`.
    """
    answer = await claiming.claim(workers, notifications, access, asked, request)
    return Response(answer, media_type="application/json")


@router.post("/ready_batches")
async def ready_batches(
    asked: ReadyBatches, access: Worker, workers: RemoteWorkersDep, notifications: NotificationsDep
) -> Response:
    """List the batch kinds that have ready jobs.

    With the number of jobs, at most one batch, and the position of the newest.
    """
    await workers.check_owner(access, asked.worker_id)
    if asked.hungry:
        await notifications.wakeup_requests.feel(asked.queues)
    found = await workers.leases(asked.worker_id, 30.0).ready_batches(
        asked.queues, asked.sizes, dict(asked.marks)
    )
    return as_json(batches=[batch._asdict() for batch in found])


@router.post("/next_token")
async def next_token(asked: ClaimScope, access: Worker, workers: RemoteWorkersDep) -> Response:
    """Get the time until a rate limit allows another job.

    `seconds` is null if no rate limit blocks jobs.
    """
    del access
    return as_json(seconds=await workers.shared_leases.next_token(asked.queues, asked.kinds))


@router.post("/complete")
async def complete_many(
    asked: CompleteRequest, request: Request, access: Worker, workers: RemoteWorkersDep
) -> Response:
    """Report jobs that succeeded.

    With results and follow-up jobs. Jobs in `lost` and `refused` were not stored.
    """
    await workers.check_owner(access, asked.worker_id)
    return _written(await reports_of(request, access, workers, asked.worker_id).complete(asked.jobs))


@router.post("/settle")
async def settle_many(
    asked: SettleRequest, request: Request, access: Worker, workers: RemoteWorkersDep
) -> Response:
    """Report attempts that did not succeed, with their outcomes.

    The worker decides the outcome: retry, fail, snooze, cancel, release and so on.
    """
    await workers.check_owner(access, asked.worker_id)
    return _written(await reports_of(request, access, workers, asked.worker_id).settle(asked.jobs))


@router.post("/fail")
async def fail_many(
    asked: FailRequest, request: Request, access: Worker, workers: RemoteWorkersDep
) -> Response:
    """Report failed attempts.

    The server decides by the retry policy of each job whether it is retried.
    """
    await workers.check_owner(access, asked.worker_id)
    return _written(await reports_of(request, access, workers, asked.worker_id).fail(asked.jobs))


@router.post("/progress")
async def report_many(asked: ProgressRequest, access: Worker, workers: RemoteWorkersDep) -> Response:
    """Report the progress of jobs.

    Each report extends the lease of its job. Send reports in `busy` again.
    """
    await workers.check_owner(access, asked.worker_id)
    others = await _leased_by_others(workers, access, asked.jobs)
    own = [_report(job) for job in asked.jobs if job["id"] not in others]
    missed = await workers.notebook(asked.lease_seconds).report(own) if own else {}
    return as_json(
        lost=[str(job_id) for job_id, verdict in missed.items() if verdict == "lost"] + [*map(str, others)],
        busy=[str(job_id) for job_id, verdict in missed.items() if verdict == "busy"],
    )


@router.post("/log", status_code=204)
async def log_many(asked: LogRequest, access: Worker, workers: RemoteWorkersDep) -> None:
    """Write log lines of jobs.

    Lines of lost leases are dropped.
    """
    await workers.check_owner(access, asked.worker_id)
    others = await _leased_by_others(workers, access, asked.lines)
    lines = [
        LogLine(
            line["id"].hex, line["token"].hex, line.get("age", 0.0), line.get("stream", "log"),
            line.get("level"), escape(line["text"]),
        )
        for line in asked.lines if line["id"] not in others
    ]  # fmt: skip
    if lines:
        await workers.notebook(asked.lease_seconds).write_log(lines)


@router.get("/{job_id}/parts")
async def parts(job_id: UUID, token: LeaseToken, access: Worker, workers: RemoteWorkersDep) -> Response:
    """List the parts of a job, including earlier attempts."""
    await workers.get_attempt(access, job_id, token)
    rows = await workers.notebook(30.0).parts(job_id, token)
    return _list([{name: row[name] for name in PART_FIELDS} for row in rows])


@router.get("/{job_id}/steps")
async def steps(
    job_id: UUID,
    token: LeaseToken,
    access: Worker,
    workers: RemoteWorkersDep,
    name: Annotated[str | None, Query(max_length=200, pattern=r"^[^\x00]*$")] = None,
) -> Response:
    """List the completed steps of a job, oldest first.

    With `name`, returns only that step and its result.
    """
    await workers.get_attempt(access, job_id, token)
    notebook = workers.notebook(30.0)
    if name is None:
        return _list([{"name": done} for done in await notebook.steps_done(job_id, token)])
    text = await notebook.step_result(job_id, token, name)
    if text is None:
        return _list([])
    return Response(
        b'[{"name":%b,"result":%b}]' % (to_json(name), text.encode()), media_type="application/json"
    )


@router.post("/{job_id}/steps")
async def keep_step(
    job_id: UUID, step: Step, request: Request, access: Worker, workers: RemoteWorkersDep
) -> Response:
    """Store a completed step.

    `outcome` is `again` if the step was stored before.
    """
    await workers.get_attempt(access, job_id, step.token)
    limit = request.app.state.settings.max_result_bytes
    text = encode_kept(f"step {step.name!r}", step.result, limit)
    values = (job_id, step.token, step.lease_seconds, escape(step.name), text, step.seconds, False)
    outcome = await workers.notebook(step.lease_seconds).keep_step(values)
    if outcome == "lost":
        raise _lost(job_id)
    return as_json(outcome=outcome)


@router.post("/{job_id}/heartbeat")
async def beat_one(job_id: UUID, asked: Token, access: Worker, workers: RemoteWorkersDep) -> Response:
    """Renew the lease of a job.

    Stop the job if `canceled` is true.
    """
    held = await workers.get_attempt(access, job_id, asked.token)
    verdicts = await workers.beat(held["worker_id"], [job_id], [asked.token], asked.lease_seconds)
    if verdicts.get(job_id) == "lost":
        raise _lost(job_id)
    return as_json(canceled=verdicts.get(job_id) == "cancel", drain=held["worker_id"] in verdicts)


@router.post("/{job_id}/progress")
async def report_one(
    job_id: UUID, asked: SingleReport, access: Worker, workers: RemoteWorkersDep
) -> Response:
    """Report the progress of a job.

    Extends its lease. `busy` means that another transaction has locked the job for more than a second:
    repeat the report.
    """
    await workers.get_attempt(access, job_id, asked.token)
    report = asked.model_dump(exclude={"lease_seconds"}, exclude_none=True)
    if asked.parts:
        report["derive"] = asked.percent is None
    for pause in (*BUSY_PAUSES, None):
        missed = await workers.notebook(asked.lease_seconds).report([_report({**report, "id": job_id})])
        if missed.get(job_id) == "lost":
            raise _lost(job_id)
        if job_id not in missed or pause is None:
            break
        await asyncio.sleep(pause)
    return as_json(busy=job_id in missed)


@router.post("/{job_id}/log", status_code=204)
async def log_one(job_id: UUID, asked: SingleLog, access: Worker, workers: RemoteWorkersDep) -> None:
    """Write log lines of a job."""
    await workers.get_attempt(access, job_id, asked.token)
    if asked.lines:
        said = [(job_id.hex, asked.token.hex, 0.0, asked.stream, asked.level, escape(t)) for t in asked.lines]
        await workers.notebook(asked.lease_seconds).write_log([LogLine(*values) for values in said])


@router.post("/{job_id}/complete")
async def complete_one(
    job_id: UUID, asked: SingleCompletion, request: Request, access: Worker, workers: RemoteWorkersDep
) -> Response:
    """Report that a job succeeded."""
    item = {"id": job_id, "token": asked.token, "result": asked.result, "followups": asked.followups}
    return alone(job_id, await reports_of(request, access, workers, job_id).complete([item]))


@router.post("/{job_id}/fail")
async def fail_one(
    job_id: UUID, asked: SingleFailure, request: Request, access: Worker, workers: RemoteWorkersDep
) -> Response:
    """Report that an attempt failed.

    The job is retried according to its retry policy.
    """
    item = {"id": job_id, "token": asked.token, "error": asked.error, "retry": asked.retry}
    return alone(job_id, await reports_of(request, access, workers, job_id).fail([item]))


async def _leased_by_others(
    workers: RemoteWorkers, access: Access, items: Sequence[Mapping[str, Any]]
) -> set[UUID]:
    return await workers.leased_by_others(
        access, [item["id"] for item in items], [item["token"] for item in items]
    )


def reports_of(request: Request, access: Access, workers: RemoteWorkers, worker_id: UUID) -> AttemptReports:
    return AttemptReports(access, workers, request.app.state.settings, worker_id)


def _report(job: Any) -> dict[str, Any]:
    return {**job, "id": job["id"].hex, "token": job["token"].hex}


def _written(written: WriteResult) -> Response:
    return as_json(lost=[str(job_id) for job_id in written.lost], refused=written.refused)


def alone(job_id: UUID, written: WriteResult) -> Response:
    if written.lost:
        raise _lost(job_id)
    if written.refused:
        raise InvalidJob(written.refused[0]["detail"])
    return as_json(id=str(job_id))


def _lost(job_id: UUID) -> LeaseLost:
    return LeaseLost(f"lease lost: job {job_id} was reassigned to another worker; discard the job")


def _list(items: list[Any]) -> Response:
    return Response(to_json(items), media_type="application/json")

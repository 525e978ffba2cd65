"""The simple worker API under /api/worker: one worker per key, one job at a time, no tokens to store.

Sending the optional `claim_token` also protects against reports of the worker's own earlier attempts.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any
from uuid import UUID

from fastapi import Depends, Request, Response
from pydantic import ConfigDict, Field
from pydantic_core import from_json

from posthouse.errors import WorkerNotFound
from posthouse.identity import Role
from posthouse.server.http.auth import Access
from posthouse.server.http.bodies import worker_router
from posthouse.server.routes.worker.fleet import (
    NotificationsDep,
    RemoteWorkersDep,
    Worker,
    as_json,
    registrar,
)
from posthouse.server.routes.worker.jobs import alone, report_one, reports_of
from posthouse.server.schemas.jobs import ApiModel, Object
from posthouse.server.schemas.workers import (
    NO_MESSAGE,
    ClaimRequest,
    Count,
    LongText,
    Name,
    PartChange,
    PartStatus,
    Percent,
    Registration,
    SingleReport,
    Text,
    Word,
)
from posthouse.server.workers import claims as claiming
from posthouse.server.workers.registry import RemoteWorkers, register_with_new_key
from posthouse.server.workers.registry import register as register_worker
from posthouse.settings import Settings

router = worker_router("/worker", "worker (simple)")


def settings_of(request: Request) -> Settings:
    settings: Settings = request.app.state.settings
    return settings


TheSettings = Annotated[Settings, Depends(settings_of)]
PATIENT_BEATS = 2
"""For how many heartbeat intervals jobs are reserved for a preferred idle worker."""


class SimpleRegistration(ApiModel):
    """A worker to register."""

    worker_name: Text = ""
    worker_type: Text = "remote"
    capabilities: Object = Field(default_factory=dict)
    metadata: Object = Field(default_factory=dict)
    queues: list[Word] = Field(default_factory=lambda: ["default"], max_length=1000, fail_fast=True)
    kinds: list[Word] = Field(default_factory=list, max_length=10_000, fail_fast=True)
    tenant: Text | None = None


class SimpleHeartbeat(ApiModel):
    """A heartbeat."""

    model_config = ConfigDict(extra="ignore")

    status: Text = "idle"


class SimpleClaim(ApiModel):
    """A claim of one job."""

    queues: list[Word] | None = Field(default=None, max_length=1000, fail_fast=True)
    kinds: list[Word] | None = Field(default=None, max_length=10_000, fail_fast=True)
    wait_seconds: Annotated[float, Field(ge=0, le=60)] = 0.0


class JobRef(ApiModel):
    """A claimed job."""

    job_id: UUID
    claim_token: UUID | None = None


class PartProgress(ApiModel):
    """Progress of a part of the job, such as a video quality. Omitted fields stay unchanged."""

    quality: Name
    status: PartStatus = "in_progress"
    progress_percent: Percent | None = None
    segments_total: Count | None = None
    segments_completed: Count | None = None
    error_message: LongText | None = None


class Progress(JobRef):
    """Progress of a job."""

    current_step: Text | None = None
    progress_percent: Percent | None = None
    quality_progress: list[PartProgress] = Field(default_factory=list, max_length=1000, fail_fast=True)


class Complete(JobRef):
    """The result of a job that succeeded."""

    result: Any = None


class Failed(JobRef):
    """The error of a failed attempt."""

    error_message: str = Field(NO_MESSAGE, max_length=100_000)
    retry: bool = True


@router.post("/register", status_code=201)
async def register(
    new: SimpleRegistration,
    access: Annotated[Access, Depends(registrar)],
    workers: RemoteWorkersDep,
    settings: TheSettings,
) -> dict[str, Any]:
    """Register a worker.

    Requires the `X-Admin-Secret` header or the key of an admin. The response contains a new API key for the
    worker, which is returned only once. The worker is to send a heartbeat every `heartbeat_seconds`, and a
    progress report of its job within `claim_seconds`.
    """
    asked = Registration(
        name=new.worker_name,
        capabilities=new.capabilities,
        metadata={**new.metadata, "type": new.worker_type},
        queues=new.queues,
        kinds=new.kinds,
        offers=[word for word, has in new.capabilities.items() if has is True],
        tenant=new.tenant,
        heartbeat_seconds=PATIENT_BEATS * settings.simple_heartbeat_seconds,
    )
    does = register_worker if access.principal.role is Role.WORKER else register_with_new_key
    known = asdict(await does(workers, access, asked))
    return {
        "worker_id": known["worker_id"],
        "worker_name": known["name"],
        "api_key": known["api_key"],
        "heartbeat_seconds": settings.simple_heartbeat_seconds,
        "claim_seconds": settings.simple_claim_seconds,
    }


@router.post("/heartbeat")
async def heartbeat(
    alive: SimpleHeartbeat, access: Worker, workers: RemoteWorkersDep, settings: TheSettings
) -> Response:
    """Record a worker heartbeat."""
    del alive
    worker = await _worker(access, workers)
    verdicts = await workers.beat(worker["id"], [], [], settings.simple_claim_seconds)
    return as_json(status="ok", drain=worker["id"] in verdicts)


@router.post("/claim")
async def claim(
    asking: SimpleClaim,
    request: Request,
    access: Worker,
    workers: RemoteWorkersDep,
    notifications: NotificationsDep,
    settings: TheSettings,
) -> Response:
    """Claim a job.

    `job` is null if none is available.
    """
    worker = await _worker(access, workers)
    kinds = asking.kinds or worker["kinds"] or await workers.known_kinds()
    asked = ClaimRequest(
        worker_id=worker["id"],
        queues=asking.queues or worker["queues"],
        kinds=kinds,
        lease_seconds=settings.simple_claim_seconds,
        wait_seconds=asking.wait_seconds,
        offers=worker["offers"],
        patience_seconds=PATIENT_BEATS * settings.simple_heartbeat_seconds,
    )
    answer = from_json(await claiming.claim(workers, notifications, access, asked, request))
    if not answer["jobs"]:
        return as_json(job=None, message="no jobs available")
    (job,) = answer["jobs"]
    held = {"claim_token": answer["token"], "claim_seconds": settings.simple_claim_seconds}
    return as_json(job={**job, "job_id": job["id"]}, **held)


@router.post("/progress")
async def progress(
    told: Progress, access: Worker, workers: RemoteWorkersDep, settings: TheSettings
) -> Response:
    """Report the progress of a job.

    Extends the claim.
    """
    report = SingleReport(
        token=await _token(told, access, workers),
        lease_seconds=settings.simple_claim_seconds,
        step=told.current_step,
        percent=told.progress_percent,
        parts=[_part(quality) for quality in told.quality_progress],
    )
    return await report_one(told.job_id, report, access, workers)


@router.post("/complete")
async def complete(done: Complete, request: Request, access: Worker, workers: RemoteWorkersDep) -> Response:
    """Report that a job succeeded."""
    item = {"id": done.job_id, "token": await _token(done, access, workers), "result": done.result}
    return alone(done.job_id, await reports_of(request, access, workers, done.job_id).complete([item]))


@router.post("/fail")
async def fail(failed: Failed, request: Request, access: Worker, workers: RemoteWorkersDep) -> Response:
    """Report that an attempt failed.

    The job is retried according to its retry policy.
    """
    token = await _token(failed, access, workers)
    item = {"id": failed.job_id, "token": token, "error": failed.error_message, "retry": failed.retry}
    return alone(failed.job_id, await reports_of(request, access, workers, failed.job_id).fail([item]))


def _part(quality: PartProgress) -> PartChange:
    return {
        "name": quality.quality,
        "status": quality.status,
        "percent": quality.progress_percent,
        "total": quality.segments_total,
        "done": quality.segments_completed,
        "error": quality.error_message,
    }


async def _worker(access: Access, workers: RemoteWorkers) -> dict[str, Any]:
    worker = await workers.latest_worker(access.principal)
    if worker is None:
        raise WorkerNotFound(
            "no worker is registered with this key; register one with POST /api/worker/register"
        )
    return worker


async def _token(told: JobRef, access: Access, workers: RemoteWorkers) -> UUID:
    return told.claim_token or await workers.lease_token(access, told.job_id)


registry = worker_router("/workers", "workers")
"""For programs that only need a place in the registry of workers: register, and send heartbeats."""
HEARTBEAT_SECONDS = 60.0
"""The interval that the registration promises. A worker that missed five is offline."""
LEASE_SECONDS = 30.0


class WorkerToRegister(SimpleRegistration):
    """A worker to register."""

    worker_id: UUID | None = Field(
        default=None, description="Generated by the worker, so that the request can be repeated."
    )
    worker_version: Text = Field(default="", description="Version of the worker.")
    concurrency: Annotated[int, Field(ge=1, lt=2**31)] = 1


@registry.post("/register", status_code=201)
async def register_one(
    new: WorkerToRegister, access: Annotated[Access, Depends(registrar)], workers: RemoteWorkersDep
) -> dict[str, Any]:
    """Register a worker.

    With the `X-Admin-Secret` header or the key of an admin, the response contains a new API key for the
    worker, which is returned only once. Send a heartbeat every `heartbeat_seconds`.
    """
    asked = Registration(
        worker_id=new.worker_id,
        name=new.worker_name,
        version=new.worker_version,
        capabilities=new.capabilities,
        metadata={**new.metadata, "type": new.worker_type},
        queues=new.queues,
        kinds=new.kinds,
        concurrency=new.concurrency,
        offers=[word for word, has in new.capabilities.items() if has is True],
        heartbeat_seconds=HEARTBEAT_SECONDS,
        tenant=new.tenant,
    )
    does = register_worker if access.principal.role is Role.WORKER else register_with_new_key
    known = asdict(await does(workers, access, asked))
    return {
        "worker_id": known["worker_id"],
        "worker_name": known["name"],
        "worker_version": new.worker_version,
        "heartbeat_seconds": HEARTBEAT_SECONDS,
        "api_key": known["api_key"],
    }


@registry.post("/{worker_id}/heartbeat")
async def record_heartbeat(
    worker_id: UUID, access: Worker, workers: RemoteWorkersDep, alive: SimpleHeartbeat | None = None
) -> Response:
    """Record a heartbeat.

    `drain`: finish the running jobs and stop.
    """
    del alive
    await workers.check_owner(access, worker_id)
    verdicts = await workers.beat(worker_id, [], [], LEASE_SECONDS)
    return as_json(worker_id=worker_id, status="ok", drain=worker_id in verdicts)

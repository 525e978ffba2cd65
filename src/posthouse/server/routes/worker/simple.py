"""The simple worker API under /api/worker: one worker per key, one job at a time, no tokens to store.

Sending the optional `claim_token` also protects against reports of the worker's own earlier attempts.
"""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from fastapi import Request, Response
from pydantic import ConfigDict, Field
from pydantic_core import from_json

from posthouse.errors import WorkerNotFound
from posthouse.server.http.requests import worker_router
from posthouse.server.routes.worker.fleet import Caller, Registrar, Worker, as_json
from posthouse.server.routes.worker.jobs import complete_one, fail_one, report_one
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
    SingleCompletion,
    SingleFailure,
    SingleReport,
    Text,
    Word,
)

router = worker_router("/worker", "worker (simple)")


PATIENT_BEATS = 2
"""For how many heartbeat intervals jobs are reserved for a preferred idle worker."""


class SimpleRegistration(ApiModel):
    """A worker to register."""

    worker_name: Text = ""
    worker_type: Text = "remote"
    capabilities: Object = Field(
        default_factory=dict,
        description="Capabilities of the worker. Jobs can require or prefer those that are true.",
    )
    metadata: Object = Field(default_factory=dict)
    queues: list[Word] = Field(default_factory=lambda: ["default"], max_length=1000, fail_fast=True)
    kinds: list[Word] = Field(default_factory=list, max_length=10_000, fail_fast=True)
    tenant: Text | None = None

    def registration(self, **more: Any) -> Registration:
        return Registration(
            name=self.worker_name,
            capability_details=self.capabilities,
            metadata={**self.metadata, "type": self.worker_type},
            queues=self.queues,
            kinds=self.kinds,
            capabilities=[word for word, has in self.capabilities.items() if has is True],
            tenant=self.tenant,
            **more,
        )


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
async def register(new: SimpleRegistration, caller: Registrar) -> dict[str, Any]:
    """Register a worker.

    Requires the `X-Admin-Secret` header or the key of an admin. The response contains a new API key for the
    worker, which is returned only once. The worker is to send a heartbeat every `heartbeat_seconds`, and a
    progress report of its job within `claim_seconds`.
    """
    interval = caller.settings.simple_heartbeat_seconds
    known = await caller.register(new.registration(heartbeat_seconds=PATIENT_BEATS * interval))
    return {
        "worker_id": known["worker_id"],
        "worker_name": known["name"],
        "api_key": known["api_key"],
        "heartbeat_seconds": interval,
        "claim_seconds": caller.settings.simple_claim_seconds,
    }


@router.post("/heartbeat")
async def heartbeat(alive: SimpleHeartbeat, worker: Worker) -> Response:
    """Record a worker heartbeat."""
    del alive
    known = await _latest_worker(worker)
    verdicts = await worker.workers.beat(known["id"], [], [], worker.settings.simple_claim_seconds)
    return as_json(status="ok", drain=known["id"] in verdicts)


@router.post("/claim")
async def claim(claim_body: SimpleClaim, request: Request, worker: Worker) -> Response:
    """Claim a job.

    `job` is null if none is available.
    """
    known, settings = await _latest_worker(worker), worker.settings
    body = ClaimRequest(
        worker_id=known["id"],
        queues=claim_body.queues or known["queues"],
        kinds=claim_body.kinds or known["kinds"] or await worker.workers.known_kinds(),
        lease_seconds=settings.simple_claim_seconds,
        wait_seconds=claim_body.wait_seconds,
        capabilities=known["capabilities"],
        preference_wait_seconds=PATIENT_BEATS * settings.simple_heartbeat_seconds,
    )
    answer = from_json(await worker.claim(body, request))
    if not answer["jobs"]:
        return as_json(job=None, message="no jobs available")
    (job,) = answer["jobs"]
    lease = {"claim_token": answer["token"], "claim_seconds": settings.simple_claim_seconds}
    return as_json(job={**job, "job_id": job["id"]}, **lease)


@router.post("/progress")
async def progress(body: Progress, worker: Worker) -> Response:
    """Report the progress of a job.

    Extends the claim.
    """
    report = SingleReport(
        token=await _token(body, worker),
        lease_seconds=worker.settings.simple_claim_seconds,
        step=body.current_step,
        percent=body.progress_percent,
        parts=[_part(quality) for quality in body.quality_progress],
    )
    return await report_one(body.job_id, report, worker)


@router.post("/complete")
async def complete(body: Complete, worker: Worker) -> Response:
    """Report that a job succeeded."""
    completion = SingleCompletion(token=await _token(body, worker), result=body.result)
    return await complete_one(body.job_id, completion, worker)


@router.post("/fail")
async def fail(body: Failed, worker: Worker) -> Response:
    """Report that an attempt failed.

    The job is retried according to its retry policy.
    """
    token = await _token(body, worker)
    failure = SingleFailure(token=token, error=body.error_message, retry=body.retry)
    return await fail_one(body.job_id, failure, worker)


def _part(quality: PartProgress) -> PartChange:
    return {
        "name": quality.quality,
        "status": quality.status,
        "percent": quality.progress_percent,
        "total": quality.segments_total,
        "done": quality.segments_completed,
        "error": quality.error_message,
    }


async def _latest_worker(worker: Caller) -> dict[str, Any]:
    known = await worker.workers.latest_worker(worker.access.principal)
    if known is None:
        raise WorkerNotFound(
            "no worker is registered with this key; register one with POST /api/worker/register"
        )
    return known


async def _token(body: JobRef, worker: Caller) -> UUID:
    return body.claim_token or await worker.workers.lease_token(worker.access, body.job_id)


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
async def register_one(new: WorkerToRegister, caller: Registrar) -> dict[str, Any]:
    """Register a worker.

    With the `X-Admin-Secret` header or the key of an admin, the response contains a new API key for the
    worker, which is returned only once. Send a heartbeat every `heartbeat_seconds`.
    """
    body = new.registration(
        worker_id=new.worker_id,
        version=new.worker_version,
        concurrency=new.concurrency,
        heartbeat_seconds=HEARTBEAT_SECONDS,
    )
    known = await caller.register(body)
    return {
        "worker_id": known["worker_id"],
        "worker_name": known["name"],
        "worker_version": new.worker_version,
        "heartbeat_seconds": HEARTBEAT_SECONDS,
        "api_key": known["api_key"],
    }


@registry.post("/{worker_id}/heartbeat")
async def record_heartbeat(worker_id: UUID, worker: Worker, alive: SimpleHeartbeat | None = None) -> Response:
    """Record a heartbeat.

    `drain`: finish the running jobs and stop.
    """
    del alive
    await worker.check_owner(worker_id)
    verdicts = await worker.workers.beat(worker_id, [], [], LEASE_SECONDS)
    return as_json(worker_id=worker_id, status="ok", drain=worker_id in verdicts)

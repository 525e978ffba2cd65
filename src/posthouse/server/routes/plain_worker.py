"""The same for simple workers under /api/worker: one worker a key, one job at a time, no tokens to keep.

Who shows its `claim_token` is guarded against its own earlier attempts too.
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
from posthouse.server import claiming
from posthouse.server.access import Access
from posthouse.server.bodies import worker_router
from posthouse.server.registering import hire
from posthouse.server.registering import register as register_worker
from posthouse.server.routes.worker import TheStaff, TheWakeups, Worker, as_json, registrar
from posthouse.server.routes.worker_jobs import alone, desk_of, report_one
from posthouse.server.schemas import Strict
from posthouse.server.shapes import (
    Claiming,
    Object,
    OneReport,
    PartChange,
    PartStatus,
    Percent,
    Registration,
    Text,
    Word,
)
from posthouse.server.staff import Staff

router = worker_router("/worker", "worker (simple)")
LEASE_SECONDS = 1800.0
"""A claim holds for half an hour, and each report of progress extends it."""
PATIENCE_SECONDS = 60.0
"""So long jobs are left to an idle worker that they prefer: twice the time between two of its beats."""


class Newcomer(Strict):
    worker_name: Text = ""
    worker_type: Text = "remote"
    capabilities: Object = Field(default_factory=dict)
    metadata: Object = Field(default_factory=dict)
    queues: list[Word] = Field(default_factory=lambda: ["default"], max_length=1000)
    kinds: list[Word] = Field(default_factory=list, max_length=10_000)
    tenant: Text | None = None


class Alive(Strict):
    model_config = ConfigDict(extra="ignore")

    status: Text = "idle"


class Asking(Strict):
    queues: list[Word] | None = Field(default=None, max_length=1000)
    kinds: list[Word] | None = Field(default=None, max_length=10_000)
    wait_seconds: Annotated[float, Field(ge=0, le=60)] = 0.0


class OfJob(Strict):
    job_id: UUID
    claim_token: UUID | None = None


class Quality(Strict):
    name: Word
    status: PartStatus = "in_progress"
    progress_percent: Percent | None = None


class Progress(OfJob):
    current_step: Text | None = None
    progress_percent: Percent | None = None
    quality_progress: list[Quality] = Field(default_factory=list, max_length=1000)


class Complete(OfJob):
    result: Any = None


class Failed(OfJob):
    error_message: str = Field("it did not say why", max_length=100_000)
    retry: bool = True


@router.post("/register", status_code=201)
async def register(
    new: Newcomer, access: Annotated[Access, Depends(registrar)], staff: TheStaff
) -> dict[str, Any]:
    """Make a worker and its key, which is shown once. Takes `X-Admin-Secret`, or the key of an admin."""
    asked = Registration(
        name=new.worker_name,
        capabilities=new.capabilities,
        metadata={**new.metadata, "type": new.worker_type},
        queues=new.queues,
        kinds=new.kinds,
        offers=[word for word, has in new.capabilities.items() if has is True],
        tenant=new.tenant,
    )
    does = register_worker if access.principal.role is Role.WORKER else hire
    known = asdict(await does(staff, access, asked))
    return {"worker_id": known["worker_id"], "worker_name": known["name"], "api_key": known["api_key"]}


@router.post("/heartbeat")
async def heartbeat(alive: Alive, access: Worker, staff: TheStaff) -> Response:
    """The worker lives. What it does is known without being told."""
    del alive
    worker = await _worker(access, staff)
    verdicts = await staff.beat(worker["id"], [], [], LEASE_SECONDS)
    return as_json(status="ok", drain=worker["id"] in verdicts)


@router.post("/claim")
async def claim(
    asking: Asking, request: Request, access: Worker, staff: TheStaff, wakeups: TheWakeups
) -> Response:
    """One job, or none."""
    worker = await _worker(access, staff)
    kinds = asking.kinds or worker["kinds"] or await staff.known_kinds()
    asked = Claiming(
        worker_id=worker["id"],
        queues=asking.queues or worker["queues"],
        kinds=kinds,
        lease_seconds=LEASE_SECONDS,
        wait_seconds=asking.wait_seconds,
        offers=worker["offers"],
        patience_seconds=PATIENCE_SECONDS,
    )
    answer = from_json(await claiming.claim(staff, wakeups, access, asked, request))
    if not answer["jobs"]:
        return as_json(job=None, message="no jobs available")
    (job,) = answer["jobs"]
    return as_json(job={**job, "job_id": job["id"]}, claim_token=answer["token"], claim_seconds=LEASE_SECONDS)


@router.post("/progress")
async def progress(told: Progress, access: Worker, staff: TheStaff) -> Response:
    """How far it is; extends the claim."""
    report = OneReport(
        token=await _token(told, access, staff),
        lease_seconds=LEASE_SECONDS,
        step=told.current_step,
        percent=told.progress_percent,
        parts=[_part(quality) for quality in told.quality_progress],
    )
    return await report_one(told.job_id, report, access, staff)


@router.post("/complete")
async def complete(done: Complete, request: Request, access: Worker, staff: TheStaff) -> Response:
    """It succeeded."""
    item = {"id": done.job_id, "token": await _token(done, access, staff), "result": done.result}
    return alone(done.job_id, await desk_of(request, access, staff, done.job_id).complete([item]))


@router.post("/fail")
async def fail(failed: Failed, request: Request, access: Worker, staff: TheStaff) -> Response:
    """It failed: it is tried again if its retry policy says so."""
    token = await _token(failed, access, staff)
    item = {"id": failed.job_id, "token": token, "error": failed.error_message, "retry": failed.retry}
    return alone(failed.job_id, await desk_of(request, access, staff, failed.job_id).fail([item]))


def _part(quality: Quality) -> PartChange:
    return {"name": quality.name, "status": quality.status, "percent": quality.progress_percent}


async def _worker(access: Access, staff: Staff) -> dict[str, Any]:
    worker = await staff.worker_of(access.principal)
    if worker is None:
        raise WorkerNotFound("no worker was registered with this key: POST /api/worker/register")
    return worker


async def _token(told: OfJob, access: Access, staff: Staff) -> UUID:
    return told.claim_token or await staff.token_of(access, told.job_id)

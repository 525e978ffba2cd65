"""Remote workers: register, heartbeat, notifications, deregister. Job routes are in worker_jobs.py."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import Depends, Query, Request, Response
from pydantic_core import to_json

from posthouse.identity import Permission, Role
from posthouse.server.http.auth import (
    PRINCIPAL,
    Access,
    Gate,
    address_of,
    allow,
    authorized,
    declare,
    principal_of,
)
from posthouse.server.http.bodies import worker_router
from posthouse.server.schemas.workers import (
    DeregisterRequest,
    HeartbeatRequest,
    NotificationsRequest,
    Registration,
    SubscriptionUpdate,
)
from posthouse.server.workers.claims import CANCEL, DEFINITIONS, READY, WorkerNotifications
from posthouse.server.workers.registry import RemoteWorkers, register_with_new_key
from posthouse.server.workers.registry import register as register_worker

router = worker_router("/worker", "worker")
Worker = Annotated[Access, allow(Permission.WORK)]


def remote_workers(request: Request) -> RemoteWorkers:
    workers: RemoteWorkers = request.app.state.workers
    return workers


def worker_notifications(request: Request) -> WorkerNotifications:
    notifications: WorkerNotifications = request.app.state.notifications
    return notifications


RemoteWorkersDep = Annotated[RemoteWorkers, Depends(remote_workers)]
NotificationsDep = Annotated[WorkerNotifications, Depends(worker_notifications)]


async def _authorize(request: Request) -> Access:
    """Authorize with the key of a worker or an admin, or with the admin secret."""
    secret = request.headers.get("x-admin-secret")
    gate: Gate = request.app.state.gate
    known = principal_of(request) if secret is None else gate.identify(secret, address_of(request))
    principal = await known
    request.scope[PRINCIPAL] = principal.name
    principal.require(Permission.WORK if principal.role is Role.WORKER else Permission.TENANTS_WRITE)
    return Access(principal, gate)


async def registrar(request: Request) -> Access:
    return await authorized(request, _authorize)


declare(registrar, {Permission.WORK, Permission.TENANTS_WRITE}, _authorize)


@router.post("/register", status_code=201)
async def register(
    asked: Registration,
    request: Request,
    access: Annotated[Access, Depends(registrar)],
    workers: RemoteWorkersDep,
) -> dict[str, Any]:
    """Register a worker.

    While the server cannot be reached, the worker may continue its jobs for `lease_grace_seconds` after their
    leases expired.

    The request may be repeated with the same `worker_id`. With the admin secret (`X-Admin-Secret` header) or
    the key of a super-admin, a new key restricted to `queues` is created for the worker: `api_key` is
    returned only in this response.
    """
    does = register_worker if access.principal.role is Role.WORKER else register_with_new_key
    grace = request.app.state.settings.remote_grace_seconds
    return {**asdict(await does(workers, access, asked)), "lease_grace_seconds": grace}


@router.post("/heartbeat")
async def heartbeat(beat: HeartbeatRequest, access: Worker, workers: RemoteWorkersDep) -> Response:
    """Record a heartbeat and renew leases.

    Stop the jobs in `lost` and `canceled`. Jobs in `busy` were locked and not renewed this time. `drain`:
    finish the running jobs and stop.
    """
    await workers.check_owner(access, beat.worker_id)
    verdicts = await workers.renew(access, beat.worker_id, beat.jobs, beat.lease_seconds)
    by_verdict: dict[str, list[str]] = {"lost": [], "cancel": [], "busy": [], "drain": []}
    for job_id, verdict in verdicts.items():
        by_verdict[verdict].append(str(job_id))
    return as_json(
        drain=bool(by_verdict["drain"]),
        lost=by_verdict["lost"],
        canceled=by_verdict["cancel"],
        busy=by_verdict["busy"],
    )


@router.post("/notices")
async def notices(
    asked: NotificationsRequest, access: Worker, workers: RemoteWorkersDep, notifications: NotificationsDep
) -> Response:
    """Wait for notifications.

    Returns when jobs may be ready in these queues, a job must be canceled, or definitions changed. Send the
    `cursor` of the previous response. `missed`: notifications were lost, so any of these may have happened.
    `listening` is false if this server receives no notifications, so that workers must poll.
    """
    await workers.check_owner(access, asked.worker_id)
    cancel, definitions = (CANCEL, str(asked.worker_id)), (DEFINITIONS, "")
    ready = [(READY, queue) for queue in asked.queues]
    topics = [*ready, cancel, definitions]
    if asked.cursor:
        await notifications.wait(asked.cursor, topics, asked.wait_seconds)
    cursor, happened = notifications.cursor, notifications.since(asked.cursor, topics)
    missed, happened = happened is None, happened or set()
    return as_json(
        cursor=cursor,
        listening=notifications.possible,
        missed=missed,
        work=missed or not happened.isdisjoint(ready),
        cancel=missed or cancel in happened,
        definitions=missed or definitions in happened,
    )


@router.get("/definitions")
async def definitions(
    access: Worker, workers: RemoteWorkersDep, digest: Annotated[str, Query(max_length=200)] = ""
) -> Response:
    """Get all definitions.

    `definitions` is null if `digest` is current.
    """
    del access
    found = await workers.shared_leases.definitions_since(digest)
    if found is None:
        return as_json(digest=digest, definitions=None)
    return as_json(digest=found[0], definitions=[json.loads(text) for text in found[1]])


@router.get("/rules")
async def rules(access: Worker, workers: RemoteWorkersDep) -> Response:
    """Get claim settings.

    Tenant weights other than 1, and whether there are rate limits.
    """
    weights, rated = await workers.shared_leases.claim_rules()
    own = access.principal.tenant
    return as_json(
        weights={name: weight for name, weight in weights.items() if own is None or name == own}, rated=rated
    )


@router.post("/serving", status_code=204)
async def serving(asked: SubscriptionUpdate, access: Worker, workers: RemoteWorkersDep) -> None:
    """Change the queues and kinds that a worker serves."""
    await workers.check_owner(access, asked.worker_id)
    await workers.leases(asked.worker_id, 30.0).serve(asked.queues, asked.kinds)


@router.post("/leave", status_code=204)
async def leave(asked: DeregisterRequest, access: Worker, workers: RemoteWorkersDep) -> None:
    """Deregister a worker that stops.

    Its remaining jobs are released. A supervisor that killed the worker sends `killed`.
    """
    await workers.check_owner(access, asked.worker_id)
    leases = workers.leases(asked.worker_id, 30.0)
    if asked.killed is None:
        await leases.sign_off()
    else:
        await leases.end_worker(asked.killed.blockers, asked.killed.error, asked.killed.crash_limit)


def as_json(**fields: Any) -> Response:
    return Response(to_json(fields), media_type="application/json")

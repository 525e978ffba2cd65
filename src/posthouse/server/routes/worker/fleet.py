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
from posthouse.server.schemas.workers import Beat, Leaving, Registration, Serving, Waiting
from posthouse.server.workers.claims import CANCEL, DEFINITIONS, READY, Wakeups
from posthouse.server.workers.registry import Staff, hire
from posthouse.server.workers.registry import register as register_worker

router = worker_router("/worker", "worker")
Worker = Annotated[Access, allow(Permission.WORK)]


def staff_of(request: Request) -> Staff:
    staff: Staff = request.app.state.staff
    return staff


def wakeups_of(request: Request) -> Wakeups:
    wakeups: Wakeups = request.app.state.wakeups
    return wakeups


TheStaff = Annotated[Staff, Depends(staff_of)]
TheWakeups = Annotated[Wakeups, Depends(wakeups_of)]


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
    asked: Registration, request: Request, access: Annotated[Access, Depends(registrar)], staff: TheStaff
) -> dict[str, Any]:
    """Register a worker.

    While the server cannot be reached, the worker may continue its jobs for `lease_grace_seconds` after their
    leases expired.

    The request may be repeated with the same `worker_id`. With the admin secret (`X-Admin-Secret` header) or
    the key of a super-admin, a new key restricted to `queues` is created for the worker: `api_key` is
    returned only in this response.
    """
    does = register_worker if access.principal.role is Role.WORKER else hire
    grace = request.app.state.settings.remote_grace_seconds
    return {**asdict(await does(staff, access, asked)), "lease_grace_seconds": grace}


@router.post("/heartbeat")
async def heartbeat(beat: Beat, access: Worker, staff: TheStaff) -> Response:
    """Record a heartbeat and renew leases.

    Stop the jobs in `lost` and `canceled`. Jobs in `busy` were locked and not renewed this time. `drain`:
    finish the running jobs and stop.
    """
    await staff.check_owner(access, beat.worker_id)
    verdicts = await staff.renew(access, beat.worker_id, beat.jobs, beat.lease_seconds)
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
async def notices(asked: Waiting, access: Worker, staff: TheStaff, wakeups: TheWakeups) -> Response:
    """Wait for notifications.

    Returns when jobs may be ready in these queues, a job must be canceled, or definitions changed. Send the
    `cursor` of the previous response. `missed`: notifications were lost, so any of these may have happened.
    `listening` is false if this server receives no notifications, so that workers must poll.
    """
    await staff.check_owner(access, asked.worker_id)
    cancel, definitions = (CANCEL, str(asked.worker_id)), (DEFINITIONS, "")
    ready = [(READY, queue) for queue in asked.queues]
    topics = [*ready, cancel, definitions]
    if asked.cursor:
        await wakeups.wait(asked.cursor, topics, asked.wait_seconds)
    cursor, happened = wakeups.cursor, wakeups.since(asked.cursor, topics)
    missed, happened = happened is None, happened or set()
    return as_json(
        cursor=cursor,
        listening=wakeups.possible,
        missed=missed,
        work=missed or not happened.isdisjoint(ready),
        cancel=missed or cancel in happened,
        definitions=missed or definitions in happened,
    )


@router.get("/definitions")
async def definitions(
    access: Worker, staff: TheStaff, digest: Annotated[str, Query(max_length=200)] = ""
) -> Response:
    """Get all definitions.

    `definitions` is null if `digest` is current.
    """
    del access
    found = await staff.library.definitions_since(digest)
    if found is None:
        return as_json(digest=digest, definitions=None)
    return as_json(digest=found[0], definitions=[json.loads(text) for text in found[1]])


@router.get("/rules")
async def rules(access: Worker, staff: TheStaff) -> Response:
    """Get claim settings.

    Tenant weights other than 1, and whether there are rate limits.
    """
    weights, rated = await staff.library.claim_rules()
    own = access.principal.tenant
    return as_json(
        weights={name: weight for name, weight in weights.items() if own is None or name == own}, rated=rated
    )


@router.post("/serving", status_code=204)
async def serving(asked: Serving, access: Worker, staff: TheStaff) -> None:
    """Change the queues and kinds that a worker serves."""
    await staff.check_owner(access, asked.worker_id)
    await staff.leases(asked.worker_id, 30.0).serve(asked.queues, asked.kinds)


@router.post("/leave", status_code=204)
async def leave(asked: Leaving, access: Worker, staff: TheStaff) -> None:
    """Deregister a worker that stops.

    Its remaining jobs are released. A supervisor that killed the worker sends `killed`.
    """
    await staff.check_owner(access, asked.worker_id)
    leases = staff.leases(asked.worker_id, 30.0)
    if asked.killed is None:
        await leases.sign_off()
    else:
        await leases.end_worker(asked.killed.blockers, asked.killed.error, asked.killed.crash_limit)


def as_json(**fields: Any) -> Response:
    return Response(to_json(fields), media_type="application/json")

"""Remote workers: register, beat, hear, leave. What they do with jobs is in worker_jobs.py."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import Depends, Query, Request, Response
from pydantic_core import to_json

from posthouse.identity import Permission, Role
from posthouse.server.access import Access, Gate, address_of, allow, principal_of
from posthouse.server.bodies import worker_router
from posthouse.server.registering import hire
from posthouse.server.registering import register as register_worker
from posthouse.server.shapes import Beat, OfWorker, Registration, Serving, Waiting
from posthouse.server.staff import Staff
from posthouse.server.wakeups import CANCEL, DEFINITIONS, READY, Wakeups

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


async def registrar(request: Request) -> Access:
    """A worker's key, an admin's, or the admin secret."""
    secret = request.headers.get("x-admin-secret")
    gate: Gate = request.app.state.gate
    known = principal_of(request) if secret is None else gate.identify(secret, address_of(request))
    principal = await known
    principal.demand(Permission.WORK if principal.role is Role.WORKER else Permission.TENANTS_WRITE)
    return Access(principal, gate)


registrar.permissions = frozenset({Permission.WORK, Permission.TENANTS_WRITE})  # type: ignore[attr-defined]


@router.post("/register", status_code=201)
async def register(
    asked: Registration, access: Annotated[Access, Depends(registrar)], staff: TheStaff
) -> dict[str, Any]:
    """Make a worker known. It may be repeated with the same `worker_id`.

    With the admin secret (`X-Admin-Secret`) or the key of a super-admin, the worker gets a key of its own,
    for the queues that are named: `api_key` is shown in this answer and never again.
    """
    does = register_worker if access.principal.role is Role.WORKER else hire
    return asdict(await does(staff, access, asked))


@router.post("/heartbeat")
async def heartbeat(beat: Beat, access: Worker, staff: TheStaff) -> Response:
    """The worker lives, and these leases go on. `lost` and `canceled` ones are to be dropped; `busy` ones
    were not renewed this time. `drain`: finish what runs, and stop.
    """
    await staff.demand(access, beat.worker_id)
    verdicts = await staff.beat(
        beat.worker_id,
        [job["id"] for job in beat.jobs],
        [job["token"] for job in beat.jobs],
        beat.lease_seconds,
    )
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
    """Waits until there may be work in these queues, a job is to be canceled, or definitions changed.

    `cursor` is that of the answer before. `missed`: all of it may have happened. `listening`: false if this
    server cannot be told, so that workers have to ask.
    """
    await staff.demand(access, asked.worker_id)
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
    """All definitions as workers keep to them; null if the digest is the one that the worker has."""
    del access
    found = await staff.library.definitions_since(digest)
    if found is None:
        return as_json(digest=digest, definitions=None)
    return as_json(digest=found[0], definitions=[json.loads(text) for text in found[1]])


@router.get("/rules")
async def rules(access: Worker, staff: TheStaff) -> Response:
    """Weights of tenants other than 1, and whether there are limits of rate."""
    weights, rated = await staff.library.claim_rules()
    own = access.principal.tenant
    return as_json(
        weights={name: weight for name, weight in weights.items() if own is None or name == own}, rated=rated
    )


@router.post("/serving", status_code=204)
async def serving(asked: Serving, access: Worker, staff: TheStaff) -> None:
    """Other queues and kinds from now on."""
    await staff.demand(access, asked.worker_id)
    await staff.leases(asked.worker_id, 30.0).serve(asked.queues, asked.kinds)


@router.post("/leave", status_code=204)
async def leave(asked: OfWorker, access: Worker, staff: TheStaff) -> None:
    """The worker stops. What it still holds is given to others."""
    await staff.demand(access, asked.worker_id)
    await staff.leases(asked.worker_id, 30.0).sign_off()


def as_json(**fields: Any) -> Response:
    return Response(to_json(fields), media_type="application/json")

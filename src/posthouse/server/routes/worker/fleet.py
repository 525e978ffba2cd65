"""Remote workers: register, heartbeat, notifications, deregister. Job routes are in jobs.py."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Annotated, Any
from uuid import UUID

from fastapi import Depends, Query, Request, Response
from pydantic_core import to_json

from posthouse.identity import Permission, Role
from posthouse.server.http.auth import (
    PRINCIPAL,
    Access,
    RequestAuthenticator,
    address_of,
    allow,
    authorized,
    declare,
    principal_of,
)
from posthouse.server.http.requests import worker_router
from posthouse.server.schemas.workers import (
    ClaimRequest,
    DeregisterRequest,
    HeartbeatRequest,
    NotificationsRequest,
    Registration,
    SubscriptionUpdate,
)
from posthouse.server.workers.claims import CANCEL, DEFINITIONS, READY, WorkerNotifications, claim
from posthouse.server.workers.registry import RemoteWorkers, register_with_new_key
from posthouse.server.workers.registry import register as register_worker
from posthouse.server.workers.reports import AttemptReports
from posthouse.settings import Settings

router = worker_router("/worker", "worker")


@dataclass(frozen=True, slots=True)
class Caller:
    """The authorized caller of a worker route, and what this server does for remote workers."""

    access: Access
    settings: Settings
    workers: RemoteWorkers
    notifications: WorkerNotifications

    @property
    def reports(self) -> AttemptReports:
        return AttemptReports(self.access, self.workers, self.settings)

    async def check_owner(self, worker_id: UUID) -> None:
        await self.workers.check_owner(self.access, worker_id)

    async def get_attempt(self, job_id: UUID, token: UUID) -> dict[str, Any]:
        return await self.workers.get_attempt(self.access, job_id, token)

    async def claim(self, body: ClaimRequest, request: Request) -> bytes:
        return await claim(self.workers, self.notifications, self.access, body, request)

    async def register(self, body: Registration) -> dict[str, Any]:
        """Register a worker; for an admin, create its key as well."""
        is_worker = self.access.principal.role is Role.WORKER
        register = register_worker if is_worker else register_with_new_key
        return asdict(await register(self.workers, self.access, body))


def _caller(access: Access, request: Request) -> Caller:
    state = request.app.state
    return Caller(access, state.settings, state.workers, state.notifications)


_work: Any = allow(Permission.WORK).dependency


async def _worker(request: Request) -> Caller:
    return _caller(await _work(request), request)


async def _authorize_registrar(request: Request) -> Access:
    """Authorize with the key of a worker or an admin, or with the admin secret."""
    secret = request.headers.get("x-admin-secret")
    authenticator: RequestAuthenticator = request.app.state.authenticator
    known = principal_of(request) if secret is None else authenticator.identify(secret, address_of(request))
    principal = await known
    request.scope[PRINCIPAL] = principal.name
    principal.require(Permission.WORK if principal.role is Role.WORKER else Permission.TENANTS_WRITE)
    return Access(principal, authenticator)


async def _registrar(request: Request) -> Caller:
    return _caller(await authorized(request, _authorize_registrar), request)


Worker = Annotated[Caller, Depends(declare(_worker, {Permission.WORK}, _work.authorize))]
Registrar = Annotated[
    Caller,
    Depends(declare(_registrar, {Permission.WORK, Permission.TENANTS_WRITE}, _authorize_registrar)),
]


@router.post("/register", status_code=201)
async def register(body: Registration, caller: Registrar) -> dict[str, Any]:
    """Register a worker.

    While the server cannot be reached, the worker may continue its jobs for `lease_grace_seconds` after their
    leases expired.

    The request may be repeated with the same `worker_id`. With the admin secret (`X-Admin-Secret` header) or
    the key of a super-admin, a new key restricted to `queues` is created for the worker: `api_key` is
    returned only in this response.
    """
    grace = caller.settings.remote_grace_seconds
    return {**await caller.register(body), "lease_grace_seconds": grace}


@router.post("/heartbeat")
async def heartbeat(beat: HeartbeatRequest, worker: Worker) -> Response:
    """Record a heartbeat and renew leases.

    Stop the jobs in `lost` and `canceled`. Jobs in `busy` were locked and not renewed this time. `drain`:
    finish the running jobs and stop.
    """
    await worker.check_owner(beat.worker_id)
    verdicts = await worker.workers.renew(worker.access, beat.worker_id, beat.jobs, beat.lease_seconds)
    by_verdict: dict[str, list[str]] = {"lost": [], "cancel": [], "busy": [], "drain": []}
    for job_id, verdict in verdicts.items():
        by_verdict[verdict].append(str(job_id))
    return as_json(
        drain=bool(by_verdict["drain"]),
        lost=by_verdict["lost"],
        canceled=by_verdict["cancel"],
        busy=by_verdict["busy"],
    )


@router.post("/notifications")
async def wait_for_notifications(body: NotificationsRequest, worker: Worker) -> Response:
    """Wait for notifications.

    Returns when jobs may be ready in these queues, a job must be canceled, or definitions changed. Send the
    `cursor` of the previous response. `missed`: notifications were lost, so any of these may have happened.
    `listening` is false if this server receives no notifications, so that workers must poll.
    """
    await worker.check_owner(body.worker_id)
    notifications = worker.notifications
    cancel, definitions = (CANCEL, str(body.worker_id)), (DEFINITIONS, "")
    ready = [(READY, queue) for queue in body.queues]
    topics = [*ready, cancel, definitions]
    if body.cursor:
        await notifications.wait(body.cursor, topics, body.wait_seconds)
    cursor, happened = notifications.cursor, notifications.since(body.cursor, topics)
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
async def definitions(worker: Worker, digest: Annotated[str, Query(max_length=200)] = "") -> Response:
    """Get all definitions.

    `definitions` is null if `digest` is current.
    """
    found = await worker.workers.shared_leases.definitions_since(digest)
    if found is None:
        return as_json(digest=digest, definitions=None)
    return as_json(digest=found[0], definitions=[json.loads(text) for text in found[1]])


@router.get("/claim_settings")
async def claim_settings(worker: Worker) -> Response:
    """Get claim settings.

    Tenant weights other than 1, and whether there are rate limits.
    """
    weights, rated = await worker.workers.shared_leases.claim_settings()
    own = worker.access.principal.tenant
    return as_json(
        weights={name: weight for name, weight in weights.items() if own is None or name == own}, rated=rated
    )


@router.post("/subscription", status_code=204)
async def update_subscription(body: SubscriptionUpdate, worker: Worker) -> None:
    """Change the queues and kinds that a worker serves."""
    await worker.check_owner(body.worker_id)
    await worker.workers.leases(body.worker_id, 30.0).update_subscription(body.queues, body.kinds)


@router.post("/deregister", status_code=204)
async def deregister(body: DeregisterRequest, worker: Worker) -> None:
    """Deregister a worker that stops.

    Its remaining jobs are released. A supervisor that killed the worker sends `killed`.
    """
    await worker.check_owner(body.worker_id)
    leases = worker.workers.leases(body.worker_id, 30.0)
    if body.killed is None:
        await leases.deregister()
    else:
        await leases.end_worker(body.killed.blockers, body.killed.error, body.killed.crash_limit)


def as_json(**fields: Any) -> Response:
    return Response(to_json(fields), media_type="application/json")

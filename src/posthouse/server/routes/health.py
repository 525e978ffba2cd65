"""Health endpoints for load balancers, process supervisors and monitoring."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from fastapi import APIRouter, Request, Response

from posthouse.errors import NotAuthenticated, TooManyRequests
from posthouse.identity import Permission, Principal
from posthouse.insights.health import Health, Presence
from posthouse.server.health import DATABASE_DOWN, HealthCache
from posthouse.server.http.auth import principal_of
from posthouse.server.http.responses import json_response

router = APIRouter(tags=["health"])


@router.get("/health", operation_id="process_health")
async def alive() -> dict[str, str]:
    """Check that this process is alive.

    The database is not checked: restarting this process would not repair it.
    """
    return {"status": "ok"}


@router.get("/ready", responses={503: {"description": "Not ready; see `cause`"}})
async def ready(request: Request) -> Response:
    """Check that this server can serve requests.

    Ready means that the database is reachable and has the schema that this version requires.
    """
    health_cache: HealthCache = request.app.state.health_cache
    cause = await health_cache.not_ready_reason.get()
    return (
        json_response({"status": "unready", "cause": cause}, 503)
        if cause
        else json_response({"status": "ready"})
    )


@router.get(
    "/api/health",
    response_model=Health,
    responses={503: {"model": Health, "description": "Failing; see `causes`"}},
)
async def platform_health(request: Request) -> Response:
    """Check that jobs are processed.

    Returns 200, or 503 with the names of the failing checks. Without super-admin credentials the response
    contains only the names of failing checks.
    """
    # Public, because external monitoring often cannot send a key; the names reveal nothing about the jobs.
    health_cache: HealthCache = request.app.state.health_cache
    found = await health_cache.health.get()
    return json_response(
        found if await _sees_all(request) else _redacted(found), 503 if found.status == "failing" else 200
    )


def _redacted(found: Health) -> dict[str, Any]:
    causes = [{"check": cause.check, "severity": cause.severity} for cause in found.causes]
    return {"status": found.status, "causes": causes}


async def _sees_all(request: Request) -> bool:
    with suppress(NotAuthenticated, *DATABASE_DOWN):
        return (await principal_of(request)).can(Permission.OVERVIEW_READ)
    return False


PATH = "/api/worker/health"
workers = APIRouter(tags=["worker (simple)"])


@workers.get(PATH, responses={503: {"description": "The database is unreachable"}})
async def worker_health(request: Request) -> Response:
    """Check that workers can claim jobs.

    `database` is `ok` or `unreachable`; `redis` is the same, or `not configured`.
    With the key of a worker or a user the response also has `active_workers` and `pending_jobs`, within the
    tenant and the queues of the key.
    """
    health_cache: HealthCache = request.app.state.health_cache
    found = await health_cache.presence.get()
    redis = await request.app.state.redis_state.get()
    if found is None:
        return json_response({"status": "failing", "database": "unreachable", "redis": redis}, 503)
    caller = await _caller(request)
    counts = {} if caller is None else _counts(found, caller)
    return json_response({"status": "ok", "database": "ok", "redis": redis, **counts})


async def _caller(request: Request) -> Principal | None:
    """Return the caller, if the counts are meant for it."""
    with suppress(NotAuthenticated, TooManyRequests, *DATABASE_DOWN):
        found = await principal_of(request)
        if found.can(Permission.WORK) or found.can(Permission.WORKERS_READ):
            return found
    return None


def _counts(found: Presence, caller: Principal) -> dict[str, Any]:
    queues = None if caller.queues is None else list(caller.queues)
    return {
        "active_workers": found.active_workers(caller.tenant, queues),
        "pending_jobs": found.pending_jobs(caller.tenant, queues),
    }

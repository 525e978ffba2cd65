"""Health of the simple worker API."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from fastapi import APIRouter, Request, Response

from posthouse.errors import NotAuthenticated, TooManyRequests
from posthouse.identity import Permission, Principal
from posthouse.insights.presence import Presence
from posthouse.server.access import principal_of
from posthouse.server.answers import answer
from posthouse.server.examining import DOWN, Examiner

PATH = "/api/worker/health"
router = APIRouter(tags=["worker (simple)"])


@router.get(PATH, responses={503: {"description": "The database is unreachable"}})
async def worker_health(request: Request) -> Response:
    """Check that workers can claim jobs.

    `database` is `ok` or `unreachable`; `redis` is the same, or `not configured`.
    With the key of a worker or a user the response also has `active_workers` and `pending_jobs`, within the
    tenant and the queues of the key.
    """
    examiner: Examiner = request.app.state.examiner
    found = await examiner.presence.get()
    redis = await request.app.state.redis_state.get()
    if found is None:
        return answer({"status": "failing", "database": "unreachable", "redis": redis}, 503)
    caller = await _caller(request)
    counts = {} if caller is None else _counts(found, caller)
    return answer({"status": "ok", "database": "ok", "redis": redis, **counts})


async def _caller(request: Request) -> Principal | None:
    """Return the caller, if the counts are meant for it."""
    with suppress(NotAuthenticated, TooManyRequests, *DOWN):
        found = await principal_of(request)
        if found.may(Permission.WORK) or found.may(Permission.WORKERS_READ):
            return found
    return None


def _counts(found: Presence, caller: Principal) -> dict[str, Any]:
    queues = None if caller.queues is None else list(caller.queues)
    return {
        "active_workers": found.active_workers(caller.tenant, queues),
        "pending_jobs": found.pending_jobs(caller.tenant, queues),
    }

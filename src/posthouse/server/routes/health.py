"""Health endpoints for load balancers, process supervisors and monitoring."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from fastapi import APIRouter, Request, Response

from posthouse.errors import NotAuthenticated
from posthouse.identity import Permission
from posthouse.insights.health import Health
from posthouse.server.access import principal_of
from posthouse.server.answers import answer
from posthouse.server.examining import DOWN, Examiner

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
    examiner: Examiner = request.app.state.examiner
    cause = await examiner.unready.get()
    return answer({"status": "unready", "cause": cause}, 503) if cause else answer({"status": "ready"})


@router.get(
    "/api/health",
    response_model=Health,
    responses={503: {"model": Health, "description": "Failing; see `causes`"}},
)
async def whole(request: Request) -> Response:
    """Check that jobs are processed.

    Returns 200, or 503 with the names of the failing checks. Without super-admin credentials the response
    contains only the names of failing checks.
    """
    # Public, because external monitoring often cannot send a key; the names reveal nothing about the jobs.
    examiner: Examiner = request.app.state.examiner
    found = await examiner.health.get()
    return answer(
        found if await _sees_all(request) else _in_short(found), 503 if found.status == "failing" else 200
    )


def _in_short(found: Health) -> dict[str, Any]:
    causes = [{"check": cause.check, "severity": cause.severity} for cause in found.causes]
    return {"status": found.status, "causes": causes}


async def _sees_all(request: Request) -> bool:
    with suppress(NotAuthenticated, *DOWN):
        return (await principal_of(request)).may(Permission.OVERVIEW_READ)
    return False

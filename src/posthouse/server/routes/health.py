"""Whether the server is there and whether all is well, for load balancers, supervisors and people."""

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
    """Whether this process answers. It says nothing of the database: a restart would not mend that."""
    return {"status": "ok"}


@router.get("/ready", responses={503: {"description": "Not now; `cause` says why."}})
async def ready(request: Request) -> Response:
    """Whether requests can be served here: the database answers, with the schema that this version needs."""
    examiner: Examiner = request.app.state.examiner
    cause = await examiner.unready.get()
    return answer({"status": "unready", "cause": cause}, 503) if cause else answer({"status": "ready"})


@router.get(
    "/api/health", response_model=Health, responses={503: {"model": Health, "description": "It is failing."}}
)
async def whole(request: Request) -> Response:
    """Whether jobs are done: 200 if so, 503 if not, with the names of the causes. Figures and texts are for
    those who may see everything; anybody else, and whoever shows no key, hears the names alone.
    """
    # Not kept from strangers altogether: what watches from outside often cannot send a key, and a name tells
    # nothing of what the jobs are.
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

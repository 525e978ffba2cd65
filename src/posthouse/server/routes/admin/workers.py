"""Workers: the public view of tenants, and the administration by operators."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import Query, Response

from posthouse import insights
from posthouse.identity import Permission
from posthouse.insights import VisibleWorker, WorkerChange, WorkerInfo
from posthouse.server.http.auth import Access, allow
from posthouse.server.http.requests import api_router
from posthouse.server.http.responses import (
    Cursor,
    Limit,
    Page,
    decode_single_cursor,
    json_response,
    page,
)
from posthouse.server.schemas.jobs import ChangeResponse
from posthouse.storage.actions import disable_worker, drain_worker, enable_worker

router = api_router("/workers", "workers")
admin = api_router("/admin/workers", "workers")
Viewer = Annotated[Access, allow(Permission.WORKERS_READ, tenant_scoped=True)]
Reader = Annotated[Access, allow(Permission.OVERVIEW_READ)]
Writer = Annotated[Access, allow(Permission.WORKERS_WRITE)]

MAX_JOBS = 200
"""Jobs per worker, limited by what a page can show."""


@router.get("", response_model=list[VisibleWorker])
async def list_visible_workers(access: Viewer) -> Response:
    """List online workers.

    With their queues and the number of jobs of the tenant that they run.
    """
    async with access.transaction() as db:
        return json_response(await insights.visible_workers(db, offline_after=access.offline_after))


@admin.get("", response_model=list[WorkerInfo])
async def list_workers(
    access: Reader,
    offline_within: Annotated[
        float,
        Query(
            ge=0, le=366 * 86400, description="Include workers that went offline within this many seconds."
        ),
    ] = 86400.0,
    jobs: Annotated[int, Query(ge=0, le=MAX_JOBS, description="Running jobs to return per worker.")] = 10,
) -> Response:
    """List workers, online ones first."""
    async with access.transaction() as db:
        found = await insights.workers(
            db, offline_after=access.offline_after, offline_within=offline_within, jobs=jobs
        )
        return json_response(found)


@admin.get("/changes", response_model=Page[WorkerChange])
async def list_changes(
    access: Reader, worker: UUID | None = None, limit: Limit = 50, cursor: Cursor = None
) -> Response:
    """List when workers started and stopped, newest first."""
    after = decode_single_cursor(cursor, int)
    async with access.transaction() as db:
        found = await insights.worker_changes(db, worker=worker, after=after, limit=limit)
    return json_response(page(found, limit, "id"))


@admin.post("/{worker_id}/disable", response_model=ChangeResponse)
async def disable(worker_id: UUID, access: Writer) -> Response:
    """Disable a worker.

    It claims no more jobs; running jobs continue.
    """
    async with access.transaction() as db:
        return json_response(ChangeResponse(changed=await disable_worker(db, worker_id, actor=access.actor)))


@admin.post("/{worker_id}/enable", response_model=ChangeResponse)
async def enable(worker_id: UUID, access: Writer) -> Response:
    """Enable a worker."""
    async with access.transaction() as db:
        return json_response(ChangeResponse(changed=await enable_worker(db, worker_id, actor=access.actor)))


@admin.post("/{worker_id}/drain", response_model=ChangeResponse)
async def drain(worker_id: UUID, access: Writer) -> Response:
    """Drain a worker.

    It finishes its running jobs and stops.
    """
    async with access.transaction() as db:
        return json_response(ChangeResponse(changed=await drain_worker(db, worker_id, actor=access.actor)))

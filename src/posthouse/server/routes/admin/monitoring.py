"""Monitoring: overview, statistics, alerts, audit log and retention."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import Query, Request, Response

from posthouse import insights
from posthouse.core.alerts import AlertType
from posthouse.identity import Permission
from posthouse.insights import (
    AlertCount,
    AlertFilter,
    AlertInfo,
    AuditEntry,
    AuditFilter,
    Overview,
    QueueInfo,
    RetentionReport,
    Series,
    StatusCounts,
    TenantInfo,
    WorkerInfo,
)
from posthouse.insights.administration import SettingInfo
from posthouse.insights.doctor import Report
from posthouse.server.health import HealthCache
from posthouse.server.http.auth import Access, allow
from posthouse.server.http.requests import ApiDatetime, JobReader, QueryText, api_router
from posthouse.server.http.responses import (
    Cursor,
    Limit,
    Page,
    decode_cursor,
    decode_single_cursor,
    json_response,
    page,
)

router = api_router("", "monitoring")
Auditor = Annotated[Access, allow(Permission.AUDIT_READ, tenant_scoped=True)]
Operator = Annotated[Access, allow(Permission.OVERVIEW_READ)]

MAX_POINTS = 2000


@router.get("/overview", response_model=Overview)
async def show_overview(access: JobReader) -> Response:
    """Get backlog, workers and recent throughput.

    In total and per queue.
    """
    async with access.transaction() as db:
        return json_response(
            await insights.overview(db, tenant=access.tenant, offline_after=access.offline_after)
        )


@router.get("/stats", response_model=list[Series])
async def show_stats(
    access: JobReader,
    span_seconds: Annotated[int, Query(ge=60, le=366 * 86400)] = 3600,
    until: ApiDatetime | None = None,
    step_seconds: Annotated[int | None, Query(ge=60, le=366 * 86400, multiple_of=60)] = None,
    by: Annotated[
        list[Literal["tenant", "queue", "kind"]] | None,
        Query(description="Group the series by this field; repeatable."),
    ] = None,
    queue: QueryText = None,
    kind: QueryText = None,
) -> Response:
    """Get statistics over time.

    Arrivals, finished jobs, failures, wait and run times, and backlog.
    """
    step = max(step_seconds or insights.step_for(span_seconds), 60 * -(-span_seconds // (60 * MAX_POINTS)))
    async with access.transaction() as db:
        found = await insights.series(
            db, span=span_seconds, until=until, step=step, by=by or [], tenant=access.tenant, queue=queue,
            kind=kind,
        )  # fmt: skip
    return json_response(found)


@router.get("/alerts", response_model=Page[AlertInfo])
async def list_alerts(
    access: JobReader,
    type: Annotated[AlertType | None, Query()] = None,  # noqa: A002 - its name in the query
    within_seconds: Annotated[float | None, Query(gt=0, le=366 * 86400)] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Response:
    """List alerts, newest first."""
    before: Any = decode_cursor(cursor, datetime, UUID)
    chosen = AlertFilter(
        type=type,
        tenant=access.tenant,
        within=within_seconds,
        before=before,
        limit=limit,
    )
    async with access.transaction() as db:
        found = await insights.list_alerts(db, chosen)
    shown = found if access.is_platform else [replace(alert, deliveries=[]) for alert in found]
    return json_response(page(shown, limit, "at", "id"))


@router.get("/admin/audit", response_model=Page[AuditEntry])
async def list_audit_entries(
    access: Auditor,
    actor: QueryText = None,
    action: Annotated[
        str | None,
        Query(
            min_length=1,
            max_length=512,
            description="Action, or the first word of several actions, such as `job`.",
        ),
    ] = None,
    target: QueryText = None,
    since: ApiDatetime | None = None,
    until: ApiDatetime | None = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Response:
    """List audit log entries, newest first.

    Tenant admins see the entries about resources of their tenant.
    """
    after = decode_single_cursor(cursor, int)
    chosen = AuditFilter(
        actor=actor,
        action=action,
        target=target,
        tenant=access.tenant,
        since=since,
        until=until,
        after=after,
        limit=limit,
    )
    async with access.transaction() as db:
        found = await insights.list_audit(db, chosen)
    return json_response(page(found, limit, "id"))


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformOverview:
    """A summary of the platform."""

    jobs: StatusCounts
    workers: int
    stale_workers: list[WorkerInfo]
    queues: list[QueueInfo]
    tenants: list[TenantInfo]
    alerts: list[AlertCount]


@router.get("/admin/overview", response_model=PlatformOverview)
async def show_platform_overview(access: Operator) -> Response:
    """Get a summary of the platform.

    Jobs, queues, tenants, workers and alerts.
    """
    async with access.transaction() as db:
        workers = await insights.workers(db, offline_after=access.offline_after)
        overview = PlatformOverview(
            jobs=await insights.jobs_summary(db),
            workers=sum(worker.status != "offline" for worker in workers),
            stale_workers=[worker for worker in workers if worker.lost],
            queues=await insights.list_queues(db, offline_after=access.offline_after),
            tenants=await insights.tenants(db),
            alerts=await insights.alert_counts(db),
        )
    return json_response(overview)


@router.get("/admin/retention", response_model=RetentionReport)
async def show_retention(request: Request, access: Operator) -> Response:
    """Get retention rules, table sizes and pending deletions."""
    async with access.transaction() as db:
        return json_response(await insights.retention(db, request.app.state.settings.kept_days()))


admin = api_router("/admin", "monitoring")
OPERATORS = [allow(Permission.OVERVIEW_READ)]


@admin.get("/doctor", response_model=Report, dependencies=OPERATORS)
async def run_doctor(request: Request) -> Response:
    """Run the doctor checks of the database and the queue.

    Each finding says what is wrong, what it means and what to do. Results are cached for a few seconds.
    """
    health_cache: HealthCache = request.app.state.health_cache
    return json_response(await health_cache.report.get())


@admin.get("/settings", response_model=list[SettingInfo], dependencies=OPERATORS)
async def list_settings(request: Request) -> Response:
    """List the effective settings and their sources.

    Secrets are masked.
    """
    return json_response(request.app.state.settings_in_effect)

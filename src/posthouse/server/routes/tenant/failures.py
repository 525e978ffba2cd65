"""Failure groups. Their jobs are retried by a bulk change: see bulk.py."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from fastapi import Path, Query, Response

from posthouse import insights
from posthouse.insights import FailureDetail, FailureFilter, FailureGroup
from posthouse.server.http.bodies import api_router
from posthouse.server.http.parameters import ApiDatetime, JobReader, QueryText
from posthouse.server.http.responses import (
    Cursor,
    Limit,
    Page,
    clamp_limit,
    decode_cursor,
    json_response,
    page,
)

router = api_router("/failures", "failures")
Fingerprint = Annotated[
    str,
    Path(min_length=1, max_length=64, description="Fingerprint of the failure group, or a unique prefix."),
]


@router.get("", response_model=Page[FailureGroup])
async def list_failures(
    access: JobReader,
    kind: QueryText = None,
    since: Annotated[ApiDatetime | None, Query(description="Only groups seen since this time.")] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Response:
    """List failure groups, latest first."""
    behind: Any = decode_cursor(cursor, datetime, str, str, str)
    chosen = FailureFilter(kind=kind, tenant=access.tenant, since=since, behind=behind, limit=limit)
    async with access.transaction() as db:
        found = await insights.failure_groups(db, chosen)
    return json_response(page(found, limit, "last_seen", "tenant_id", "kind", "fingerprint"))


@router.get("/{fingerprint}", response_model=FailureDetail)
async def show_failure(
    fingerprint: Fingerprint,
    access: JobReader,
    kind: QueryText = None,
    jobs: Annotated[int, Query(ge=1, description="Number of jobs to return, up to 200.")] = 10,
) -> Response:
    """Get a failure group with its latest error and its jobs."""
    async with access.transaction() as db:
        found = await insights.get_failure(
            db, fingerprint, kind=kind, tenant=access.tenant, jobs=clamp_limit(jobs)
        )
    return json_response(found)

"""Erasures: remove the content of all jobs and events of a subject."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from fastapi import Request, Response
from pydantic import Field

from posthouse import insights
from posthouse.client.enqueue import encode_erasure
from posthouse.core.erasure import Erasure
from posthouse.identity import Permission
from posthouse.server.http.auth import Access, allow
from posthouse.server.http.requests import IdempotencyKey, JobReader, api_router, run_idempotent
from posthouse.server.http.responses import (
    Cursor,
    Limit,
    Page,
    decode_cursor,
    json_response,
    page,
)
from posthouse.server.schemas.jobs import ApiModel
from posthouse.storage.queries import Db, query

router = api_router("/erasures", "jobs")
Eraser = Annotated[Access, allow(Permission.JOBS_ERASE, tenant_scoped=True)]


class NewErasure(ApiModel):
    """A subject to erase."""

    subject: Annotated[str, Field(min_length=1, max_length=512, pattern=r"^[^\x00]*$")] = Field(
        description="Subject of the jobs and events to erase."
    )


@router.post("", status_code=202, response_model=Erasure)
async def erase(
    request: Request, new: NewErasure, access: Eraser, idempotency_key: IdempotencyKey = None
) -> Response:
    """Erase the jobs and events of a subject.

    Queued jobs are canceled, and running jobs are requested to stop. Payloads, results, errors, logs,
    progress and artifacts are removed; times and statuses stay. The keeper completes the erasure when the
    last running job has ended: `state` is then `erased`.
    """
    access = access.with_default_tenant()
    text = encode_erasure(new.subject, access.tenant or "", access.actor)

    async def work(db: Db) -> Response:
        cursor = await db.execute(query("erase"), (text,))
        (row,) = await cursor.fetchall()
        return json_response(Erasure(*row), 202)

    return await run_idempotent(request, access, idempotency_key, work)


@router.get("", response_model=Page[Erasure])
async def list_erasures(access: JobReader, limit: Limit = 50, cursor: Cursor = None) -> Response:
    """List erasures, newest first."""
    before: Any = decode_cursor(cursor, UUID)
    async with access.transaction() as db:
        found = await insights.erasures(
            db, tenant=access.tenant, before=before[0] if before else None, limit=limit
        )
    return json_response(page(found, limit, "id"))


@router.get("/{erasure_id}", response_model=Erasure)
async def show_erasure(erasure_id: UUID, access: JobReader) -> Response:
    """Get an erasure and its progress."""
    async with access.transaction() as db:
        return json_response(await insights.get_erasure(db, erasure_id, tenant=access.tenant))

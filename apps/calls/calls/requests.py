"""What the routes share: parameters, and rows that the caller may see."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from fastapi import HTTPException, Path
from psycopg.rows import dict_row

from calls.db import sql
from posthouse.server import Access, Permission, allow

Reader = Annotated[Access, allow(Permission.JOBS_READ, tenant_scoped=True)]
Writer = Annotated[Access, allow(Permission.JOBS_WRITE, tenant_scoped=True)]
CallId = Annotated[UUID, Path(description="Id of the call.")]
Rows = list[dict[str, Any]]


async def fetch_all(access: Access, name: str, **parameters: Any) -> Rows:
    async with access.transaction() as db, db.cursor(row_factory=dict_row) as cursor:
        await cursor.execute(sql(name), {"org": access.tenant, **parameters})
        return await cursor.fetchall()


async def get_call_or_404(access: Access, call_id: UUID) -> dict[str, Any]:
    rows = await fetch_all(access, "calls_list", call=call_id, limit=1, offset=0)
    if not rows:
        raise HTTPException(404, f"call {call_id} does not exist")
    return rows[0]


async def get_figures_or_404(access: Access, call_id: UUID) -> dict[str, Any]:
    await get_call_or_404(access, call_id)
    rows = await fetch_all(access, "analysis_show", call=call_id)
    if not rows:
        raise HTTPException(404, f"call {call_id} is not analysed yet; see its status")
    figures: dict[str, Any] = rows[0]["figures"]
    return figures

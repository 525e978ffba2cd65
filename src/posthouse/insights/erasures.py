"""Erasures of subjects."""

from __future__ import annotations

from uuid import UUID

from posthouse.core.erasure import Erasure
from posthouse.errors import ErasureNotFound
from posthouse.storage.queries import Db, fetch


async def erasures(
    connection: Db, *, tenant: str | None = None, before: UUID | None = None, limit: int = 50
) -> list[Erasure]:
    """Return erasures, newest first; ``before``: continue after this one."""
    return await fetch(
        connection, "erasures_list", Erasure, id=None, tenant=tenant, before=before, limit=limit
    )


async def get_erasure(connection: Db, erasure_id: UUID, *, tenant: str | None = None) -> Erasure:
    found = await fetch(
        connection, "erasures_list", Erasure, id=erasure_id, tenant=tenant, before=None, limit=1
    )
    if not found:
        raise ErasureNotFound(f"erasure {erasure_id} does not exist")
    return found[0]

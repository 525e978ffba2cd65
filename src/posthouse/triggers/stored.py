"""Load a stored trigger."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from posthouse.errors import TriggerNotFound
from posthouse.storage.queries import Db, fetch_rows


async def trigger_row(connection: Db, trigger_id: UUID, tenant: str | None) -> dict[str, Any]:
    found = await fetch_rows(
        connection, "triggers_list", id=trigger_id, tenant=tenant, type=None, after=None, limit=1
    )
    if not found:
        raise TriggerNotFound(f"trigger {trigger_id} does not exist")
    return found[0]

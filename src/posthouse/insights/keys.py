"""API keys, without their secrets."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from posthouse.storage.queries import Db, fetch


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyInfo:
    prefix: str
    name: str
    role: str
    tenant_id: str | None
    queues: list[str] | None
    may_announce: bool
    created_by: str
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None


async def keys(connection: Db, *, tenant: str | None = None) -> list[KeyInfo]:
    """Return the keys, newest first."""
    return await fetch(connection, "keys_list", KeyInfo, tenant=tenant)

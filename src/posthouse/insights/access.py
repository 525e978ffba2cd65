"""API keys and the audit log."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any

from posthouse.core.redaction import PLAIN
from posthouse.errors import ConfigurationError
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


MOST_ENTRIES = 1000
LATE_IDS = 200
"""Number of latest ids that are read again.

Ids are assigned before commit, so a lower id may appear after a higher one.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFilter:
    """A filter for audit entries.

    ``action`` is an action or its first word: ``job`` selects ``job.retry`` and ``job.cancel``. ``after`` is
    the id of the last entry of the previous page.
    """

    actor: str | None = None
    action: str | None = None
    target: str | None = None
    tenant: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    after: int | None = None
    limit: int = 50

    def __post_init__(self) -> None:
        if not 1 <= self.limit <= MOST_ENTRIES:
            raise ConfigurationError(f"limit must be between 1 and {MOST_ENTRIES:,}, not {self.limit:,}")


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    id: int
    at: datetime
    actor: str
    action: str
    tenant_id: str | None
    target: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None

    def changes(self) -> dict[str, tuple[Any, Any]]:
        """Return the changed fields with their old and new values."""
        before, after = self.before or {}, self.after or {}
        names = [*before, *(name for name in after if name not in before)]
        return {
            name: (before.get(name), after.get(name)) for name in names if before.get(name) != after.get(name)
        }


async def list_audit(connection: Db, chosen: AuditFilter | None = None) -> list[AuditEntry]:
    """Return the entries, newest first, with secrets masked."""
    return await _fetch(connection, chosen or AuditFilter(), above=None)


async def follow_audit(
    connection: Db, chosen: AuditFilter | None = None, *, pause: float = 1.0
) -> AsyncIterator[list[AuditEntry]]:
    """Yield the existing entries, then new ones, oldest first, until the iteration ends."""
    chosen = chosen or AuditFilter()
    found = await _fetch(connection, chosen, above=None)
    seen: set[int] = set()
    first = found[-1].id if found else 0
    while True:
        fresh = [entry for entry in reversed(found) if entry.id >= first and entry.id not in seen]
        seen |= {entry.id for entry in fresh}
        if fresh:
            yield fresh
        top = max(seen, default=0)
        seen = {number for number in seen if number > top - LATE_IDS}
        await asyncio.sleep(pause)
        found = await _fetch(connection, replace(chosen, limit=MOST_ENTRIES), above=top - LATE_IDS)


async def _fetch(connection: Db, chosen: AuditFilter, *, above: int | None) -> list[AuditEntry]:
    found = await fetch(connection, "audit_list", AuditEntry, **asdict(chosen), above=above)
    return [
        replace(entry, before=PLAIN.value(entry.before), after=PLAIN.value(entry.after)) for entry in found
    ]

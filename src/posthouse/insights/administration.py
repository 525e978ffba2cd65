"""What administrators read: keys, the audit log, what retention deletes, and the settings in effect."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from datetime import datetime
from typing import Any, Literal, TypeAlias
from uuid import UUID

from posthouse.core.erasure import Erasure
from posthouse.core.redaction import PLAIN
from posthouse.errors import ConfigurationError, ErasureNotFound
from posthouse.settings import ENV_PREFIX, Settings, load_settings, setting_sources
from posthouse.storage.keeper import RetentionStep, retention_plan
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


MAX_ENTRIES = 1000
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
        if not 1 <= self.limit <= MAX_ENTRIES:
            raise ConfigurationError(f"limit must be between 1 and {MAX_ENTRIES:,}, not {self.limit:,}")


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
        found = await _fetch(connection, replace(chosen, limit=MAX_ENTRIES), above=top - LATE_IDS)


async def _fetch(connection: Db, chosen: AuditFilter, *, above: int | None) -> list[AuditEntry]:
    found = await fetch(connection, "audit_list", AuditEntry, **asdict(chosen), above=above)
    return [
        replace(entry, before=PLAIN.value(entry.before), after=PLAIN.value(entry.after)) for entry in found
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionRule:
    """A table with retention.

    ``rows``: the last estimate of Postgres. ``next_deletion_at``: when its oldest partition expires, for
    tenants without their own retention.
    """

    category: str
    relation: str
    days: float
    partition_interval: str
    rows: int
    bytes: int
    partitions: int
    oldest: datetime | None
    next_deletion_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantRetention:
    id: str
    retention_days: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionReport:
    """The retention of all tables. ``due``: what the next clean-up deletes, in order."""

    tables: list[RetentionRule]
    tenants: list[TenantRetention]
    due: list[RetentionStep]


async def retention(connection: Db, days: Mapping[str, float]) -> RetentionReport:
    """Return the retention report. ``days``: see Settings.kept_days."""
    return RetentionReport(
        tables=await fetch(connection, "retention_sizes", RetentionRule, days=json.dumps(dict(days))),
        tenants=await fetch(connection, "tenants_with_retention", TenantRetention),
        due=await retention_plan(connection, days),
    )


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


Source: TypeAlias = Literal["default", "file", "environment", "flag"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingInfo:
    """A setting. ``source`` is flag if a command-line flag or the embedding program set it."""

    name: str
    variable: str
    value: Any
    source: Source
    secret: bool
    help: str


def settings_in_effect(settings: Settings) -> list[SettingInfo]:
    """Return the settings with secrets masked."""
    shown, sources = settings.masked(), _sources(settings)
    return [
        SettingInfo(
            name=item.name,
            variable=f"{ENV_PREFIX}{item.name.upper()}",
            value=shown[item.name],
            source=sources[item.name],
            secret=bool(item.metadata.get("secret")),
            help=item.metadata["help"],
        )
        for item in fields(Settings)
    ]


def _sources(settings: Settings) -> dict[str, Source]:
    try:
        loaded, sources = load_settings(), setting_sources()
    except ConfigurationError:  # settings given in code do not depend on the environment
        loaded, sources = Settings(), {}
    found: dict[str, Source] = {}
    for item in fields(Settings):
        same = getattr(loaded, item.name) == getattr(settings, item.name)
        source: Any = sources.get(item.name, "default") if same else "flag"
        found[item.name] = source
    return found

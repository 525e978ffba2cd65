"""The data that retention and erasures delete."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from posthouse.core.erasure import Erasure
from posthouse.errors import ErasureNotFound
from posthouse.storage.queries import Db, fetch
from posthouse.storage.retention import RetentionStep, plan


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptThing:
    """A table with retention.

    ``rows``: the last estimate of Postgres. ``next_drop_at``: when its oldest partition expires, for tenants
    without their own retention.
    """

    thing: str
    relation: str
    days: float
    span: str
    rows: int
    bytes: int
    partitions: int
    oldest: datetime | None
    next_drop_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantKept:
    id: str
    retention_days: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionReport:
    """The retention of all tables. ``due``: what the next clean-up deletes, in order."""

    things: list[KeptThing]
    tenants: list[TenantKept]
    due: list[RetentionStep]


async def retention(connection: Db, days: Mapping[str, float]) -> RetentionReport:
    """Return the retention report. ``days``: see Settings.kept_days."""
    return RetentionReport(
        things=await fetch(connection, "retention_sizes", KeptThing, days=json.dumps(dict(days))),
        tenants=await fetch(connection, "tenants_kept", TenantKept),
        due=await plan(connection, days),
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

"""Retention: how long data is stored, how much there is, and what is deleted next."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from posthouse.storage.queries import Db, fetch
from posthouse.storage.retention import Due, plan


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptThing:
    """A table with retention. ``rows``: the last estimate of Postgres. ``next_drop_at``: when its oldest
    partition expires, for tenants without their own retention.
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
    """The retention of all tables. ``due``: what the next round deletes, in order."""

    things: list[KeptThing]
    tenants: list[TenantKept]
    due: list[Due]


async def retention(connection: Db, days: Mapping[str, float]) -> RetentionReport:
    """Return the retention report. ``days``: see Settings.kept_days."""
    return RetentionReport(
        things=await fetch(connection, "retention_sizes", KeptThing, days=json.dumps(dict(days))),
        tenants=await fetch(connection, "tenants_kept", TenantKept),
        due=await plan(connection, days),
    )

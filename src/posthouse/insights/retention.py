"""What is kept for how long, how much there is of it, and what goes next."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from posthouse.storage.reading import Db, fetch
from posthouse.storage.retention import Due, plan


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptThing:
    """A table that retention looks after. ``rows`` are those that Postgres counted last. ``next_drop_at``:
    when its oldest partition is over, for tenants without days of their own.
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
    """``due``: what the next round lets go, in order."""

    things: list[KeptThing]
    tenants: list[TenantKept]
    due: list[Due]


async def retention(connection: Db, days: Mapping[str, float]) -> RetentionReport:
    """``days``: how long each thing is kept, as Settings.kept_days says."""
    return RetentionReport(
        things=await fetch(connection, "retention_sizes", KeptThing, days=json.dumps(dict(days))),
        tenants=await fetch(connection, "tenants_kept", TenantKept),
        due=await plan(connection, days),
    )

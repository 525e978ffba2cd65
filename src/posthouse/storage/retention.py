"""The statements of retention. Each is one short transaction; posthouse.keeper.retention repeats them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from posthouse.storage.queries import Db, call, call_row, call_rows, fetch_value

Action = Literal["finish", "drop", "shrink", "purge", "delete"]
PAGES = 2000
"""Pages read in one transaction: 16 MB, a few tenths of a second."""
ROWS = 5000
"""Rows deleted in one transaction, found by an index."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionStep:
    """A retention action. ``tenants``: those that keep their rows (shrink) or lose them (purge)."""

    thing: str
    relation: str
    name: str
    action: Action
    tenants: list[str]
    starts_at: datetime | None
    ends_at: datetime | None
    rows: int
    bytes: int


async def plan(connection: Db, days: Mapping[str, float]) -> list[RetentionStep]:
    """Return the actions that are due. ``days``: the retention of each category, see Settings.kept_days."""
    return await call_rows(connection, "retention_plan", RetentionStep, days=json.dumps(dict(days)))


async def detach(connection: Db, name: str) -> bool | None:
    """Detach a partition. Returns False if the table is locked, None if the partition no longer exists."""
    return await call(connection, "detach_partition", name=name)  # type: ignore[no-any-return]


async def copy_retained_rows(connection: Db, name: str, tenants: list[str]) -> int | None:
    """Copy the rows of these tenants. Returns how many, or None if the table is locked."""
    return await call(  # type: ignore[no-any-return]
        connection, "copy_retained_rows", name=name, tenants=tenants
    )


async def swap_partition(connection: Db, name: str, tenants: list[str]) -> bool | None:
    return await call(  # type: ignore[no-any-return]
        connection, "swap_partition", name=name, tenants=tenants
    )


async def delete_tenant_rows(
    connection: Db, name: str, tenants: list[str], page: int
) -> tuple[int, int | None]:
    """Delete the rows of these tenants from some pages. Returns how many, and the next page."""
    row = await call_row(connection, "delete_tenant_rows", name=name, tenants=tenants, page=page, pages=PAGES)
    return row["rows"], row["next_page"]


async def delete_detached_job_data(connection: Db, *, name: str, page: int) -> int | None:
    """Delete the data of the jobs on some pages of a detached partition, and return the next page."""
    return await call(  # type: ignore[no-any-return]
        connection, "delete_detached_job_data", name=name, page=page, pages=PAGES
    )


async def drop_detached_partition(connection: Db, name: str) -> bool:
    return bool(await call(connection, "drop_detached_partition", name=name))


async def delete_old(connection: Db, name: str, days: Mapping[str, float]) -> int:
    return int(await call(connection, "delete_old", name=name, days=json.dumps(dict(days)), limit=ROWS))


async def count_pages(connection: Db, name: str) -> int:
    return int(await fetch_value(connection, "pages_count", name=name) or 0)

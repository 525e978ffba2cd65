"""Overall counts."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from posthouse.storage.queries import Db, call, fetch


@dataclass(frozen=True, slots=True)
class Overview:
    queued: int
    running: int
    workers: int


async def overview(connection: Db, *, offline_after: float | None = None) -> Overview:
    (found,) = await fetch(connection, "overview_counts", Overview, offline_after=offline_after)
    return found


async def database_now(connection: Db) -> datetime:
    return await call(connection, "now")  # type: ignore[no-any-return]

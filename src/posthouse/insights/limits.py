"""Limits and their use."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from posthouse.storage.queries import Db, fetch

MOST_SLOTS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitInfo:
    """A limit.

    ``in_use``: running jobs in all of its slots; ``fullest``: running jobs in the fullest slot; ``tokens``:
    the fewest tokens of any slot.
    """

    name: str
    kinds: list[str] | None
    queues: list[str] | None
    tenants: list[str] | None
    per: str
    max_running: int | None
    rate: float | None
    burst: float | None
    weights: dict[str, Any]
    origin: str
    updated_at: datetime
    in_use: int
    slots: int
    fullest: int
    full_slots: int
    tokens: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotInfo:
    """The use of a limit by one tenant or key."""

    limit_name: str
    tenant_id: str | None
    key: str | None
    in_use: int
    max_running: int | None
    rate: float | None
    burst: float | None
    tokens: float | None


async def limits(connection: Db, *, name: str | None = None) -> list[LimitInfo]:
    """Return all limits, or the one with this name."""
    return await fetch(connection, "limits_list", LimitInfo, name=name)


async def limit_slots(connection: Db, *, name: str | None = None, limit: int = MOST_SLOTS) -> list[SlotInfo]:
    """Return the slots in use, the fullest of each limit first."""
    return await fetch(connection, "limit_slots_list", SlotInfo, name=name, limit=limit)

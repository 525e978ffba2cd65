"""Job ids are UUIDv7, made by the caller: a repeated enqueue carries the same id and makes one job."""

from __future__ import annotations

import os
import struct
import time
from datetime import UTC, datetime
from uuid import UUID, SafeUUID

_VERSION_AND_VARIANT = (0x7 << 76) | (0x2 << 62)
_VERSION = 7
_RANDOM_MASK = (1 << 62) - 1
_SAFETY = SafeUUID.unknown


def new_id() -> UUID:
    """A UUIDv7 whose sub-millisecond bits carry time too, so that ids of one process sort by age."""
    return new_ids(1)[0]


def new_ids(count: int) -> list[UUID]:
    """Many at once: one look at the random source instead of one for each, and without the checks that
    UUID(int=number) makes, whose outcome is known. A bulk enqueue spends a tenth of its time here.
    """
    make, give, clock = object.__new__, object.__setattr__, time.time_ns
    made = [make(UUID) for _ in range(count)]
    for one, random in zip(made, struct.unpack(f"!{count}Q", os.urandom(8 * count)), strict=True):
        milliseconds, rest = divmod(clock(), 1_000_000)
        fraction = rest * 4096 // 1_000_000
        number = (milliseconds << 80) | (fraction << 64) | _VERSION_AND_VARIANT | (random & _RANDOM_MASK)
        give(one, "int", number)
        give(one, "is_safe", _SAFETY)
    return made


def first_id_at(moment: datetime) -> UUID:
    """No id that is made at this moment or later is lower."""
    milliseconds = int(moment.timestamp() * 1000)
    return UUID(int=min(max(milliseconds, 0), (1 << 48) - 1) << 80)


def made_at(job_id: UUID) -> datetime | None:
    """The time that an id holds; None for one that was made in another way."""
    if job_id.version != _VERSION:
        return None
    return datetime.fromtimestamp((job_id.int >> 80) / 1000, UTC)

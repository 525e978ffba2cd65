"""Job ids are UUIDv7, made by the caller: a repeated enqueue carries the same id and makes one job."""

from __future__ import annotations

import os
import time
from uuid import UUID

_VERSION_AND_VARIANT = (0x7 << 76) | (0x2 << 62)
_RANDOM_MASK = (1 << 62) - 1


def new_id() -> UUID:
    """A UUIDv7 whose sub-millisecond bits carry time too, so that ids of one process sort by age."""
    return UUID(int=_number(int.from_bytes(os.urandom(8), "big")))


def new_ids(count: int) -> list[UUID]:
    """Many at once: one look at the random source instead of one for each."""
    random = os.urandom(8 * count)
    return [
        UUID(int=_number(int.from_bytes(random[start : start + 8], "big")))
        for start in range(0, 8 * count, 8)
    ]


def _number(random: int) -> int:
    milliseconds, rest = divmod(time.time_ns(), 1_000_000)
    fraction = rest * 4096 // 1_000_000
    return (milliseconds << 80) | (fraction << 64) | _VERSION_AND_VARIANT | (random & _RANDOM_MASK)

"""Job ids are UUIDv7, made by the caller: a repeated enqueue carries the same id and makes one job."""

from __future__ import annotations

import os
import time
from uuid import UUID

_VERSION_AND_VARIANT = (0x7 << 76) | (0x2 << 62)
_RANDOM_MASK = (1 << 62) - 1


def new_id() -> UUID:
    """A UUIDv7 whose sub-millisecond bits carry time too, so that ids of one process sort by age."""
    milliseconds, rest = divmod(time.time_ns(), 1_000_000)
    random = int.from_bytes(os.urandom(8), "big") & _RANDOM_MASK
    return UUID(int=(milliseconds << 80) | ((rest * 4096 // 1_000_000) << 64) | _VERSION_AND_VARIANT | random)

"""Job ids: UUIDv7, created by the caller. A repeated enqueue has the same id and creates one job."""

from __future__ import annotations

import os
import struct
import time
from datetime import UTC, datetime
from functools import lru_cache
from uuid import UUID, uuid5

_UNITS = 4096  # per millisecond
_VERSION = 7
_VARIANT = 0x2 << 62
_RANDOM_MASK = (1 << 62) - 1
_pack = struct.Struct("!QQ").pack
_next = 0


def new_id() -> UUID:
    """Return a UUIDv7 with sub-millisecond time bits, so that ids of one process sort by age."""
    return UUID(bytes=new_ids(1)[0])


def new_ids(count: int) -> list[bytes]:
    """Return many ids as 16 bytes each.

    Bulk enqueue sends bytes, which the garbage collector does not track. The ids share one read of the clock
    and one of the random source.
    """
    global _next  # noqa: PLW0603 - threads may use the same times; the random bits differ
    first = max(_next, time.time_ns() * _UNITS // 1_000_000)
    _next = first + count
    randoms = struct.unpack(f"!{count}Q", os.urandom(8 * count))
    return [
        _pack((units >> 12) << 16 | _VERSION << 12 | units & 0xFFF, _VARIANT | random & _RANDOM_MASK)
        for units, random in zip(range(first, first + count), randoms, strict=True)
    ]


def first_id_at(moment: datetime) -> UUID:
    """Return the lowest id that can be created at or after this moment."""
    milliseconds = int(moment.timestamp() * 1000)
    return UUID(int=min(max(milliseconds, 0), (1 << 48) - 1) << 80)


def made_at(job_id: UUID) -> datetime | None:
    """Return the time encoded in an id, or None if it is not a UUIDv7."""
    if job_id.version != _VERSION:
        return None
    return datetime.fromtimestamp((job_id.int >> 80) / 1000, UTC)


NAMESPACE = UUID("8e32bf70-cead-5347-820c-dc98ccea448a")


@lru_cache(maxsize=10_000)
def definition_id(key: str) -> UUID:
    """Return the id of the definition with this key."""
    return uuid5(NAMESPACE, key)

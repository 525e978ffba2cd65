"""Job ids are UUIDv7, made by the caller: a repeated enqueue carries the same id and makes one job."""

from __future__ import annotations

import os
import struct
import time
from datetime import UTC, datetime
from uuid import UUID

_UNITS = 4096  # in a millisecond
_VERSION = 7
_VARIANT = 0x2 << 62
_RANDOM_MASK = (1 << 62) - 1
_pack = struct.Struct("!QQ").pack
_next = 0


def new_id() -> UUID:
    """A UUIDv7 whose sub-millisecond bits carry time too, so that ids of one process sort by age."""
    return UUID(bytes=new_ids(1)[0])


def new_ids(count: int) -> list[bytes]:
    """Many at once, each as its 16 bytes: those are what a bulk enqueue sends, and the garbage collector does
    not look at them. They share one look at the clock and one at the random source.
    """
    global _next  # noqa: PLW0603 - two threads may get the same times; their ids differ all the same
    first = max(_next, time.time_ns() * _UNITS // 1_000_000)
    _next = first + count
    randoms = struct.unpack(f"!{count}Q", os.urandom(8 * count))
    return [
        _pack((units >> 12) << 16 | _VERSION << 12 | units & 0xFFF, _VARIANT | random & _RANDOM_MASK)
        for units, random in zip(range(first, first + count), randoms, strict=True)
    ]


def first_id_at(moment: datetime) -> UUID:
    """No id that is made at this moment or later is lower."""
    milliseconds = int(moment.timestamp() * 1000)
    return UUID(int=min(max(milliseconds, 0), (1 << 48) - 1) << 80)


def made_at(job_id: UUID) -> datetime | None:
    """The time that an id holds; None for one that was made in another way."""
    if job_id.version != _VERSION:
        return None
    return datetime.fromtimestamp((job_id.int >> 80) / 1000, UTC)

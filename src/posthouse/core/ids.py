"""Job ids are UUIDv7, made by the caller: a repeated enqueue carries the same id and makes one job."""

from __future__ import annotations

import os
import struct
import time
from datetime import datetime
from uuid import UUID, SafeUUID

_VERSION_AND_VARIANT = (0x7 << 76) | (0x2 << 62)
_RANDOM_MASK = (1 << 62) - 1
_SAFETY = SafeUUID.unknown


def new_id() -> UUID:
    """A UUIDv7 whose sub-millisecond bits carry time too, so that ids of one process sort by age."""
    return UUID(int=_number(int.from_bytes(os.urandom(8), "big")))


def new_ids(count: int) -> list[UUID]:
    """Many at once: one look at the random source instead of one for each."""
    return [_unchecked(_number(random)) for random in struct.unpack(f"!{count}Q", os.urandom(8 * count))]


def _unchecked(number: int) -> UUID:
    """What UUID(int=number) makes, in a third of the time: what it checks is known."""
    made = object.__new__(UUID)
    object.__setattr__(made, "int", number)
    object.__setattr__(made, "is_safe", _SAFETY)
    return made


def _number(random: int) -> int:
    milliseconds, rest = divmod(time.time_ns(), 1_000_000)
    fraction = rest * 4096 // 1_000_000
    return (milliseconds << 80) | (fraction << 64) | _VERSION_AND_VARIANT | (random & _RANDOM_MASK)


def first_id_at(moment: datetime) -> UUID:
    """No id that is made at this moment or later is lower."""
    milliseconds = int(moment.timestamp() * 1000)
    return UUID(int=min(max(milliseconds, 0), (1 << 48) - 1) << 80)

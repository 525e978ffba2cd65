"""The Range header: one range of bytes."""

from __future__ import annotations

import re
from typing import NamedTuple

_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")


class ByteRange(NamedTuple):
    """Start and end of the bytes to send, and whether the request named a range."""

    start: int
    end: int
    is_partial: bool = True


def byte_range(asked: str | None, size: int) -> ByteRange | None:
    """Return the range to send; None if it is empty. Unsupported Range headers mean all bytes."""
    match = _RANGE.fullmatch(asked or "")
    if match is None or not (match[1] or match[2]):
        return ByteRange(0, size, is_partial=False)
    start = int(match[1]) if match[1] else max(0, size - int(match[2]))
    end = min(size, int(match[2]) + 1) if match[1] and match[2] else size
    return ByteRange(start, end) if start < end else None

"""Compute lane numbers like posthouse.lane_number; bulk enqueue writes them itself."""

from __future__ import annotations

import hashlib
from functools import lru_cache

NORMAL_TURN = 2


@lru_cache(maxsize=4096)
def lane_number(
    queue: str,
    kind: str,
    tenant: str,
    priority: int,
    turn: int = NORMAL_TURN,
    *,
    requires: tuple[str, ...] = (),
    prefers: tuple[str, ...] = (),
) -> int:
    parts = [queue, kind, tenant, str(priority), str(turn)]
    if requires:
        parts.append(f"requires {','.join(requires)}")
    if prefers:
        parts.append(f"prefers {','.join(prefers)}")
    return int.from_bytes(hashlib.sha256("\x1f".join(parts).encode()).digest()[:8], "big", signed=True)

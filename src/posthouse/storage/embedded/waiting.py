"""Waiting for a condition, never for luck."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

FIRST_PAUSE = 0.02
# A server in recovery writes a line to its log for every attempt, so these become rarer.
LONGEST_PAUSE = 0.5


def attempts(timeout: float) -> Iterator[None]:
    """Yield at least once, then again and again until the time is over."""
    end = time.monotonic() + timeout
    pause = FIRST_PAUSE
    yield
    while time.monotonic() < end:
        time.sleep(pause)
        pause = min(pause * 1.2, LONGEST_PAUSE)
        yield

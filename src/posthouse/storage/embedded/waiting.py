"""Waiting for a condition."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

FIRST_PAUSE = 0.02
# A server in recovery logs a line for each attempt, so that attempts become less frequent.
LONGEST_PAUSE = 0.5


def attempts(timeout: float) -> Iterator[None]:
    """Yield at least once, then repeatedly until the timeout."""
    end = time.monotonic() + timeout
    pause = FIRST_PAUSE
    yield
    while time.monotonic() < end:
        time.sleep(pause)
        pause = min(pause * 1.2, LONGEST_PAUSE)
        yield

"""In-memory token buckets for rate limits."""

from __future__ import annotations

import time
from collections.abc import Callable

MOST_NAMES = 10_000


class Buckets:
    """One token bucket per name. Without a rate they are never empty."""

    def __init__(self, rate: float, burst: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._burst = burst
        self._clock = clock
        self._left: dict[str, tuple[float, float]] = {}

    def take(self, name: str) -> float:
        """Take a token. Returns 0.0 on success, otherwise the seconds until one is available."""
        wait = self.wait(name)
        if not wait and self._rate:
            left = self._now(name) - 1
            self._left.pop(name, None)  # keep the oldest first, which are the fullest
            self._left[name] = (left, self._clock())
            if len(self._left) > MOST_NAMES:
                self._left.pop(next(iter(self._left)))
        return wait

    def wait(self, name: str) -> float:
        """Return the seconds until a token is available."""
        return max(0.0, (1 - self._now(name)) / self._rate) if self._rate else 0.0

    def _now(self, name: str) -> float:
        left, at = self._left.get(name, (self._burst, 0.0))
        return min(self._burst, left + (self._clock() - at) * self._rate)

"""A circuit breaker with exponential back-off."""

from __future__ import annotations

import random
from typing import Literal

FIRST_PAUSE = 0.1
LONGEST_PAUSE = 2.0
"""After an outage of any length, Redis is in use again within this time."""

State = Literal["closed", "open", "half-open"]


class Breaker:
    """``closed``: Redis is used. ``open``: it is not. ``half-open``: one request tries whether it is back."""

    def __init__(self) -> None:
        self.state: State = "half-open"
        self.failures = 0
        self.openings = 0

    def failed(self) -> float:
        """Open the circuit. Return the seconds until the next try."""
        if self.state == "closed":
            self.openings += 1
        self.state = "open"
        self.failures += 1
        longest = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(self.failures - 1, 16))
        return random.uniform(0.5, 1.0) * longest  # noqa: S311 - workers must not return in lockstep

    def retry(self) -> None:
        self.state = "half-open"

    def succeeded(self) -> None:
        self.state = "closed"
        self.failures = 0

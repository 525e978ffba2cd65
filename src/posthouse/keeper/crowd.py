"""Estimates how many keepers run, so that a large fleet does not poll more often than a small one."""

from __future__ import annotations

SHARED_BY = 4
"""So many keepers look at full pace; with more, each looks less often and all together as often."""


class Crowd:
    def __init__(self) -> None:
        self.patience = 1.0

    def count(self, workers: int) -> None:
        self.patience = max(1.0, workers / SHARED_BY)

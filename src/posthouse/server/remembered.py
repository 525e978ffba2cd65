"""A cache for one value, so that frequent requests do not cost more than occasional ones."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")

SHARE = 20
"""Slow values are computed less often: computing takes at most 1/20 of the time."""


class Remembered(Generic[T]):
    """A value computed by one caller and shared with the others. Errors are not cached."""

    def __init__(self, ask: Callable[[], Awaitable[T]], seconds: float) -> None:
        self._ask = ask
        self._seconds = seconds
        self._lock = asyncio.Lock()
        self._until = 0.0
        self._answer: T | None = None

    async def get(self) -> T:
        async with self._lock:
            if self._answer is None or time.monotonic() >= self._until:
                began = time.monotonic()
                self._answer = await self._ask()
                took = time.monotonic() - began
                self._until = time.monotonic() + max(self._seconds, SHARE * took)
            return self._answer

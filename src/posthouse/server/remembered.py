"""Answers that may be a few seconds old, so that asking often costs no more than asking now and then."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")

SHARE = 20
"""What takes long is asked for less often: a twentieth of the time at most goes into it."""


class Remembered(Generic[T]):
    """One asks, the others get the same answer. An error is not remembered."""

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

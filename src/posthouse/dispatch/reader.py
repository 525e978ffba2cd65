"""Reads the hints for a claimant of a worker, and falls back to polling while Redis is unreachable."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from hashlib import blake2s
from typing import Protocol

from posthouse.dispatch.breaker import Breaker
from posthouse.dispatch.connection import MissingGroup, Redis
from posthouse.dispatch.streams import LEVELS, Hint, Key, Streams
from posthouse.errors import RedisUnavailable

_log = logging.getLogger("posthouse.worker")

BLOCK_MILLISECONDS = 400
IDLE_SECONDS = 30.0
"""Pause between two polls of Postgres while Redis works, in case that a hint was lost."""
LOWEST_FIRST = 8
"""Every so many reads the levels are read from the lowest, so that none starves."""


Observe = Callable[["Reader"], None]
_observe: Observe | None = None


def observe_readers(observe: Observe) -> None:
    """Call ``observe`` with each new reader of this process."""
    global _observe  # noqa: PLW0603 - a process is measured or it is not
    _observe = observe


class Claimant(Protocol):
    """Claims jobs: a fetcher of the worker."""

    resting: asyncio.Event
    """Set while it has free slots and found nothing to claim."""
    claimed: asyncio.Event
    """Set after each claim."""

    @property
    def queues(self) -> Sequence[str]: ...
    @property
    def group(self) -> Sequence[str]:
        """What it can run: claimants with the same get each hint once."""
        ...

    def wake(self) -> None: ...
    def rely_on_hints(self, idle_seconds: float | None) -> None:
        """Poll this rarely; None: poll as without hints."""
        ...


class Reader:
    """``falls_back``: whether the claimant polls while Redis is unreachable (hybrid)."""

    def __init__(self, redis: Redis, claimant: Claimant, consumer: str, *, falls_back: bool) -> None:
        self._streams = Streams(redis)
        self._redis = redis
        self._claimant = claimant
        self._consumer = consumer
        self._falls_back = falls_back
        self._joined: tuple[str, frozenset[Key]] | None = None
        self._backlog = False
        self._reads = 0
        self.breaker = Breaker()
        self.hints = 0
        """How many hints this reader has followed."""
        if _observe is not None:
            _observe(self)

    async def run(self) -> None:
        """Read until canceled."""
        self._claimant.rely_on_hints(IDLE_SECONDS)
        while True:
            try:
                await self._read()
            except MissingGroup:
                self._joined = None
            except RedisUnavailable as error:
                await self._wait_for_redis(error)

    async def _wait_for_redis(self, error: RedisUnavailable) -> None:
        pause = self.breaker.failed()
        self._joined = None
        if self.breaker.failures == 1:
            _log.warning(
                "%s; %s",
                error,
                "polling Postgres instead" if self._falls_back else "waiting until it is back",
            )
        if self._falls_back:
            self._claimant.rely_on_hints(None)
            self._claimant.wake()
        await asyncio.sleep(pause)
        self.breaker.retry()

    async def _read(self) -> None:
        group, keys = self._place()
        if self._joined != (group, frozenset(keys)):
            await self._join(group, keys)
        await self._claimant.resting.wait()
        hints = await self._next(group, keys)
        self._backlog = bool(hints)
        if not hints:
            return
        if self._claimant.resting.is_set():
            self.hints += len(hints)
            await self._claim()
        else:  # it found jobs while this read waited: the hint is for a claimant with free slots
            read = {hint.stream for hint in hints}
            await self._streams.add({key: 1 for key in keys if key.stream in read})
        await self._streams.handled(group, hints)

    async def _join(self, group: str, keys: Sequence[Key]) -> None:
        """Read from the end of the streams, and claim what became ready before."""
        await self._streams.join(group, self._consumer, keys)
        self._joined = (group, frozenset(keys))
        if self.breaker.failures:
            _log.info("Redis is reachable again at %s", self._redis.shown)
        self.breaker.succeeded()
        self._claimant.rely_on_hints(IDLE_SECONDS)
        self._claimant.wake()

    async def _claim(self) -> None:
        """Wait for one claim: a hint is acknowledged when the jobs are claimed."""
        self._claimant.claimed.clear()
        self._claimant.resting.clear()
        self._claimant.wake()
        await self._claimant.claimed.wait()

    async def _next(self, group: str, keys: Sequence[Key]) -> list[Hint]:
        """Read the levels in order while there are hints; otherwise wait for one of any level."""
        if self._backlog:
            self._reads += 1
            for level in LEVELS if self._reads % LOWEST_FIRST else reversed(LEVELS):
                own = [key for key in keys if key.level == level]
                if hints := await self._streams.read(group, self._consumer, own):
                    return hints
        return await self._streams.read(group, self._consumer, keys, BLOCK_MILLISECONDS)

    def _place(self) -> tuple[str, list[Key]]:
        words = "\n".join(self._claimant.group)
        group = blake2s(words.encode(), digest_size=8).hexdigest()
        return group, [Key(queue, level) for level in LEVELS for queue in sorted(self._claimant.queues)]

    async def close(self) -> None:
        """Leave the group, so that no hint waits for this consumer."""
        if self._joined is not None:
            group, keys = self._joined
            with suppress(RedisUnavailable, MissingGroup):
                await self._streams.leave(group, self._consumer, keys)

"""Read the hints for a claimant of a worker, and fall back to polling while Redis is unreachable."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from hashlib import blake2s
from typing import Protocol

from posthouse.dispatch.connection import Breaker, Redis
from posthouse.dispatch.streams import LEVELS, Hint, HintStreams, Key, MissingGroup
from posthouse.errors import RedisUnavailable

_log = logging.getLogger("posthouse.worker")

QUICK_BLOCK_MILLISECONDS = 400
"""How long a read waits in Redis if the worker falls back to polling, because the worker must detect within a
second that Redis hangs.
"""
BLOCK_MILLISECONDS = 2000
"""The same if the worker does not fall back. Fewer reads leave more of the CPU to the jobs."""
SAFETY_SECONDS = 300.0
"""Pause between two polls of Postgres while hints arrive. The relay counts the ready jobs and repeats lost
hints; this poll guards against unknown faults.
"""
OUTAGE_SECONDS = 30.0
"""The same while Redis is unreachable, in redis mode."""
RELAY_SECONDS = 5.0
"""How often a reader checks that a relay is active. Without a relay there are no hints, and the worker polls.
"""


Observe = Callable[["Reader"], None]
_observe: Observe | None = None


def _noop() -> None:
    pass


def observe_readers(observe: Observe) -> None:
    """Call ``observe`` with each new reader of this process."""
    global _observe  # noqa: PLW0603 - one observer per process
    _observe = observe


class Claimant(Protocol):
    """A component that claims jobs: a fetcher of the worker."""

    resting: asyncio.Event
    """Set while the claimant has free slots and found nothing to claim."""
    claimed: asyncio.Event
    """Set after each claim."""

    @property
    def has_room(self) -> bool:
        """Whether the claimant could start another job."""
        ...

    @property
    def queues(self) -> Sequence[str]: ...
    @property
    def group(self) -> Sequence[str]:
        """The kinds and capabilities of the claimant. Each hint wakes one claimant of a group."""
        ...

    def wake(self) -> None: ...
    def rely_on_hints(self, idle_seconds: float | None) -> None:
        """Poll at this interval; None: poll as without hints."""
        ...


class Reader:
    """The reader of hints for one claimant.

    With ``falls_back`` the claimant polls while Redis is unreachable (hybrid mode).
    """

    def __init__(self, redis: Redis, claimant: Claimant, consumer: str, *, falls_back: bool) -> None:
        self._streams = HintStreams(redis)
        self._redis = redis
        self._claimant = claimant
        self._consumer = consumer
        self._falls_back = falls_back
        self._block = QUICK_BLOCK_MILLISECONDS if falls_back else BLOCK_MILLISECONDS
        self._joined: tuple[str, frozenset[Key]] | None = None
        self._relay_at = 0.0
        self._has_relay = True
        self.relayed = asyncio.Event()
        """Set while a relay forwards the notifications of Postgres to this worker."""
        self.on_loss: Callable[[], None] = _noop
        """Called when ``relayed`` is cleared."""
        self.breaker = Breaker()
        self.hints = 0
        """Number of reads whose hints made the claimant claim."""
        if _observe is not None:
            _observe(self)

    async def run(self) -> None:
        """Read until canceled."""
        self._claimant.rely_on_hints(SAFETY_SECONDS)
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
        self._note_relay(listens=False)
        if self.breaker.failures == 1:
            _log.warning(
                "%s; %s",
                error,
                "polling Postgres instead" if self._falls_back else "waiting until it is back",
            )
            self._poll_every(None if self._falls_back else OUTAGE_SECONDS)
        await asyncio.sleep(pause)
        self.breaker.retry()

    def _poll_every(self, seconds: float | None) -> None:
        """Change the pause between polls. Wake the claimant, because it may be in a longer pause."""
        self._claimant.rely_on_hints(seconds)
        self._claimant.wake()

    async def _read(self) -> None:
        group, keys = self._group_and_keys()
        if not keys:  # a worker that runs only commands, before any is defined
            await asyncio.sleep(RELAY_SECONDS)
            return
        if self._joined != (group, frozenset(keys)):
            await self._join(group, keys)
        await self._claimant.resting.wait()
        if time.monotonic() >= self._relay_at:
            await self._check_relay()
        hints = await self._streams.read(group, self._consumer, keys, self._block)
        if not hints:
            return
        if self._claimant.resting.is_set():
            self.hints += 1
            await self._claim()
            spare = [] if self._claimant.has_room else hints[1:]
        else:  # the claimant found jobs while this read waited
            spare = hints
        await self._return_hints(keys, spare)
        await self._streams.acknowledge(group, hints)

    async def _return_hints(self, keys: Sequence[Key], spare: Sequence[Hint]) -> None:
        """Add hints again for which this claimant has no free slot."""
        if spare:
            streams = {hint.stream for hint in spare}
            await self._streams.add({key: 1 for key in keys if key.stream in streams})

    async def _join(self, group: str, keys: Sequence[Key]) -> None:
        """Read from the end of the streams, and claim the jobs that became ready before."""
        await self._streams.join(group, self._consumer, keys)
        self._joined = (group, frozenset(keys))
        if self.breaker.failures:
            _log.info("Redis is reachable again at %s", self._redis.shown)
        self.breaker.succeeded()
        _, listens = await self._streams.relay()
        self._note_relay(listens=listens)
        self._has_relay, self._relay_at = True, time.monotonic() + RELAY_SECONDS
        self._poll_every(SAFETY_SECONDS)

    async def _check_relay(self) -> None:
        self._relay_at = time.monotonic() + RELAY_SECONDS
        relay, listens = await self._streams.relay()
        self._note_relay(listens=listens)
        if self._has_relay == bool(relay):
            return
        self._has_relay = bool(relay)
        if relay:
            _log.info("a relay writes hints to Redis again")
        else:
            _log.warning("no relay writes hints to Redis: polling Postgres until a keeper in this mode runs")
        self._poll_every(SAFETY_SECONDS if relay else None)

    def _note_relay(self, *, listens: bool) -> None:
        if listens:
            self.relayed.set()
        elif self.relayed.is_set():
            self.relayed.clear()
            self.on_loss()

    async def _claim(self) -> None:
        """Wait for one claim, because a hint is acknowledged when its jobs are claimed."""
        self._claimant.claimed.clear()
        self._claimant.resting.clear()
        self._claimant.wake()
        await self._claimant.claimed.wait()

    def _group_and_keys(self) -> tuple[str, list[Key]]:
        words = "\n".join(self._claimant.group)
        group = blake2s(words.encode(), digest_size=8).hexdigest()
        return group, [Key(queue, level) for level in LEVELS for queue in sorted(self._claimant.queues)]

    async def close(self) -> None:
        """Leave the group, so that no hint waits for this consumer."""
        if self._joined is not None:
            group, keys = self._joined
            with suppress(RedisUnavailable, MissingGroup):
                await self._streams.leave(group, self._consumer, keys)
        await self._streams.close()

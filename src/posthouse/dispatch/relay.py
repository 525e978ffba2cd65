"""The relay: writes hints about ready jobs to Redis.

Each keeper has one. One of them holds a lease in Redis and works; another takes over when the lease expires.

The relay does not copy each enqueue. It counts the ready jobs in Postgres, when a notification arrives and
once a second, and adds the hints that are missing: at most one per worker. So a relay that was down, or a
Redis that was restarted or flushed, needs no recovery, and the streams stay short with a million ready jobs.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple
from uuid import uuid4

import psycopg

from posthouse.dispatch.breaker import Breaker
from posthouse.dispatch.connection import MissingGroup, Redis, require
from posthouse.dispatch.streams import LEVELS, Key, Streams
from posthouse.errors import RedisUnavailable
from posthouse.settings import Settings
from posthouse.storage.connect import Line, retry_pause
from posthouse.storage.dispatching import Ready, ready_jobs
from posthouse.storage.hearing import Hearing, Hunger
from posthouse.waiting import until_set

_log = logging.getLogger("posthouse.keeper")

LEASE_SECONDS = 3.0
ELECTION_SECONDS = 1.0
SWEEP_SECONDS = 1.0
LONGEST_SWEEP_SECONDS = 5.0
"""Ready jobs that no worker claims, because of a limit for example, are hinted at less and less often."""
DEEP = 200
"""Ready jobs above which a queue is counted periodically: notifications would slow down enqueueing."""
DEEP_SECONDS = 0.1
SHARE = 10
"""Counting takes at most 1/10 of the time."""
RECLAIM_SECONDS = 5.0


class Seen(NamedTuple):
    jobs: int
    next_at: float
    pause: float


class Relay:
    name = "relay"

    def __init__(self, url: str, settings: Settings, redis: Redis) -> None:
        self._id = uuid4().hex[:12]
        self._settings = settings
        self._redis = redis
        self._streams = Streams(redis)
        self._line = Line(url, "relay")
        direct = settings.direct_url or url
        self._hunger = Hunger(direct, seconds=0)
        self._hearing = Hearing(direct, ("posthouse_ready",), on_notice=self._hear, on_gap=self._sweep_now)
        self._bell = asyncio.Event()
        self._belled: set[str] = set()
        self._wanted: set[str] = set()
        self._known: set[str] = set()
        self._deep: set[str] = set()
        self._seen: dict[Key, Seen] = {}
        self._level: dict[str, str] = {}
        """The level of the last ready job that was seen in each queue."""
        self._sweep_at = self._renew_at = self._reclaim_at = 0.0
        self._spent = 0.0
        self.breaker = Breaker()
        self.leads = False
        self.hints = 0

    async def open(self) -> None:
        """Check in redis mode that Redis is reachable."""
        if self._settings.dispatch == "redis":
            await require(self._redis)

    async def run(self) -> None:
        """Relay until canceled."""
        failures = 0
        while True:
            try:
                if await self._renew():
                    await self._lead()
                failures, pause = 0, ELECTION_SECONDS
            except RedisUnavailable as error:
                pause = self._redis_failed(error)
            except MissingGroup:
                pause = 0.0
            except psycopg.OperationalError as error:
                _log.debug("relay: %s", error)
                pause = retry_pause(failures)
                failures += 1
            except Exception:  # noqa: BLE001 - any error: the relay must continue
                _log.exception("relay failed, retrying in %g s", ELECTION_SECONDS)
                pause = ELECTION_SECONDS
            await asyncio.sleep(pause)

    def _redis_failed(self, error: RedisUnavailable) -> float:
        self.leads = False
        pause = self.breaker.failed()
        if self.breaker.failures == 1:
            _log.warning("relay stopped, retrying: %s", error)
        return pause

    async def _renew(self) -> bool:
        self.leads = await self._streams.lead(self._id, LEASE_SECONDS)
        self._renew_at = time.monotonic() + LEASE_SECONDS / 3
        self.breaker.succeeded()
        return self.leads

    async def _lead(self) -> None:
        """Relay while this relay holds the lease."""
        _log.debug("relay started id=%s", self._id)
        hearing = asyncio.create_task(self._hearing.run())
        self._sweep_now()
        try:
            while time.monotonic() < self._renew_at or await self._renew():
                await self.run_once()
                await until_set(self._bell, self._pause())
        finally:
            hearing.cancel()
            await asyncio.wait([hearing])
            with suppress(psycopg.Error):
                await self._hunger.only(set())

    async def run_once(self) -> dict[str, int]:
        """Count the ready jobs of the queues that were notified, or of all, and add the missing hints."""
        self._bell.clear()
        belled, self._belled = self._belled, set()
        began = time.monotonic()
        first = {Key(queue, self._level[queue]): 1 for queue in belled if queue in self._level}
        if first:  # before counting: most notifications are about one job
            await self._streams.add(first)
        every = began >= self._sweep_at
        queues = None if every else sorted(belled | self._deep)
        found = await self._line.run(lambda db: ready_jobs(db, queues, DEEP))
        hints = await self._missing(found, belled)
        self._level.update({item.queue: item.level for item in found if item.level is not None})
        if hints:
            await self._streams.add(hints)
        self._spent = time.monotonic() - began
        if every:
            self._sweep_at = began + SWEEP_SECONDS
            self._known = {item.queue for item in found}
        await self._listen(found)
        if began >= self._reclaim_at:
            await self._reclaim()
        added = sum(hints.values()) + len(first)
        self.hints += added
        return {"hints": added}

    async def _missing(self, found: Sequence[Ready], belled: set[str]) -> dict[Key, int]:
        wanted = {}
        now = time.monotonic()
        for item in found:
            if item.level is None:
                for level in LEVELS:
                    self._seen.pop(Key(item.queue, level), None)
            elif self._is_due(Key(item.queue, item.level), item.jobs, now, belled=item.queue in belled):
                wanted[Key(item.queue, item.level)] = min(item.jobs, item.workers)
        if not wanted:
            return {}
        unread = await self._streams.unread(list(wanted))
        return {key: count - unread[key] for key, count in wanted.items() if count > unread[key]}

    def _is_due(self, key: Key, jobs: int, now: float, *, belled: bool) -> bool:
        seen = self._seen.get(key)
        unchanged = seen is not None and seen.jobs == jobs and not belled
        if unchanged and seen is not None and now < seen.next_at:
            return False
        pause = SWEEP_SECONDS
        if unchanged and seen is not None:
            pause = min(LONGEST_SWEEP_SECONDS, 2 * seen.pause)
        self._seen[key] = Seen(jobs, now + pause, pause)
        return True

    async def _listen(self, found: Sequence[Ready]) -> None:
        """Request notifications for the queues that are not deep. Count again after a request."""
        counted = {item.queue for item in found}
        self._deep = (self._deep - counted) | {item.queue for item in found if item.jobs >= DEEP}
        self._wanted = self._known - self._deep
        if await self._hunger.only(self._wanted):
            self._sweep_now()

    def _pause(self) -> float:
        quick = bool(self._deep) or not self._hearing.listening
        if quick:
            return max(DEEP_SECONDS, SHARE * self._spent)
        return max(0.0, self._sweep_at - time.monotonic())

    async def _reclaim(self) -> None:
        keys = [Key(queue, level) for queue in sorted(self._known) for level in LEVELS]
        taken = await self._streams.reclaim(f"relay-{self._id}", keys, RECLAIM_SECONDS)
        if taken:
            await self._streams.add(taken)
        self._reclaim_at = time.monotonic() + RECLAIM_SECONDS

    def _hear(self, _: str, queue: str) -> None:
        if queue in self._wanted:
            self._belled.add(queue)
            self._bell.set()

    def _sweep_now(self) -> None:
        self._sweep_at = 0.0
        self._bell.set()

    async def close(self) -> None:
        if self.leads:
            with suppress(RedisUnavailable, MissingGroup):
                await self._streams.resign(self._id)
        await self._line.close()
        await self._hunger.close()
        await self._redis.close()

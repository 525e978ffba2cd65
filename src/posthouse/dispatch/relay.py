"""The relay: writes hints about ready jobs to Redis.

Each keeper has a relay. The relay that holds a lease in Redis is active; another relay takes over when the
lease expires.

A notification of Postgres becomes a hint at once. Shortly after it, and periodically, the relay counts the
ready jobs in Postgres and adds the hints that are missing: at most one per worker. So a relay that was down,
or a Redis that was restarted or flushed, needs no recovery, and the streams stay short with a million ready
jobs.

The relay also forwards cancellations and changes of definitions, so that workers need not listen in Postgres.
A notification wakes every session that listens on any channel: if 50 workers listened, each enqueue and each
hint would take 1 ms longer.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple
from uuid import uuid4

import psycopg
from psycopg import AsyncConnection

from posthouse.dispatch.connection import Breaker, Redis, require
from posthouse.dispatch.streams import CHANNELS, GAP, LEVELS, NOTIFICATIONS_CHANNEL, HintStreams, Key
from posthouse.errors import RedisUnavailable
from posthouse.settings import Settings
from posthouse.storage.connections import ReconnectingConnection
from posthouse.storage.keeper import Ready, ready_jobs
from posthouse.storage.notifications import NotificationListener, WakeupRequests
from posthouse.waiting import Backoff, wait_for_event

_log = logging.getLogger("posthouse.keeper")

LEASE_SECONDS = 3.0
ELECTION_SECONDS = 1.0
SWEEP_SECONDS = 1.0
MAX_SWEEP_SECONDS = 5.0
"""Interval at which all queues are counted while no jobs are ready; otherwise it is ``SWEEP_SECONDS``. Hints
at ready jobs that no worker claims, for example because of a limit, slow down to the same interval.
"""
COUNT_SECONDS = 0.01
"""Delay from a notification to the count. By then a worker has usually claimed the job."""
DEEP_QUEUE_JOBS = 200
"""Number of ready jobs from which a queue is only counted: notifications would slow down enqueueing."""
DEEP_SECONDS = 0.1
COUNT_PAUSE_FACTOR = 10
"""Counting takes at most 1/10 of the time."""
RECLAIM_SECONDS = 5.0
REMOVE_SECONDS = 60.0


class CountedQueue(NamedTuple):
    state: tuple[int, str]
    next_at: float
    pause: float


class Relay:
    name = "relay"

    def __init__(self, url: str, settings: Settings, redis: Redis) -> None:
        self._id = uuid4().hex[:12]
        self._settings = settings
        self._redis = redis
        self._streams = HintStreams(redis)
        self._connection = ReconnectingConnection(url, "relay")
        direct = settings.direct_url or url
        self._wakeup_requests = WakeupRequests(direct, seconds=0)
        channels = ("posthouse_ready", *CHANNELS)
        self._listener = NotificationListener(
            direct, "server listener", channels, self._on_notification, on_listening=self._on_listening
        )
        self._wakeup = asyncio.Event()
        self._forwarded: list[str] = []
        self._notified: set[str] = set()
        """Queues with a notification."""
        self._to_count: set[str] = set()
        """Queues with a notification since they were counted."""
        self._notify_queues: set[str] = set()
        self._known: set[str] = set()
        self._deep: set[str] = set()
        self._counted: dict[Key, CountedQueue] = {}
        self._level: dict[str, str] = {}
        """The level of the last ready job that was counted in each queue."""
        self._workers: dict[str, int] = {}
        self._unread: dict[Key, int] = {}
        """Hints that may be unread: the number that Redis reported last, and those added since."""
        self._joined: str | None = None
        self._sweep_at = self._renew_at = 0.0
        self._count_at = math.inf
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
        backoff = Backoff()
        while True:
            try:
                if await self._renew():
                    await self._lead()
                pause = ELECTION_SECONDS
                backoff.reset()
            except RedisUnavailable as error:
                pause = self._redis_failed(error)
            except psycopg.OperationalError as error:
                _log.debug("relay: %s", error)
                pause = backoff.next()
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
        self.leads = await self._streams.acquire_lease(self._id, LEASE_SECONDS)
        self._renew_at = time.monotonic() + LEASE_SECONDS / 3
        self.breaker.succeeded()
        return self.leads

    async def _lead(self) -> None:
        """Relay while this relay holds the lease."""
        _log.debug("relay started id=%s", self._id)
        others = [asyncio.create_task(part()) for part in (self._listener.run, self._maintain_streams)]
        self._sweep_now()
        try:
            while time.monotonic() < self._renew_at or await self._renew_and_check():
                self._wakeup.clear()
                await self._add_first_hints()
                await self._forward_notifications()
                if time.monotonic() >= min(self._count_at, self._sweep_at):
                    await self.run_once()
                await wait_for_event(self._wakeup, self._pause())
        finally:
            for task in others:
                task.cancel()
            await asyncio.wait(others)
            with suppress(psycopg.Error):
                await self._wakeup_requests.replace(set())

    async def _renew_and_check(self) -> bool:
        """Renew the lease. Count all queues if workers have joined, because a queue may be new."""
        joined = await self._streams.joined()
        if joined != self._joined:
            self._joined = joined
            self._sweep_now()
        if self._listener.is_listening:
            await self._streams.set_listening(LEASE_SECONDS)
        return await self._renew()

    async def _add_first_hints(self) -> None:
        """Add a hint for each queue with a notification, unless it has an unread hint for each worker."""
        notified, self._notified = self._notified, set()
        if not notified:
            return
        keys = (Key(queue, self._level.get(queue, "normal")) for queue in notified)
        first = {key: 1 for key in keys if self._unread.get(key, 0) < self._workers.get(key.queue, 1)}
        if first:
            await self._add(first)
        self._to_count |= notified
        self._count_at = min(
            self._count_at, time.monotonic() + max(COUNT_SECONDS, COUNT_PAUSE_FACTOR * self._spent)
        )

    async def _forward_notifications(self) -> None:
        messages, self._forwarded = self._forwarded, []
        if messages:
            await self._streams.publish((NOTIFICATIONS_CHANNEL, message) for message in messages)

    async def _add(self, hints: Mapping[Key, int]) -> None:
        await self._streams.add(hints)
        for key, count in hints.items():
            self._unread[key] = self._unread.get(key, 0) + count
            self.hints += count

    async def run_once(self) -> dict[str, int]:
        """Count the ready jobs of the queues that were notified, or of all, and add the missing hints."""
        began = time.monotonic()
        notified, self._to_count, self._count_at = self._to_count, set(), math.inf
        every = began >= self._sweep_at
        if every:
            self._sweep_at = began + MAX_SWEEP_SECONDS
        queues = None if every else sorted(notified | self._deep)
        found = await self._connection.run(lambda db: ready_jobs(db, queues, DEEP_QUEUE_JOBS))
        self._workers.update({item.queue: item.workers for item in found})
        self._level.update({item.queue: item.level for item in found if item.level is not None})
        hints = await self._missing(found, notified)
        if hints:
            await self._add(hints)
        self._spent = time.monotonic() - began
        if every:
            self._known = {item.queue for item in found}
        if any(item.jobs for item in found):
            self._sweep_at = min(self._sweep_at, began + SWEEP_SECONDS)
        await self._listen(found)
        if self._deep or not self._listener.is_listening:
            self._count_at = time.monotonic() + max(DEEP_SECONDS, COUNT_PAUSE_FACTOR * self._spent)
        return {"hints": sum(hints.values())}

    async def _missing(self, found: Sequence[Ready], notified: set[str]) -> dict[Key, int]:
        wanted = {}
        now = time.monotonic()
        for item in found:
            if item.level is None:
                for level in LEVELS:
                    self._counted.pop(Key(item.queue, level), None)
            elif self._is_due(item, now, notified=item.queue in notified):
                wanted[Key(item.queue, item.level)] = min(item.jobs, item.workers)
        full = {key for key, hints in self._unread.items() if hints >= self._workers.get(key.queue, 1)}
        for key, left in (await self._streams.unhandled(sorted({*wanted, *full}))).items():
            # If no worker claims the jobs, hints that were read do not count: their readers may have died.
            is_stalled = key in wanted and self._counted[key].pause > SWEEP_SECONDS
            self._unread[key] = left.unread if is_stalled else sum(left)
        missing = {key: count - self._unread[key] for key, count in wanted.items()}
        return {key: count for key, count in missing.items() if count > 0}

    def _is_due(self, item: Ready, now: float, *, notified: bool) -> bool:
        key, state = Key(item.queue, str(item.level)), (item.jobs, item.front)
        seen = self._counted.get(key)
        pause = SWEEP_SECONDS
        if seen is not None and seen.state == state and not notified:  # no worker has claimed a job since
            if now < seen.next_at:
                return False
            pause = min(MAX_SWEEP_SECONDS, 2 * seen.pause)
        self._counted[key] = CountedQueue(state, now + pause, pause)
        return True

    async def _listen(self, found: Sequence[Ready]) -> None:
        """Request notifications for the queues that are not deep. Count again after a request."""
        counted = {item.queue for item in found}
        self._deep = (self._deep - counted) | {item.queue for item in found if item.jobs >= DEEP_QUEUE_JOBS}
        self._notify_queues = self._known - self._deep
        if await self._wakeup_requests.replace(self._notify_queues):
            self._sweep_now()

    def _pause(self) -> float:
        return max(0.0, min(self._count_at, self._sweep_at, self._renew_at) - time.monotonic())

    async def _maintain_streams(self) -> None:
        """Take over unacknowledged hints, and remove dead consumers. Runs beside the loop that adds hints."""
        streams = HintStreams(self._redis)
        remove_at = 0.0
        try:
            while True:
                await asyncio.sleep(RECLAIM_SECONDS)
                keys = [Key(queue, level) for queue in sorted(self._known) for level in LEVELS]
                with suppress(RedisUnavailable):  # the relay's loop handles the outage
                    if reclaimed := await streams.reclaim(f"relay-{self._id}", keys, RECLAIM_SECONDS):
                        await streams.add(reclaimed)
                    if time.monotonic() >= remove_at:
                        remove_at = time.monotonic() + REMOVE_SECONDS
                        await streams.remove_dead(keys)
        finally:
            await streams.close()

    def _on_notification(self, channel: str, payload: str) -> None:
        if channel in CHANNELS:
            self._forwarded.append(f"{channel} {payload}")
        elif payload in self._notify_queues:
            self._notified.add(payload)
        else:
            return
        self._wakeup.set()

    async def _on_listening(self, _: AsyncConnection[Any]) -> None:
        self._check_everything()

    def _check_everything(self) -> None:
        """Count all queues and let all workers check, because notifications may have been lost."""
        self._forwarded.append(GAP)
        self._renew_at = 0.0  # the renewal records that this relay listens
        self._sweep_now()

    def _sweep_now(self) -> None:
        self._sweep_at = 0.0
        self._wakeup.set()

    async def close(self) -> None:
        if self.leads:
            with suppress(RedisUnavailable):
                await self._streams.release_lease(self._id)
        await self._connection.close()
        await self._wakeup_requests.close()
        await self._redis.close()

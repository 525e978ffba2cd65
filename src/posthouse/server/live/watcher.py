"""Poll the database for changes several times a second while there are clients.

How changes are found:

- finished jobs: by LISTEN; behind a pooler, in the last pages of history.
- started, released and progressing jobs: by comparing the running jobs with those of the previous poll.
- queued jobs: by id, which contains the creation time.
- attempts that started and ended between two polls: in the last pages of past_attempts.

Changed jobs are read once, redacted as in lists, and sent to all clients, so the cost does not depend on the
number of clients. The pause before the next poll depends on the duration of the last one.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar
from uuid import UUID

import psycopg
from pydantic_core import to_json

from posthouse.insights import live
from posthouse.insights.jobs import JobSummary
from posthouse.insights.queues import queue_counts
from posthouse.server.http.field_names import body
from posthouse.server.live.subscriptions import StreamEvent
from posthouse.storage.connections import connect_async, is_pooled
from posthouse.storage.notifications import listen
from posthouse.storage.queries import Db, query
from posthouse.waiting import Backoff

if TYPE_CHECKING:
    from posthouse.server.live.streams import Subscriptions

_log = logging.getLogger("posthouse.server")
_T = TypeVar("_T")

POLL_SECONDS = 0.15
MAX_TIME_SHARE = 5
"""Polling takes at most 1/5 of the time: the pause is four times the duration of a poll."""
SLOW_POLL_SECONDS = 1.0
SLOW_SHARE = 20
"""The same limit for counters and workers, whose queries may have to read a large backlog."""
MAX_JOBS = 500
"""Maximum number of jobs per tenant that are sent after one poll."""
MAX_IDS = 5000
"""Maximum number of jobs read in one poll: 25,000 changes per second.

Further changes are dropped for all clients, because their tenant is unknown.
"""
CATCH_UP_SECONDS = 60.0
ATTEMPT_PAGES = 16
HISTORY_PAGES = 256
MAX_SEEN = 20_000


@dataclass(frozen=True, slots=True)
class Scope:
    """The data to poll: jobs and tenants (None means all), logs, counters and workers."""

    jobs: frozenset[UUID] | None
    tenants: frozenset[str] | None
    logs: frozenset[UUID]
    counters: bool
    workers: bool


class Watcher:
    def __init__(self, url: str, offline_after: float | None, streams: Subscriptions) -> None:
        self._url = url
        self._offline_after = offline_after
        self._streams = streams
        self._polled = asyncio.Condition()
        self._begun = self._polls = 0
        self._forget()

    def _forget(self) -> None:
        self._at: live.DatabaseClock | None = None
        self._scope: Scope | None = None
        self._running: dict[bytes, live.Seen] = {}
        self._seen: dict[object, None] = {}
        self._last_sent: dict[UUID, JobSummary] = {}
        self._workers: dict[UUID, tuple[object, ...]] | None = None
        self._slow_at = self._logs_at = 0.0
        self._pause = 0.0

    async def wait_for_poll(self) -> int:
        """Wait for a poll that starts after this call. Return its time in microseconds."""
        wanted = self._begun + 1
        async with self._polled:
            await self._polled.wait_for(lambda: self._polls >= wanted)
        return self.micros

    @property
    def micros(self) -> int:
        return 0 if self._at is None else round(self._at.now.timestamp() * 1_000_000)

    async def run(self) -> None:
        backoff = Backoff()
        while len(self._streams):
            try:
                await self._watch()
                backoff.reset()
            except psycopg.OperationalError as error:
                _log.debug("event stream poll lost its connection, retrying: %s", error)
                await backoff.sleep()
            except Exception:  # noqa: BLE001 - the poll loop must not end
                _log.exception("event stream poll failed, retrying in 1 s")
                await asyncio.sleep(1)
        self._forget()

    async def _watch(self) -> None:
        async with await connect_async(self._url, "stream") as db:
            listener = None if await is_pooled(db) else StreamListener(db)
            if listener is not None:
                await listener.open()
            await self._catch_up(db)
            while len(self._streams):
                received = (
                    await listener.receive(self._pause)
                    if listener
                    else await sleep_without_notifications(self._pause)
                )
                if received.keys:
                    self._streams.keys_changed()
                began = time.monotonic()
                self._begun = self._polls + 1
                await self._poll(db, listener, received)
                self._pause = max(POLL_SECONDS, (MAX_TIME_SHARE - 1) * (time.monotonic() - began))
                async with self._polled:
                    self._polls += 1
                    self._polled.notify_all()

    async def _catch_up(self, db: Db) -> None:
        """Send the changes since the last poll after a lost connection, as for reconnecting clients."""
        if self._at is None:
            return
        at = await live.clock(db)
        missed = None
        if at.now - self._at.now < timedelta(seconds=CATCH_UP_SECONDS):
            missed = await live.changed_since(db, self._at.now, at, MAX_IDS)
        if missed is None:
            for client in self._streams.subscriptions:
                client.reset()
            return
        await self._publish(db, at, missed, {}, self._streams.scope)

    async def _poll(self, db: Db, listener: StreamListener | None, received: Notifications) -> None:
        scope = self._streams.scope
        if listener is not None:
            await listener.follow(scope.logs)
        at = await live.clock(db)
        ids, earlier = await self._compare(db, scope)
        ids |= received.ended if scope.jobs is None else received.ended & scope.jobs
        if scope.jobs is None or listener is None:
            ids |= await self._recently_finished(db, at, listening=listener is not None)
        await self._poll_logs(db, scope, received.logs | (ids & scope.logs), listening=listener is not None)
        if ids:
            await self._publish(db, at, ids, earlier, scope)
        if (scope.counters or scope.workers) and time.monotonic() >= self._slow_at:
            await self._poll_counters(db, scope)
        self._at, self._scope = at, scope
        for client in self._streams.subscriptions:
            client.at = self.micros

    async def _compare(self, db: Db, scope: Scope) -> tuple[set[UUID], dict[UUID, UUID]]:
        """Compare running jobs with the previous poll. Return the changed jobs and their earlier workers."""
        running, before = await live.running_now(db, scope.jobs), self._running
        self._running = running
        if self._scope is None:
            return set(), {}
        changed = {UUID(bytes=key) for key, seen in running.items() if before.get(key) != seen}
        earlier = {
            UUID(bytes=key): UUID(bytes=seen.worker)
            for key, seen in before.items()
            if running.get(key) != seen
        }
        changed |= earlier.keys()
        for looked_at in (self._scope.jobs, scope.jobs):
            if looked_at is not None:  # the earlier state of other jobs is unknown
                changed &= looked_at
        return changed, earlier

    async def _recently_finished(self, db: Db, at: live.DatabaseClock, *, listening: bool) -> set[UUID]:
        since = self._at or at
        queued = await live.queued_between(db, since.id_clock, at.id_clock, MAX_IDS)
        ids = set(self._new(queued))
        ended = await live.recently_finished(db, "past_attempts", since.now, ATTEMPT_PAGES)
        if not listening:
            ended += await live.recently_finished(db, "history", since.now, HISTORY_PAGES)
        ids |= {job_id for job_id, _ in self._new(ended)}
        if len(self._seen) > MAX_SEEN:
            self._seen = dict.fromkeys(list(self._seen)[-MAX_SEEN // 2 :])
        return ids if self._at is not None else set()

    def _new(self, found: Iterable[_T]) -> list[_T]:
        """Return the items that earlier polls did not return, because the ranges of polls overlap."""
        fresh = [item for item in found if item not in self._seen]
        self._seen.update(dict.fromkeys(fresh))
        return fresh

    async def _publish(
        self, db: Db, at: live.DatabaseClock, ids: Iterable[UUID], earlier: dict[UUID, UUID], scope: Scope
    ) -> None:
        wanted = sorted(ids, reverse=True)
        found = await live.changed_jobs(
            db,
            wanted[:MAX_IDS],
            ended_since=at.now - live.FINISHED_WITHIN,
            tenants=scope.tenants,
            most=MAX_JOBS,
        )
        clients = self._streams.subscriptions
        for job in found.jobs:
            if self._last_sent.get(job.id) == job:
                continue
            self._remember(job)
            event = StreamEvent("job", body(job))
            for client in clients:
                if client.wanted.matches(job, earlier.get(job.id)):
                    client.publish(event, job.id)
        for client in clients:
            tenant = client.wanted.tenant
            missed = sum(count for owner, count in found.left_out.items() if tenant in {None, owner})
            missed += max(0, len(wanted) - MAX_IDS)
            if missed and client.wanted.job is None:
                client.drop(missed)

    def _remember(self, job: JobSummary) -> None:
        self._last_sent.pop(job.id, None)
        self._last_sent[job.id] = job
        if len(self._last_sent) > MAX_SEEN:
            for old in list(self._last_sent)[: MAX_SEEN // 2]:
                del self._last_sent[old]

    async def _poll_logs(self, db: Db, scope: Scope, ids: set[UUID], *, listening: bool) -> None:
        now = time.monotonic()
        if not listening or now >= self._logs_at:  # in case a notification was missed
            ids = set(scope.logs)
            self._logs_at = now + SLOW_POLL_SECONDS
        ids &= scope.logs
        if not ids:
            return
        for job, sequence in (await live.log_ends(db, ids)).items():
            for client in self._streams.followers(job):
                client.has_log_until(sequence)

    async def _poll_counters(self, db: Db, scope: Scope) -> None:
        began = time.monotonic()
        if scope.counters:
            await self._publish_counters(db)
        if scope.workers:
            await self._publish_workers(db)
        took = time.monotonic() - began
        self._slow_at = began + max(SLOW_POLL_SECONDS, SLOW_SHARE * took)

    async def _publish_counters(self, db: Db) -> None:
        counters = await queue_counts(db, by_tenant=True)
        made: dict[tuple[str | None, str | None], bytes] = {}
        for client in self._streams.subscriptions:
            wanted = client.wanted
            if not wanted.counters:
                continue
            key = (wanted.tenant, wanted.queue)
            if key not in made:
                made[key] = to_json({"queues": wanted.counters_for(counters)})
            if made[key] != client.counters:
                client.counters = made[key]
                client.publish(StreamEvent("counters", made[key]), None)

    async def _publish_workers(self, db: Db) -> None:
        found = await live.worker_states(db, offline_after=self._offline_after)
        before, self._workers = self._workers, {item.id: _comparison_key(item) for item in found}
        if before is None:
            return
        for item in found:
            if before.get(item.id) == self._workers[item.id]:
                continue
            event = StreamEvent("worker", body(item))
            for client in self._streams.subscriptions:
                if client.wanted.workers and client.wanted.worker in {None, item.id}:
                    client.publish(event, item.id)


def _comparison_key(worker: live.WorkerState) -> tuple[object, ...]:
    return worker.status, worker.disabled_at, worker.drain_requested_at, tuple(worker.queues)


ENDED, LOG, KEYS = "posthouse_ended", "posthouse_log", "posthouse_keys"


@dataclass(slots=True)
class Notifications:
    ended: set[UUID] = field(default_factory=set)
    logs: set[UUID] = field(default_factory=set)
    keys: bool = False


class StreamListener:
    """A listener on a direct connection, which bypasses the pooler."""

    def __init__(self, db: Db) -> None:
        self._db = db
        self._followed: frozenset[UUID] = frozenset()

    async def open(self) -> None:
        await listen(self._db, ENDED, LOG, KEYS)
        await self._db.execute(query("await_endings"))

    async def receive(self, seconds: float) -> Notifications:
        """Return the notifications received within this time."""
        received = Notifications()
        async for said in self._db.notifies(timeout=seconds):
            if said.channel == ENDED:
                received.ended.update(map(UUID, said.payload.split(",")))
            elif said.channel == LOG:
                received.logs.add(UUID(said.payload))
            else:
                received.keys = True
        return received

    async def follow(self, jobs: frozenset[UUID]) -> None:
        """Request notifications for log lines of these jobs, and of no others."""
        for job in jobs - self._followed:
            await self._db.execute(query("log_follow"), {"id": job})
        for job in self._followed - jobs:
            await self._db.execute(query("log_unfollow"), {"id": job})
        self._followed = jobs


async def sleep_without_notifications(seconds: float) -> Notifications:
    """Wait without notifications, which do not work behind a pooler."""
    await asyncio.sleep(seconds)
    return Notifications()

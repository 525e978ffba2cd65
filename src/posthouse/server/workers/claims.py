"""Claims of remote workers, with optional long polling."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Collection
from typing import Any, TypeAlias
from uuid import uuid4

from fastapi import Request
from psycopg import AsyncConnection
from pydantic_core import to_json

from posthouse.server.http.auth import Access
from posthouse.server.schemas.workers import ClaimRequest
from posthouse.server.workers.registry import RemoteWorkers
from posthouse.storage.leases import Claim, ClaimOptions
from posthouse.storage.notifications import NotificationListener, WakeupRequests
from posthouse.waiting import end_tasks, wait_for_event

CLAIM_POLL_SECONDS = 2.0
"""Poll interval of a waiting claim: some jobs become ready without a notification."""
UNNOTIFIED_POLL_SECONDS = 0.5
"""Poll interval where notifications are not available (behind a pooler)."""


async def claim(
    workers: RemoteWorkers,
    notifications: WorkerNotifications,
    access: Access,
    body: ClaimRequest,
    request: Request,
) -> bytes:
    """Return the response to a claim.

    If the worker did not receive the response to an earlier claim, the jobs of that claim are returned
    instead.
    """
    if body.pending_tokens:
        await workers.check_owner(access, body.worker_id)
        recovered = await workers.recover_claims(body.worker_id, body.lease_seconds, body.pending_tokens)
        if recovered:
            return _answer(body, Claim(body.token or uuid4(), [], 0.0), 0.0, recovered)
    arrived = time.monotonic()
    while True:
        cursor = notifications.cursor
        if body.wants_wakeup or body.wait_seconds:
            await notifications.wakeup_requests.request(body.queues)
        begun = time.monotonic()
        found = await workers.claim(
            access, body.worker_id, body.lease_seconds, body.token or uuid4(), _options(body)
        )
        left = arrived + body.wait_seconds - time.monotonic()
        if found.rows or left <= 0 or notifications.stopping:
            return _answer(body, found, begun - arrived, [])
        pause = CLAIM_POLL_SECONDS if notifications.possible else UNNOTIFIED_POLL_SECONDS
        await notifications.wait(cursor, [(READY, queue) for queue in body.queues], min(left, pause))
        if await request.is_disconnected():  # a job claimed now would never reach the worker
            return _answer(body, found, 0.0, [])


def _options(body: ClaimRequest) -> ClaimOptions:
    return ClaimOptions(
        body.queues,
        body.kinds,
        body.limit,
        dict(body.lane_cursors),
        body.allow_suspect,
        body.capabilities,
        body.tenant_usage,
        body.preference_wait_seconds,
        body.min_jobs,
    )


def _answer(body: ClaimRequest, found: Claim, waited: float, recovered: list[Claim]) -> bytes:
    again = [b'{"token":%b,"jobs":%b}' % (to_json(claim.token), _jobs(body, claim)) for claim in recovered]
    return b'{"token":%b,"waited_seconds":%b,"jobs":%b,"recovered":[%b]}' % (
        to_json(found.token),
        to_json(round(waited, 6)),
        _jobs(body, found),
        b",".join(again),
    )


def _jobs(body: ClaimRequest, claim: Claim) -> bytes:
    jobs = (row.to_json(payload_as_text=body.payload_as_text) for row in claim.rows)
    return b"[%b]" % b",".join(jobs)


Topic: TypeAlias = tuple[str, str]
READY, CANCEL, DEFINITIONS = "posthouse_ready", "posthouse_cancel", "posthouse_definitions"
WAKEUP_SECONDS = 60.0
MAX_TOPICS = 10_000


class WorkerNotifications:
    """Notifications of remote workers, by long polling. One LISTEN connection serves all of them.

    Notifications are numbered. A request sends the last number it has seen and returns at once if a newer
    notification concerns it, so no notification is missed between two requests.
    """

    def __init__(self, url: str) -> None:
        self._listener = NotificationListener(
            url, "server listener", (READY, CANCEL, DEFINITIONS), self._on_notification,
            on_listening=self._on_listening,
        )  # fmt: skip
        self.wakeup_requests = WakeupRequests(url, seconds=WAKEUP_SECONDS)
        self._id = uuid4().hex[:12]
        self._number = 1
        self._last: dict[Topic, int] = {}
        self._gap = 1
        self._waiting: defaultdict[Topic, set[asyncio.Event]] = defaultdict(set)
        self._all: set[asyncio.Event] = set()
        self._task: asyncio.Task[None] | None = None
        self.stopping = False

    async def start(self) -> None:
        self._task = asyncio.create_task(self._listener.run())

    async def stop(self) -> None:
        if self._task is not None:
            await end_tasks([self._task])
        await self.wakeup_requests.close()

    def wake_all(self) -> None:
        """End all waits, because the server shuts down."""
        self.stopping = True
        self._on_gap()

    @property
    def possible(self) -> bool:
        return self._listener.is_supported

    @property
    def cursor(self) -> str:
        return f"{self._id}:{self._number}"

    def since(self, cursor: str, topics: Collection[Topic]) -> set[Topic] | None:
        """Return the topics notified since the cursor; None if notifications may have been missed."""
        server, _, text = cursor.partition(":")
        number = int(text) if text.isdecimal() and len(text) < 20 else 0  # noqa: PLR2004 - of 64 bits
        if server != self._id or number < self._gap:
            return None
        return {topic for topic in topics if self._last.get(topic, 0) > number}

    async def wait(self, cursor: str, topics: Collection[Topic], seconds: float) -> None:
        """Return when one of the topics was notified since the cursor, or after a timeout.

        Returns at once during shutdown, because clients may send another request before the server closes.
        """
        happened = self.since(cursor, topics)
        if happened is None or happened or self.stopping:
            return
        event = asyncio.Event()
        self._all.add(event)
        for topic in topics:
            self._waiting[topic].add(event)
        try:
            await wait_for_event(event, seconds)
        finally:
            self._all.discard(event)
            for topic in topics:
                self._forget(topic, event)

    def _forget(self, topic: Topic, event: asyncio.Event) -> None:
        self._waiting[topic].discard(event)
        if not self._waiting[topic]:
            del self._waiting[topic]

    def _on_notification(self, channel: str, payload: str) -> None:
        topic = (channel, "" if channel == DEFINITIONS else payload)
        self._number += 1
        self._last[topic] = self._number
        for event in self._waiting.get(topic, ()):
            event.set()
        if len(self._last) > MAX_TOPICS:
            self._on_gap()

    async def _on_listening(self, _: AsyncConnection[Any]) -> None:
        self._on_gap()

    def _on_gap(self) -> None:
        """Record a gap: all clients must poll, because notifications were lost."""
        self._number += 1
        self._gap = self._number
        self._last.clear()
        for event in self._all:
            event.set()

"""Long-polling requests of remote workers. One LISTEN connection serves all of them.

Notifications are numbered. A request sends the last number it has seen and returns at once if a newer
notification concerns it, so nothing is missed between two requests.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Collection
from typing import TypeAlias
from uuid import uuid4

from posthouse.storage.hearing import Hearing, Hunger
from posthouse.waiting import end_tasks, until_set

Topic: TypeAlias = tuple[str, str]
READY, CANCEL, DEFINITIONS = "posthouse_ready", "posthouse_cancel", "posthouse_definitions"
HUNGER_SECONDS = 60.0
MOST_TOPICS = 10_000


class Wakeups:
    def __init__(self, url: str) -> None:
        self._hearing = Hearing(
            url, (READY, CANCEL, DEFINITIONS), on_notice=self._note, on_gap=self._note_gap
        )
        self.hunger = Hunger(url, seconds=HUNGER_SECONDS)
        self._id = uuid4().hex[:12]
        self._number = 1
        self._last: dict[Topic, int] = {}
        self._gap = 1
        self._waiting: defaultdict[Topic, set[asyncio.Event]] = defaultdict(set)
        self._all: set[asyncio.Event] = set()
        self._task: asyncio.Task[None] | None = None
        self.stopping = False

    async def start(self) -> None:
        self._task = asyncio.create_task(self._hearing.run())

    async def stop(self) -> None:
        if self._task is not None:
            await end_tasks([self._task])
        await self.hunger.close()

    def release(self) -> None:
        """Return all waiting requests, because the server shuts down."""
        self.stopping = True
        self._note_gap()

    @property
    def possible(self) -> bool:
        return self._hearing.possible

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
            await until_set(event, seconds)
        finally:
            self._all.discard(event)
            for topic in topics:
                self._forget(topic, event)

    def _forget(self, topic: Topic, event: asyncio.Event) -> None:
        self._waiting[topic].discard(event)
        if not self._waiting[topic]:
            del self._waiting[topic]

    def _note(self, channel: str, payload: str) -> None:
        topic = (channel, "" if channel == DEFINITIONS else payload)
        self._number += 1
        self._last[topic] = self._number
        for event in self._waiting.get(topic, ()):
            event.set()
        if len(self._last) > MOST_TOPICS:
            self._note_gap()

    def _note_gap(self) -> None:
        """Record a gap: all clients must poll, because notifications were lost."""
        self._number += 1
        self._gap = self._number
        self._last.clear()
        for event in self._all:
            event.set()

"""Those who wait at this server, and what they wait for. One LISTEN connection wakes them all.

What happened is known by a number that only rises. Whoever asks says which one they have seen, and gets an
answer at once if something newer concerns them; so nothing is missed between two requests.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Collection
from typing import TypeAlias
from uuid import uuid4

from posthouse.storage.hearing import Hearing, Hunger
from posthouse.waiting import until_set

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
            self._task.cancel()
            await asyncio.wait([self._task])
        await self.hunger.close()

    def release(self) -> None:
        """Lets everybody go: the server is about to stop."""
        self.stopping = True
        self._note_gap()

    @property
    def possible(self) -> bool:
        return self._hearing.possible

    @property
    def cursor(self) -> str:
        return f"{self._id}:{self._number}"

    def since(self, cursor: str, topics: Collection[Topic]) -> set[Topic] | None:
        """What happened of these since then; None: something may have been missed."""
        server, _, text = cursor.partition(":")
        number = int(text) if text.isdecimal() and len(text) < 20 else 0  # noqa: PLR2004 - of 64 bits
        if server != self._id or number < self._gap:
            return None
        return {topic for topic in topics if self._last.get(topic, 0) > number}

    async def wait(self, cursor: str, topics: Collection[Topic], seconds: float) -> None:
        """Returns when something of these happened since then, or after this time.

        At once while the server stops: whoever was let go asks again before the door is shut.
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
        """From here on everybody looks for themselves."""
        self._number += 1
        self._gap = self._number
        self._last.clear()
        for event in self._all:
            event.set()

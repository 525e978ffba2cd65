"""The event queue of one client. It never blocks: above its limit, events are dropped and counted."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from posthouse.server.live.wanted import Wanted
from posthouse.waiting import until_set

MOST_WAITING = 1000


class Event(NamedTuple):
    name: str
    data: bytes  # JSON


class Subscription:
    def __init__(
        self, wanted: Wanted, who: str, most: int = MOST_WAITING, *, tenant: str | None = None
    ) -> None:
        self.wanted = wanted
        self.who = who
        self.tenant = tenant
        """Tenant of the credential, not of the events."""
        self.at = 0
        """Database time in microseconds up to which all events were queued."""
        self.log_end = 0
        """Sequence of the last log line that can be read."""
        self.counters = b""
        self._most = most
        self._waiting: dict[tuple[str, object], Event] = {}
        self._left_out = 0
        self._reset = False
        self._ending: str | None = None
        self._something = asyncio.Event()

    def offer(self, event: Event, key: object) -> None:
        """Queue an event. It replaces an older queued event with the same key."""
        place = (event.name, key)
        if place in self._waiting or len(self._waiting) < self._most:
            self._waiting[place] = event
        else:
            self._left_out += 1
        self._something.set()

    def leave_out(self, count: int) -> None:
        self._left_out += count
        self._something.set()

    def reset(self) -> None:
        """Tell the client to reload, because events were lost."""
        self._waiting.clear()
        self._left_out = 0
        self._reset = True
        self._something.set()

    def has_log_until(self, sequence: int) -> None:
        if sequence > self.log_end:
            self.log_end = sequence
            self._something.set()

    def end(self, reason: str) -> None:
        self._ending = self._ending or reason
        self._something.set()

    @property
    def ending(self) -> str | None:
        return self._ending

    async def take(self, seconds: float) -> list[Event]:
        """Return the queued events as soon as there are any; an empty list after a timeout."""
        await until_set(self._something, seconds)
        self._something.clear()
        events = list(self._waiting.values())
        self._waiting.clear()
        if self._reset:
            self._reset = False
            events.insert(0, Event("reset", b"{}"))
        if self._left_out:
            events.append(Event("overflow", b'{"left_out":%d}' % self._left_out))
            self._left_out = 0
        return events

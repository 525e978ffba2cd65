"""Notifications for all requests of a server that wait for changes, on one connection."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from psycopg import AsyncConnection

from posthouse.storage.connect import Line
from posthouse.storage.listening import listen
from posthouse.storage.queries import query


class Hearing:
    """Listens on channels until canceled. ``on_gap``: something may have been missed."""

    def __init__(
        self,
        url: str,
        channels: Sequence[str],
        *,
        on_notice: Callable[[str, str], None],
        on_gap: Callable[[], None],
    ) -> None:
        self._url = url
        self._channels = channels
        self._on_notice = on_notice
        self._on_gap = on_gap
        self.listening = False
        self.possible = True
        """False behind a pooler, which keeps no session."""

    async def run(self) -> None:
        await listen(
            self._url, "server listener", self._channels, begun=self._begin, heard=self._on_notice,
            lost=self._lose,
        )  # fmt: skip
        self.possible = False

    async def _begin(self, _: AsyncConnection[Any]) -> None:
        self.listening = True
        self._on_gap()

    def _lose(self) -> None:
        self.listening = False


class Hunger:
    """Wake-up requests: enqueue notifies only queues for which one is held. Each expires by itself."""

    def __init__(self, url: str, *, seconds: float) -> None:
        self._line = Line(url, "server hunger")
        self._seconds = seconds
        self._until: dict[str, float] = {}
        self._held: set[str] = set()
        self._held_on: AsyncConnection[Any] | None = None

    async def feel(self, queues: Iterable[str]) -> None:
        """Request wakeups for the queues. Returns when the request is stored."""
        queues = list(queues)
        self._until.update(dict.fromkeys(queues, time.monotonic() + self._seconds))
        lost = self._held_on is None or self._held_on.closed
        if lost or not self._held.issuperset(queues):
            await self._line.run(self._hold)

    async def only(self, queues: set[str]) -> bool:
        """Request wakeups for exactly these queues, until the next call. Return whether some are new."""
        lost = self._held_on is None or self._held_on.closed
        if self._held == queues and not (lost and queues):
            return False
        self._until = dict.fromkeys(queues, math.inf)
        added = lost or not self._held.issuperset(queues)
        await self._line.run(self._hold)
        return added

    async def _hold(self, connection: AsyncConnection[tuple[Any, ...]]) -> None:
        """Take the locks that are missing and release those that are no longer requested."""
        if connection is not self._held_on:
            self._held, self._held_on = set(), connection
        now = time.monotonic()
        self._until = {queue: until for queue, until in self._until.items() if until >= now}
        new, old = self._until.keys() - self._held, self._held - self._until.keys()
        await connection.execute(query("be_hungry"), (list(new),))
        await connection.execute(query("be_fed"), (list(old),))
        self._held = set(self._until)

    async def close(self) -> None:
        await self._line.close()

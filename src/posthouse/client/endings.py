"""Wait for finished jobs: by LISTEN if the connection allows it, otherwise by polling."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection

from posthouse.storage.listening import listen
from posthouse.storage.queries import query
from posthouse.waiting import until_set

FIRST_PAUSE = 0.01
LONGEST_PAUSE = 0.5
LISTENING_PAUSE = 2.0


class Ended:
    """The wakeup of one waiter, which polls less and less often while no notification arrives."""

    def __init__(self, endings: Endings) -> None:
        self._endings = endings
        self._event = asyncio.Event()
        self._pause = FIRST_PAUSE

    def set(self) -> None:
        self._event.set()

    async def pause(self, left: float | None) -> None:
        longest = LISTENING_PAUSE if self._endings.listening else LONGEST_PAUSE
        self._pause = min(self._pause * 2, longest)
        await until_set(self._event, min(self._pause, left or self._pause))
        self._event.clear()


class Endings:
    """One LISTEN connection for all waiters of a client."""

    def __init__(self, url: str | None) -> None:
        self._url = url
        self._waiters: defaultdict[str, set[Ended]] = defaultdict(set)
        self._listener: asyncio.Task[None] | None = None
        self.listening = False

    @asynccontextmanager
    async def of(self, job_id: UUID) -> AsyncIterator[Ended]:
        if self._listener is None and self._url:
            self._listener = asyncio.create_task(self._listen(self._url))
        ended = Ended(self)
        self._waiters[str(job_id)].add(ended)
        try:
            yield ended
        finally:
            self._waiters[str(job_id)].discard(ended)
            if not self._waiters[str(job_id)]:
                del self._waiters[str(job_id)]

    async def close(self) -> None:
        if self._listener is not None:
            self._listener.cancel()
            with suppress(asyncio.CancelledError):
                await self._listener
        for waiters in self._waiters.values():
            for ended in waiters:
                ended.set()

    async def _listen(self, url: str) -> None:
        await listen(
            url, "endings", ["posthouse_ended"], begun=self._begin, heard=self._hear, lost=self._lose
        )

    async def _begin(self, connection: AsyncConnection[Any]) -> None:
        await connection.execute(query("await_endings"))
        self.listening = True

    def _lose(self) -> None:
        self.listening = False

    def _hear(self, _: str, ids: str) -> None:
        for job_id in ids.split(","):
            for ended in self._waiters.get(job_id, ()):
                ended.set()

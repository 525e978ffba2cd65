"""Wait for finished jobs: by LISTEN if the connection allows it, otherwise by polling."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection

from posthouse.errors import JobFailed
from posthouse.storage.notifications import NotificationListener
from posthouse.storage.queries import query
from posthouse.waiting import wait_for_event

FIRST_PAUSE = 0.01
MAX_PAUSE = 0.5
LISTENING_PAUSE = 2.0


class FinishWaiter:
    """The wakeup of one waiter. While no notification arrives, the waiter polls less and less often."""

    def __init__(self, listener: FinishListener) -> None:
        self._finish_listener = listener
        self._event = asyncio.Event()
        self._pause = FIRST_PAUSE

    def set(self) -> None:
        self._event.set()

    async def pause(self, left: float | None) -> None:
        longest = LISTENING_PAUSE if self._finish_listener.is_listening else MAX_PAUSE
        self._pause = min(self._pause * 2, longest)
        await wait_for_event(self._event, min(self._pause, left or self._pause))
        self._event.clear()


class FinishListener:
    """One LISTEN connection for all waiters of a client."""

    def __init__(self, url: str | None) -> None:
        self._waiters: defaultdict[str, set[FinishWaiter]] = defaultdict(set)
        self._listener = (
            None
            if url is None
            else NotificationListener(
                url, "endings", ["posthouse_ended"], self._on_notification, on_listening=self._on_listening
            )
        )
        self._listening: asyncio.Task[None] | None = None

    @property
    def is_listening(self) -> bool:
        return self._listener is not None and self._listener.is_listening

    @asynccontextmanager
    async def waiting_for(self, job_id: UUID) -> AsyncIterator[FinishWaiter]:
        if self._listening is None and self._listener is not None:
            self._listening = asyncio.create_task(self._listener.run())
        waiter = FinishWaiter(self)
        self._waiters[str(job_id)].add(waiter)
        try:
            yield waiter
        finally:
            self._waiters[str(job_id)].discard(waiter)
            if not self._waiters[str(job_id)]:
                del self._waiters[str(job_id)]

    async def close(self) -> None:
        if self._listening is not None:
            self._listening.cancel()
            with suppress(asyncio.CancelledError):
                await self._listening
        for waiters in self._waiters.values():
            for waiter in waiters:
                waiter.set()

    async def _on_listening(self, connection: AsyncConnection[Any]) -> None:
        await connection.execute(query("await_endings"))

    def _on_notification(self, _: str, ids: str) -> None:
        for job_id in ids.split(","):
            for waiter in self._waiters.get(job_id, ()):
                waiter.set()


def result_of(job_id: UUID, status: str, result: Any, error: dict[str, Any] | None) -> Any:
    """Return the result of a finished job. Raises JobFailed if it did not succeed."""
    if status == "succeeded":
        return result
    detail = f": {error.get('type')}: {error.get('message')}" if error else ""
    raise JobFailed(f"job {job_id} ended as {status}{detail}")

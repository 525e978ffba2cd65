"""Listen for ready jobs and cancellations."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from psycopg import AsyncConnection

from posthouse.storage.listening import listen
from posthouse.worker.backend import Hearing


class Listener:
    def __init__(
        self,
        url: str,
        worker_id: UUID,
        queues: set[str],
        tell: Hearing,
        *,
        ready: bool = True,
    ) -> None:
        """``ready``: whether to listen for ready jobs too."""
        self._url = url
        self._worker = str(worker_id)
        self._queues = queues
        self._tell = tell
        self._ready = ready
        self.works = True

    async def run(self) -> None:
        channels = ["posthouse_cancel", "posthouse_definitions"]
        if self._ready:
            channels.append("posthouse_ready")
        await listen(self._url, "listener", channels, begun=self._begin, heard=self._hear)
        self.works = False

    async def _begin(self, _: AsyncConnection[Any]) -> None:
        if self._ready:
            self._tell.listening()
        self._tell.cancel()  # cancellations requested before LISTEN
        self._tell.definitions()

    def _hear(self, channel: str, payload: str) -> None:
        if channel == "posthouse_ready":
            if payload in self._queues:
                self._tell.work()
        elif channel == "posthouse_definitions":
            self._tell.definitions()
        elif payload == self._worker:
            self._tell.cancel()

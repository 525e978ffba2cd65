"""Listen for ready jobs, cancellations and changed definitions, in Postgres or by way of the relay."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection

from posthouse.dispatch import Notices, Reader
from posthouse.errors import RedisUnavailable
from posthouse.storage.listening import listen
from posthouse.waiting import until_set
from posthouse.worker.backend import Hearing

_log = logging.getLogger("posthouse.worker")

START_SECONDS = 1.0
RETRY_SECONDS = 5.0


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
        self.listening = False

    async def run(self) -> None:
        channels = ["posthouse_cancel", "posthouse_definitions"]
        if self._ready:
            channels.append("posthouse_ready")
        await listen(self._url, "listener", channels, begun=self._begin, heard=self.hear, lost=self._lose)
        self.works = False

    async def _begin(self, _: AsyncConnection[Any]) -> None:
        self.listening = True
        if self._ready:
            self._tell.listening()
        self.look()

    def look(self) -> None:
        """Notifications may have been missed."""
        self._tell.cancel()
        self._tell.definitions()

    def _lose(self) -> None:
        self.listening = False
        self._tell.definitions()  # read again soon, and periodically from then on

    def hear(self, channel: str, payload: str) -> None:
        if channel == "posthouse_ready":
            if payload in self._queues:
                self._tell.work()
        elif channel == "posthouse_definitions":
            self._tell.definitions()
        elif payload == self._worker:
            self._tell.cancel()


class RelayedListener:
    """Receives notifications from the relay while hints arrive, and from Postgres otherwise."""

    def __init__(self, listener: Listener, notices: Notices, reader: Callable[[], Reader]) -> None:
        self._listener = listener
        self._notices = notices
        self._reader = reader
        self._following = False
        self.works = True

    @property
    def listening(self) -> bool:
        return self._following or self._listener.listening

    async def run(self) -> None:
        relayed = self._reader().relayed
        await until_set(relayed, START_SECONDS)
        while True:
            if relayed.is_set():
                await self._follow()
            await self._listen_until(relayed)

    async def _follow(self) -> None:
        closing = set()

        def close() -> None:
            closing.add(asyncio.create_task(self._notices.close()))

        self._reader().on_loss = close
        try:
            await self._notices.follow(self._listener.hear, self._begin)
        except RedisUnavailable as error:
            _log.debug("listening in Postgres instead: %s", error)
        finally:
            self._following = False

    def _begin(self) -> None:
        self._following = True
        self._listener.look()

    async def _listen_until(self, relayed: asyncio.Event) -> None:
        """Listen in Postgres until the relay works, and for some seconds at least."""
        listening = asyncio.create_task(self._listener.run())
        try:
            await asyncio.sleep(RETRY_SECONDS)
            await relayed.wait()
        finally:
            listening.cancel()
            await asyncio.wait([listening])

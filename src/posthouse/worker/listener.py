"""Hears that there is work, and which jobs are to be canceled."""

from __future__ import annotations

import asyncio
from uuid import UUID

import psycopg

from posthouse.storage.connect import RETRY_PAUSES, behind_pooler, connect_async
from posthouse.worker.backend import Hearing


class Listener:
    def __init__(
        self,
        url: str,
        worker_id: UUID,
        queues: set[str],
        tell: Hearing,
    ) -> None:
        self._url = url
        self._worker = str(worker_id)
        self._queues = queues
        self._tell = tell
        self.works = True

    async def run(self) -> None:
        failures = 0
        while self.works:
            try:
                await self._listen()
            except psycopg.Error:
                await asyncio.sleep(RETRY_PAUSES[min(failures, len(RETRY_PAUSES) - 1)])
                failures += 1

    async def _listen(self) -> None:
        connection = await connect_async(self._url, "listener")
        async with connection:
            if await behind_pooler(connection):
                self.works = False
                return
            await connection.execute("listen posthouse_ready")
            await connection.execute("listen posthouse_cancel")
            await connection.execute("listen posthouse_definitions")
            self._tell.listening()
            self._tell.cancel()  # what came while nobody listened
            self._tell.definitions()
            async for notification in connection.notifies():
                if notification.channel == "posthouse_ready":
                    if notification.payload in self._queues:
                        self._tell.work()
                elif notification.channel == "posthouse_definitions":
                    self._tell.definitions()
                elif notification.payload == self._worker:
                    self._tell.cancel()

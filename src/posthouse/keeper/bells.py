"""Hears that there is something to do, so that a step need not wait for its next look."""

from __future__ import annotations

import asyncio

import psycopg

from posthouse.storage.connect import RETRY_PAUSES, behind_pooler, connect_async
from posthouse.storage.queries import query


class Bells:
    """Rings for names that ``posthouse.wake`` was called with. Behind a pooler it is silent."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._bells: dict[str, asyncio.Event] = {}

    def add(self, name: str) -> asyncio.Event:
        return self._bells.setdefault(name, asyncio.Event())

    async def run(self) -> None:
        failures = 0
        while True:
            try:
                if not await self._listen():
                    return
            except psycopg.Error:
                await asyncio.sleep(RETRY_PAUSES[min(failures, len(RETRY_PAUSES) - 1)])
                failures += 1

    async def _listen(self) -> bool:
        connection = await connect_async(self._url, "keeper bells")
        async with connection:
            if await behind_pooler(connection):
                return False
            await connection.execute("listen posthouse_ready")
            await connection.execute(query("be_hungry"), (list(self._bells),))
            for bell in self._bells.values():
                bell.set()  # for what came while nobody listened
            async for notification in connection.notifies():
                if notification.payload in self._bells:
                    self._bells[notification.payload].set()
        return True

"""Listens for notifications, so that a step need not wait for its next poll."""

from __future__ import annotations

import asyncio
from typing import Any

from psycopg import AsyncConnection

from posthouse.storage.listening import listen
from posthouse.storage.queries import query


class Bells:
    """Sets an event for each name passed to ``posthouse.wake``. Does nothing behind a pooler."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._bells: dict[str, asyncio.Event] = {}

    def add(self, name: str) -> asyncio.Event:
        return self._bells.setdefault(name, asyncio.Event())

    async def run(self) -> None:
        await listen(self._url, "keeper bells", ["posthouse_ready"], begun=self._begin, heard=self._hear)

    async def _begin(self, connection: AsyncConnection[Any]) -> None:
        await connection.execute(query("be_hungry"), (list(self._bells),))
        for bell in self._bells.values():
            bell.set()  # for events that came before listening began

    def _hear(self, _: str, name: str) -> None:
        if name in self._bells:
            self._bells[name].set()

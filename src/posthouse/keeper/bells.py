"""Events that make a step run before its pause is over."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from psycopg import AsyncConnection

from posthouse.storage.notifications import NotificationListener
from posthouse.storage.queries import query


class Bells:
    """One event per step, by its name.

    ``heard``: the steps to run on a notification, by the name that was passed to ``posthouse.wake``. Nothing
    is heard behind a pooler.
    """

    def __init__(self, url: str, heard: Mapping[str, str]) -> None:
        self._listener = NotificationListener(
            url, "keeper bells", ["posthouse_ready"], self._hear, on_listening=self._begin
        )
        self._heard = heard
        self._bells: dict[str, asyncio.Event] = {}

    def of(self, step: str) -> asyncio.Event:
        return self._bells.setdefault(step, asyncio.Event())

    def ring(self, *steps: str) -> None:
        for step in steps:
            self.of(step).set()

    async def run(self) -> None:
        """Listen until canceled."""
        await self._listener.run()

    async def _begin(self, connection: AsyncConnection[Any]) -> None:
        await connection.execute(query("be_hungry"), (list(self._heard),))
        self.ring(*self._heard.values())  # for events that came before listening began

    def _hear(self, _: str, name: str) -> None:
        if name in self._heard:
            self.ring(self._heard[name])

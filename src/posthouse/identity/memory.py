"""Keys that were found to be good, remembered for as long as we would hear that one is revoked."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import psycopg

from posthouse.identity.principal import Principal
from posthouse.storage.connect import RETRY_PAUSES, behind_pooler, connect_async

REMEMBER_SECONDS = 15.0
"""A connection that died without a word is noticed within this time; until then nothing is heard on it."""
MOST_KEYS = 10_000


class KeyMemory:
    """Empty while nobody listens: behind a transaction pooler, and while Postgres is away. Then every request
    looks its key up.
    """

    def __init__(self, url: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._url = url
        self._clock = clock
        self._known: dict[bytes, tuple[float, Principal]] = {}
        self._listening = False
        self._heard = 0

    @property
    def listens(self) -> bool:
        return self._listening

    @property
    def heard(self) -> int:
        """How often it was told to forget: what was looked up before the last time may be out of date."""
        return self._heard

    def recall(self, digest: bytes) -> Principal | None:
        until, principal = self._known.get(digest, (0.0, None))
        return principal if until > self._clock() else None

    def remember(self, digest: bytes, principal: Principal, *, heard: int, seconds: float | None) -> None:
        """``heard``: as it was before the key was looked up. ``seconds``: until the key expires."""
        if not self._listening or heard != self._heard:
            return
        if len(self._known) >= MOST_KEYS:
            self._known.clear()
        self._known[digest] = (self._clock() + min(REMEMBER_SECONDS, seconds or REMEMBER_SECONDS), principal)

    def forget(self, prefix: str) -> None:
        self._heard += 1
        self._known = {key: item for key, item in self._known.items() if item[1].key != prefix}

    async def run(self) -> None:
        """Listens until canceled; returns at once where one cannot listen."""
        failures = 0
        while True:
            try:
                if not await self._listen():
                    return
            except psycopg.Error:
                await asyncio.sleep(RETRY_PAUSES[min(failures, len(RETRY_PAUSES) - 1)])
                failures += 1
            finally:
                self._listening = False
                self._heard += 1
                self._known.clear()

    async def _listen(self) -> bool:
        connection = await connect_async(self._url, "server keys")
        async with connection:
            if await behind_pooler(connection):
                return False
            await connection.execute("listen posthouse_keys")
            self._listening = True
            async for notification in connection.notifies():
                self.forget(notification.payload)
        return True

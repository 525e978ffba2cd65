"""A cache of valid keys, used while revocations are received by LISTEN."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from psycopg import AsyncConnection

from posthouse.identity.principal import Principal
from posthouse.storage.listening import listen

REMEMBER_SECONDS = 15.0
"""A dead connection is detected within this time; until then revocations are not received."""
MOST_KEYS = 10_000


class KeyMemory:
    """A cache of keys.

    It stays empty while the process cannot LISTEN: behind a transaction pooler, and while Postgres is
    unreachable. Every request then reads its key from the database.
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
        """Number of invalidations. A key that was read before the last one may be outdated."""
        return self._heard

    def recall(self, digest: bytes) -> Principal | None:
        until, principal = self._known.get(digest, (0.0, None))
        return principal if until > self._clock() else None

    def remember(self, digest: bytes, principal: Principal, *, heard: int, seconds: float | None) -> None:
        """Cache a key. ``heard``: the number of invalidations before it was read. ``seconds``: until it
        expires.
        """
        if not self._listening or heard != self._heard:
            return
        if len(self._known) >= MOST_KEYS:
            self._known.clear()
        self._known[digest] = (self._clock() + min(REMEMBER_SECONDS, seconds or REMEMBER_SECONDS), principal)

    def forget(self, prefix: str) -> None:
        self._heard += 1
        self._known = {key: item for key, item in self._known.items() if item[1].key != prefix}

    async def run(self) -> None:
        """Listen until canceled. Returns at once if LISTEN is not possible."""
        await listen(
            self._url, "server keys", ["posthouse_keys"], begun=self._begin,
            heard=lambda _, prefix: self.forget(prefix), lost=self._lose,
        )  # fmt: skip

    async def _begin(self, _: AsyncConnection[Any]) -> None:
        self._listening = True

    def _lose(self) -> None:
        self._listening = False
        self._heard += 1
        self._known.clear()

"""Whether a keeper has looked long enough to call others silent.

A keeper that has just started, or that stood still for a while, finds everybody's last beat long ago:
perhaps the whole machine was asleep, and they are about to beat again. So who is only silent is judged by a
keeper that has been looking for as long as they get to beat. Who died with its session is found without that.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime, timedelta

from posthouse.storage.keeping import Db, clock_now


class Lookout:
    """``pace``: seconds between two looks as they are meant to be; a longer gap is one."""

    def __init__(self, grace: float, pace: Callable[[], float]) -> None:
        self._grace = timedelta(seconds=grace)
        self._pace = pace
        self._since: datetime | None = None
        self._seen: datetime | None = None
        self._blind_until = 0.0

    async def settled(self, connection: Db) -> bool:
        """Looks at the clock. Times are the database's: that of a machine that was asleep stood still."""
        now = await clock_now(connection)
        gap = self._grace + timedelta(seconds=self._pace())
        if self._since is None or self._seen is None or now - self._seen > gap:
            self._since = now
        self._seen = now
        return now - self._since >= self._grace

    def cut_off(self) -> None:
        """We were, perhaps everybody was: whoever could not renew gets time to do so."""
        self._seen = None
        self._blind_until = time.monotonic() + self._grace.total_seconds()

    @property
    def blind(self) -> bool:
        """Nobody is declared dead, not even who holds no lock: they may be on their way back like us."""
        return time.monotonic() < self._blind_until

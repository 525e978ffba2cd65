"""Whether a keeper has been polling long enough to judge missing heartbeats.

A keeper that has just started or was suspended finds old heartbeats everywhere: perhaps the whole machine was
asleep and workers are about to send one. So missing heartbeats count only for a keeper that has been polling
for as long as workers have to send one. Workers whose session ended are found without that.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime, timedelta

from posthouse.storage.queries import Db, database_now


class Lookout:
    """``pace``: the planned seconds between two polls; a longer gap starts the wait again."""

    def __init__(self, grace: float, pace: Callable[[], float]) -> None:
        self._grace = timedelta(seconds=grace)
        self._pace = pace
        self._since: datetime | None = None
        self._seen: datetime | None = None
        self._blind_until = 0.0

    async def settled(self, connection: Db) -> bool:
        """Return whether it has."""
        now = await database_now(connection)
        return now - self.see(now) >= self._grace

    def see(self, now: datetime) -> datetime:
        """Record a poll at this time of the database; the local clock stops during suspend.

        Returns since when there was no gap.
        """
        gap = self._grace + timedelta(seconds=self._pace())
        if self._since is None or self._seen is None or now - self._seen > gap:
            self._since = now
        self._seen = now
        return self._since

    def cut_off(self) -> None:
        """Record that this keeper lost the database; workers get the grace period to renew their leases."""
        self._seen = None
        self._blind_until = time.monotonic() + self._grace.total_seconds()

    @property
    def blind(self) -> bool:
        """Whether no worker may be declared lost now: workers may be reconnecting, as this keeper is."""
        return time.monotonic() < self._blind_until

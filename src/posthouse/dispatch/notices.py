"""Notifications of Postgres for running workers, by way of the relay and Redis Pub/Sub."""

from __future__ import annotations

from collections.abc import Callable

from posthouse.dispatch.connection import Redis
from posthouse.dispatch.link import Link
from posthouse.dispatch.streams import NOTICES

CHANNELS = ("posthouse_cancel", "posthouse_definitions")
GAP = "gap"
"""Sent when the relay has begun to listen: it may have missed notifications."""


class Notices:
    def __init__(self, redis: Redis) -> None:
        self._link = Link(redis, NOTICES)

    async def follow(self, heard: Callable[[str, str], None], begun: Callable[[], None]) -> None:
        """Call ``heard`` with channel and payload of each notice, until Redis fails.

        ``begun`` is called when notices may have been missed: at the start, and after a gap.
        """
        async for notice in self._link.messages(NOTICES):
            if notice is None or notice == GAP:
                begun()
            else:
                channel, _, payload = notice.partition(" ")
                heard(channel, payload)

    async def close(self) -> None:
        """End ``follow``."""
        await self._link.close()

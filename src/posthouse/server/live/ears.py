"""Database notifications: finished jobs, new log lines, revoked keys."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from uuid import UUID

from posthouse.storage.queries import Db, query

ENDED, LOG, KEYS = "posthouse_ended", "posthouse_log", "posthouse_keys"


@dataclass(slots=True)
class Heard:
    ended: set[UUID] = field(default_factory=set)
    logs: set[UUID] = field(default_factory=set)
    keys: bool = False


class Ears:
    """Listens on a direct connection that bypasses the pooler."""

    def __init__(self, db: Db) -> None:
        self._db = db
        self._followed: frozenset[UUID] = frozenset()

    async def open(self) -> None:
        for channel in (ENDED, LOG, KEYS):
            await self._db.execute(f"listen {channel}")
        await self._db.execute(query("await_endings"))

    async def hear(self, seconds: float) -> Heard:
        """Return the notifications received within this time."""
        heard = Heard()
        async for said in self._db.notifies(timeout=seconds):
            if said.channel == ENDED:
                heard.ended.update(map(UUID, said.payload.split(",")))
            elif said.channel == LOG:
                heard.logs.add(UUID(said.payload))
            else:
                heard.keys = True
        return heard

    async def follow(self, jobs: frozenset[UUID]) -> None:
        """Request notifications for log lines of these jobs, and of no others."""
        for job in jobs - self._followed:
            await self._db.execute(query("log_follow"), {"id": job})
        for job in self._followed - jobs:
            await self._db.execute(query("log_unfollow"), {"id": job})
        self._followed = jobs


async def hear_nothing(seconds: float) -> Heard:
    """Wait without notifications: they do not work behind a pooler."""
    await asyncio.sleep(seconds)
    return Heard()

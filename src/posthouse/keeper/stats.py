"""Steps that record samples of each minute and move failures into their groups."""

from __future__ import annotations

import time

from posthouse.keeper.service import SELDOM_SECONDS
from posthouse.settings import Settings
from posthouse.storage.connections import ReconnectingConnection
from posthouse.storage.keeper import (
    delete_old_failures,
    delete_old_samples,
    group_failures,
    sample_due_minutes,
)

CLEANUP_INTERVAL_SECONDS = 3600.0


class Sampler:
    """The step that records the samples of each minute, and deletes old ones."""

    name = "sampler"

    def __init__(self, connection: ReconnectingConnection, settings: Settings) -> None:
        self._connection = connection
        days = settings.kept_days()
        self._days = days.get("samples", days["default"])
        self._cleanup_at = 0.0

    async def run_once(self) -> dict[str, int]:
        sampled = await self._connection.run(sample_due_minutes)
        return {"sampled": sampled, "deleted": await self._delete_old()}

    async def _delete_old(self) -> int:
        if time.monotonic() < self._cleanup_at:
            return 0
        self._cleanup_at = time.monotonic() + CLEANUP_INTERVAL_SECONDS
        return await self._connection.run(lambda c: delete_old_samples(c, self._days))

    def pause(self) -> float:
        return SELDOM_SECONDS


GROUP_BATCH = 5000


class FailureGrouper:
    """The step that moves failures into their groups, and deletes old groups."""

    name = "grouper"

    def __init__(self, connection: ReconnectingConnection, settings: Settings) -> None:
        self._connection = connection
        self._days = settings.retention_days
        self._cleanup_at = 0.0
        self._moved = 0

    async def run_once(self) -> dict[str, int]:
        self._moved = await self._connection.run(lambda c: group_failures(c, GROUP_BATCH))
        return {"moved": self._moved, "deleted": await self._delete_old()}

    async def _delete_old(self) -> int:
        """Delete failure groups whose jobs are past retention."""
        if time.monotonic() < self._cleanup_at:
            return 0
        self._cleanup_at = time.monotonic() + CLEANUP_INTERVAL_SECONDS
        return await self._connection.run(lambda c: delete_old_failures(c, self._days))

    def pause(self) -> float:
        return 0.0 if self._moved == GROUP_BATCH else SELDOM_SECONDS

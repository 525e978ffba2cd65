"""Steps that move and change jobs: promote, clean up lanes, change in bulk, adopt, expire, erase."""

from __future__ import annotations

import logging
from uuid import UUID

from posthouse.keeper.service import SELDOM_SECONDS
from posthouse.settings import Settings
from posthouse.storage.connections import ReconnectingConnection
from posthouse.storage.keeper import (
    adopt_jobs,
    advance_bulk_change,
    advance_erasures,
    delete_empty_lanes,
    expire_mismatched,
    promote,
    restore_missing_lanes,
)

PROMOTE_BATCH = 1000
SOON_SECONDS = 0.5
"""The promoter waits for jobs that are due within this time. For later jobs, the agenda wakes it in time."""
MIN_PAUSE = 0.01


class Promoter:
    """The step that makes due jobs ready."""

    name = "promoter"

    def __init__(self, connection: ReconnectingConnection) -> None:
        self._connection = connection
        self.swept = "{0,0,0}"
        """The transactions up to which dependencies are settled."""
        self._pause = SELDOM_SECONDS

    async def run_once(self) -> dict[str, int]:
        promoted, due, self.swept = await self._connection.run(
            lambda c: promote(c, PROMOTE_BATCH, self.swept)
        )
        if due is None or due > SOON_SECONDS:
            self._pause = SELDOM_SECONDS
        else:
            self._pause = max(MIN_PAUSE, due)
        return {"promoted": promoted}

    def pause(self) -> float:
        return self._pause


LANES_INTERVAL_SECONDS = 600.0
LANES_REPAIR_SECONDS = 5.0
REPAIR_ROUNDS = 12


class LaneCleaner:
    """The step that deletes empty lanes, and then repairs lanes for a minute.

    Without the repair, a job that was enqueued during the deletion would be invisible to workers.
    """

    name = "lanes"

    def __init__(self, connection: ReconnectingConnection) -> None:
        self._connection = connection
        self._repairs_left = REPAIR_ROUNDS  # another keeper may have deleted some

    async def run_once(self) -> dict[str, int]:
        restored = await self._connection.run(restore_missing_lanes)
        if self._repairs_left:
            self._repairs_left -= 1
            return {"deleted": 0, "restored": restored}
        deleted = await self._connection.run(delete_empty_lanes)
        self._repairs_left = REPAIR_ROUNDS if deleted else 0
        return {"deleted": deleted, "restored": restored}

    def pause(self) -> float:
        return LANES_REPAIR_SECONDS if self._repairs_left else LANES_INTERVAL_SECONDS


_log = logging.getLogger("posthouse.keeper")


class _BusyStep:
    """A step that runs again soon while it finds work."""

    busy_pause: float
    idle_pause = SELDOM_SECONDS

    def __init__(self, connection: ReconnectingConnection) -> None:
        self._connection = connection
        self._busy = False

    def pause(self) -> float:
        return self.busy_pause if self._busy else self.idle_pause


BULK_BATCH = 50
BULK_STEPS = 20


class BulkChangeRunner(_BusyStep):
    """The step that advances bulk changes of jobs."""

    name = "bulk_changes"
    busy_pause = 0.2

    async def run_once(self) -> dict[str, int]:
        """Advance bulk changes until their rates are used up or none is left."""
        counts = {"retried": 0, "canceled": 0, "skipped": 0}
        self._busy = False
        idle: set[UUID] = set()
        for _ in range(BULK_STEPS):
            step = await self._connection.run(lambda c: advance_bulk_change(c, BULK_BATCH))
            if step is None:
                break
            self._busy = True
            bulk_id, retried, canceled, skipped, checked = step
            counts["retried"] += retried
            counts["canceled"] += canceled
            counts["skipped"] += skipped
            if not retried + canceled + skipped + checked:
                if bulk_id in idle:
                    break
                idle.add(bulk_id)
        return counts


ADOPT_INTERVAL_SECONDS = 30.0


class Adopter:
    """The step that adopts queued jobs for new definitions.

    Creating a definition adopts the queued jobs of its kind. This step finds the jobs of transactions that
    were open at that moment.
    """

    name = "adopter"

    def __init__(self, connection: ReconnectingConnection) -> None:
        self._connection = connection

    async def run_once(self) -> dict[str, int]:
        return {"adopted": await self._connection.run(adopt_jobs)}

    def pause(self) -> float:
        return ADOPT_INTERVAL_SECONDS


EXPIRE_BATCH = 1000


class Expirer(_BusyStep):
    """The step that ends jobs whose payload only newer code accepts and that no worker could run in time."""

    name = "expirer"
    busy_pause = 0.0
    idle_pause = 30.0

    def __init__(self, connection: ReconnectingConnection, settings: Settings) -> None:
        super().__init__(connection)
        self._after = settings.mismatch_seconds

    async def run_once(self) -> dict[str, int]:
        expired = await self._connection.run(lambda db: expire_mismatched(db, self._after, EXPIRE_BATCH))
        for job_id in expired:
            _log.error("job expired, no worker with newer code accepts its payload job_id=%s", job_id)
        self._busy = len(expired) == EXPIRE_BATCH
        return {"expired": len(expired)}


ERASE_BATCH = 500


class Eraser(_BusyStep):
    """The step that advances erasures."""

    name = "eraser"
    busy_pause = 0.5

    async def run_once(self) -> dict[str, int]:
        under_way, erased = await self._connection.run(lambda c: advance_erasures(c, ERASE_BATCH))
        self._busy = under_way > 0
        return {"erased": erased}

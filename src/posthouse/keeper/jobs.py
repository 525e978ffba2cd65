"""Steps that move and change jobs: promote, clean up lanes, change in bulk, adopt, expire, erase."""

from __future__ import annotations

import logging
from uuid import UUID

from posthouse.keeper.service import SELDOM_SECONDS
from posthouse.settings import Settings
from posthouse.storage.connections import ReconnectingConnection
from posthouse.storage.maintenance import (
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
SHORTEST_PAUSE = 0.01


class Promoter:
    """The step that makes due jobs ready."""

    name = "promoter"

    def __init__(self, line: ReconnectingConnection) -> None:
        self._line = line
        self.swept = "{0,0,0}"
        """The transactions up to which dependencies are settled."""
        self._pause = SELDOM_SECONDS

    async def run_once(self) -> dict[str, int]:
        promoted, due, self.swept = await self._line.run(lambda c: promote(c, PROMOTE_BATCH, self.swept))
        if due is None or due > SOON_SECONDS:
            self._pause = SELDOM_SECONDS
        else:
            self._pause = max(SHORTEST_PAUSE, due)
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

    def __init__(self, line: ReconnectingConnection) -> None:
        self._line = line
        self._repairs_left = REPAIR_ROUNDS  # another keeper may have deleted some

    async def run_once(self) -> dict[str, int]:
        mended = await self._line.run(restore_missing_lanes)
        if self._repairs_left:
            self._repairs_left -= 1
            return {"forgotten": 0, "mended": mended}
        forgotten = await self._line.run(delete_empty_lanes)
        self._repairs_left = REPAIR_ROUNDS if forgotten else 0
        return {"forgotten": forgotten, "mended": mended}

    def pause(self) -> float:
        return LANES_REPAIR_SECONDS if self._repairs_left else LANES_INTERVAL_SECONDS


_log = logging.getLogger("posthouse.keeper")

BULK_BATCH = 50
BULK_STEPS = 20
BULK_INTERVAL_SECONDS = 0.2


class BulkChangeRunner:
    """The step that advances bulk changes of jobs."""

    name = "retrier"

    def __init__(self, line: ReconnectingConnection) -> None:
        self._line = line
        self._busy = False

    async def run_once(self) -> dict[str, int]:
        """Advance bulk changes until their rates are used up or none is left."""
        counts = {"retried": 0, "canceled": 0, "skipped": 0}
        self._busy = False
        idle: set[UUID] = set()
        for _ in range(BULK_STEPS):
            step = await self._line.run(lambda c: advance_bulk_change(c, BULK_BATCH))
            if step is None:
                break
            self._busy = True
            bulk_id, retried, canceled, skipped, heard = step
            counts["retried"] += retried
            counts["canceled"] += canceled
            counts["skipped"] += skipped
            if not retried + canceled + skipped + heard:
                if bulk_id in idle:
                    break
                idle.add(bulk_id)
        return counts

    def pause(self) -> float:
        return BULK_INTERVAL_SECONDS if self._busy else SELDOM_SECONDS


ADOPT_INTERVAL_SECONDS = 30.0


class Adopter:
    """The step that adopts queued jobs for new definitions.

    Creating a definition adopts the queued jobs of its kind. This step finds the jobs of transactions that
    were open at that moment.
    """

    name = "adopter"

    def __init__(self, line: ReconnectingConnection) -> None:
        self._line = line

    async def run_once(self) -> dict[str, int]:
        return {"adopted": await self._line.run(adopt_jobs)}

    def pause(self) -> float:
        return ADOPT_INTERVAL_SECONDS


EXPIRE_INTERVAL_SECONDS = 30.0
EXPIRE_BATCH = 1000


class Expirer:
    """The step that ends jobs whose payload only newer code accepts and that no worker could run in time."""

    name = "expirer"

    def __init__(self, line: ReconnectingConnection, settings: Settings) -> None:
        self._line = line
        self._after = settings.mismatch_seconds
        self._full = False

    async def run_once(self) -> dict[str, int]:
        expired = await self._line.run(lambda db: expire_mismatched(db, self._after, EXPIRE_BATCH))
        for job_id in expired:
            _log.error("job expired, no worker with newer code accepts its payload job_id=%s", job_id)
        self._full = len(expired) == EXPIRE_BATCH
        return {"expired": len(expired)}

    def pause(self) -> float:
        return 0.0 if self._full else EXPIRE_INTERVAL_SECONDS


ERASE_BATCH = 500
ERASE_INTERVAL_SECONDS = 0.5


class Eraser:
    """The step that advances erasures."""

    name = "eraser"

    def __init__(self, line: ReconnectingConnection) -> None:
        self._line = line
        self._busy = False

    async def run_once(self) -> dict[str, int]:
        under_way, erased = await self._line.run(lambda c: advance_erasures(c, ERASE_BATCH))
        self._busy = under_way > 0
        return {"erased": erased}

    def pause(self) -> float:
        return ERASE_INTERVAL_SECONDS if self._busy else SELDOM_SECONDS

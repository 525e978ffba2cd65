"""Detects workers that were lost and workers that returned."""

from __future__ import annotations

import logging
from collections.abc import Callable
from uuid import UUID

import psycopg

from posthouse.keeper.lookout import Lookout
from posthouse.keeper.service import SELDOM_SECONDS
from posthouse.settings import Settings
from posthouse.storage.connections import Line
from posthouse.storage.maintenance import watch_workers, worker_names
from posthouse.storage.queries import Db, database_now

_log = logging.getLogger("posthouse.keeper")


class Watch:
    """``on_loss`` is called when a worker was lost, so that its jobs are rescued at once."""

    name = "watch"

    def __init__(self, line: Line, settings: Settings, lookout: Lookout, on_loss: Callable[[], None]) -> None:
        self._line = line
        self._settings = settings
        self._lookout = lookout
        self._on_loss = on_loss

    async def run_once(self) -> dict[str, int]:
        try:
            if self._lookout.blind:
                await self._line.run(database_now)  # a broken connection is better found out now than later
                return {"went_offline": 0, "came_back": 0}
            gone, back = await self._line.run(self._look)
            if gone:
                self._on_loss()
            if gone or back:
                await self._report(gone, back)
        except psycopg.OperationalError:
            self._lookout.cut_off()
            raise
        return {"went_offline": len(gone), "came_back": len(back)}

    async def _look(self, connection: Db) -> tuple[list[UUID], list[UUID]]:
        settled = await self._lookout.settled(connection)
        return await watch_workers(connection, self._settings, judge=settled)

    async def _report(self, gone: list[UUID], back: list[UUID]) -> None:
        names = await self._line.run(lambda c: worker_names(c, gone + back))
        for worker in gone:
            _log.warning(
                "worker disconnected without shutting down worker=%s worker_id=%s", names.get(worker), worker
            )
        for worker in back:
            _log.info("worker reconnected worker=%s worker_id=%s", names.get(worker), worker)

    def pause(self) -> float:
        return SELDOM_SECONDS

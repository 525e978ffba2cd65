"""Watches the workers: finds those that died or fell silent, and those that are back."""

from __future__ import annotations

import logging
from collections.abc import Callable
from uuid import UUID

import psycopg

from posthouse.keeper.lookout import Lookout
from posthouse.settings import Settings
from posthouse.storage.connect import Line
from posthouse.storage.keeping import Db, watch_workers, worker_names

_log = logging.getLogger("posthouse.keeper")

LOOK_SECONDS = 0.4


class Watch:
    """``on_loss`` is called when somebody was found gone: their jobs are to be taken back at once."""

    name = "watch"

    def __init__(self, line: Line, settings: Settings, lookout: Lookout, on_loss: Callable[[], None]) -> None:
        self._line = line
        self._grace = settings.rescue_grace_seconds
        self._silence = settings.lease_seconds
        self._lookout = lookout
        self._on_loss = on_loss

    async def run_once(self) -> dict[str, int]:
        if self._lookout.blind:
            return {"went_offline": 0, "came_back": 0}
        try:
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
        return await watch_workers(connection, self._grace, self._silence if settled else None)

    async def _report(self, gone: list[UUID], back: list[UUID]) -> None:
        names = await self._line.run(lambda c: worker_names(c, gone + back))
        for worker in gone:
            _log.warning("worker %s went offline without signing off (%s)", names.get(worker), worker)
        for worker in back:
            _log.info("worker %s is back (%s)", names.get(worker), worker)

    def pause(self) -> float:
        return LOOK_SECONDS

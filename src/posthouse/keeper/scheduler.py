"""Creates the jobs of schedules. The database ensures at most one job for each scheduled time."""

from __future__ import annotations

import logging
import random
import time
from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import psycopg

from posthouse.core.definition import KindRules
from posthouse.keeper.crowd import Crowd
from posthouse.keeper.service import SELDOM_SECONDS
from posthouse.keeper.timetable import Timetable
from posthouse.settings import Settings
from posthouse.storage.connections import Line
from posthouse.storage.definitions import rules_of
from posthouse.storage.queries import Db
from posthouse.storage.triggers import due_schedules, fire_schedule

_log = logging.getLogger("posthouse.keeper")

BATCH = 200
SOON_SECONDS = 1.0
"""It waits itself for runs that are due within this time; the agenda finds the others when they are."""
SHORTEST_PAUSE = 0.01
THOROUGH_SECONDS = 60.0


class Scheduler:
    name = "scheduler"

    def __init__(self, line: Line, settings: Settings, crowd: Crowd) -> None:
        self._line = line
        self._crowd = crowd
        self._payload_limit = settings.max_payload_bytes
        self._thorough_at = 0.0
        self._pause = 0.0

    async def run_once(self) -> dict[str, int]:
        return await self._line.run(self._look)

    def pause(self) -> float:
        if self._pause > SOON_SECONDS:
            return SELDOM_SECONDS
        # The loop multiplies the pause by the patience; that must not delay a run.
        return self._pause / self._crowd.patience

    async def _look(self, connection: Db) -> dict[str, int]:
        thorough = time.monotonic() >= self._thorough_at
        look = await due_schedules(connection, BATCH, thorough=thorough)
        if thorough:
            self._thorough_at = time.monotonic() + THOROUGH_SECONDS
        keys = sorted({trigger["definition_key"] for trigger in look.triggers})
        rules = {item.key: item for item in await rules_of(connection, keys)} if keys else {}
        counts = Counter({"fired": 0, "skipped": 0, "errors": 0})
        random.shuffle(look.triggers)  # so that several keepers share a crowded minute
        self._pause = SELDOM_SECONDS
        self._look_again_in(0.0 if len(look.triggers) >= BATCH else look.next_in)
        for trigger in look.triggers:
            counts.update(await self._see_to(connection, trigger, rules, look.at))
        return dict(counts)

    async def _see_to(
        self, connection: Db, trigger: Mapping[str, Any], rules: Mapping[str, KindRules], now: datetime
    ) -> dict[str, int]:
        """Create the due jobs of a trigger. An error must not delay other triggers."""
        timetable = Timetable(trigger, rules.get(trigger["definition_key"]), self._payload_limit)
        runs, next_at = timetable.due(now)
        self._look_again_in((next_at - now).total_seconds())
        if not runs and next_at == timetable.next_at:
            return {}
        try:
            return await fire_schedule(connection, trigger, runs, next_at)
        except psycopg.Error:
            if connection.broken:
                raise
            _log.exception("trigger failed, retrying trigger_id=%s", trigger["id"])
            return {}

    def _look_again_in(self, seconds: float | None) -> None:
        if seconds is not None:
            self._pause = max(SHORTEST_PAUSE, min(self._pause, seconds))

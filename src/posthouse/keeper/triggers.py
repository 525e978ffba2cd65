"""Create the jobs of triggers: of schedules that are due, and of events."""

from __future__ import annotations

import hashlib
import json
import logging
import random
import time
from collections import Counter
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import psycopg
from pydantic_core import from_json

from posthouse.core.definition import StoredDefinition
from posthouse.core.schedule import Schedule, ScheduleState, jitter, plan
from posthouse.core.trigger import (
    event_context,
    event_request,
    event_values,
    filled,
    schedule_context,
    schedule_of,
    schedule_request,
    schedule_values,
)
from posthouse.errors import InvalidSchedule, PosthouseError
from posthouse.keeper.service import SELDOM_SECONDS, PollPacer
from posthouse.settings import Settings
from posthouse.storage.connections import ReconnectingConnection
from posthouse.storage.definitions import load_rules
from posthouse.storage.queries import Db
from posthouse.storage.triggers import (
    PendingEvent,
    due_schedules,
    events_waiting,
    fire_schedule,
    lock_pending_events,
    record_matches,
)

UNREADABLE = timedelta(hours=1)
"""Pause before an invalid schedule is checked again: a keeper that knows its time zone may run by then."""
NEVER = timedelta(days=366)
"""Pause before a schedule is checked again whose calendar has ended."""


class Timetable:
    """The due runs of a schedule, from its trigger (the row as JSON) and the rules of its job kind."""

    def __init__(
        self, trigger: Mapping[str, Any], rules: StoredDefinition | None, payload_limit: int
    ) -> None:
        self._trigger = trigger
        self._rules = rules
        self._payload_limit = payload_limit
        self.next_at = _moment(trigger["next_at"])

    def due(self, now: datetime) -> tuple[list[dict[str, Any]], datetime]:
        """Return the runs to record with fire_schedule, and the next time."""
        trigger = self._trigger
        last_at = _moment(trigger["last_nominal_at"])
        try:
            schedule = schedule_of(trigger)
        except InvalidSchedule as error:
            return [_run(now, outcome="error", reason=str(error))], now + UNREADABLE
        standing = ScheduleState(self.next_at, last_at, datetime.fromisoformat(trigger["updated_at"]))
        todo = plan(schedule, standing, now, trigger["missed"], trigger["catch_up_limit"])
        runs = []
        if todo.missed is not None:
            first, last = todo.missed
            runs.append(_run(first, outcome="missed", through=last.isoformat()))
        for nominal in todo.runs:
            runs.append(self._made(schedule, nominal, last_at))
            last_at = nominal
        return runs, todo.next_at or now + NEVER

    def _made(self, schedule: Schedule, nominal: datetime, previous: datetime | None) -> dict[str, Any]:
        trigger = self._trigger
        context = schedule_context(trigger, schedule, nominal, previous)
        values = schedule_values(trigger, nominal)
        try:
            payload = filled(trigger, context, self._rules, values, self._payload_limit)
        except PosthouseError as error:
            return _run(nominal, outcome="error", reason=str(error))
        start = nominal + jitter(trigger["id"], nominal, trigger["jitter_seconds"])
        return _run(nominal, request=schedule_request(trigger, nominal, payload, start))


def _run(nominal: datetime, **fields: Any) -> dict[str, Any]:
    return {"nominal_at": nominal.isoformat(), **fields}


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


_log = logging.getLogger("posthouse.keeper")

SCHEDULE_BATCH = 200
SOON_SECONDS = 1.0
"""The scheduler waits for runs that are due within this time. For later runs, the agenda wakes it in time."""
SHORTEST_PAUSE = 0.01
THOROUGH_SECONDS = 60.0


class Scheduler:
    """The step that creates the jobs of due schedules."""

    name = "scheduler"

    def __init__(self, line: ReconnectingConnection, settings: Settings, crowd: PollPacer) -> None:
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
        # run_service multiplies the pause by the patience, which must not delay a run.
        return self._pause / self._crowd.patience

    async def _look(self, connection: Db) -> dict[str, int]:
        thorough = time.monotonic() >= self._thorough_at
        look = await due_schedules(connection, SCHEDULE_BATCH, thorough=thorough)
        if thorough:
            self._thorough_at = time.monotonic() + THOROUGH_SECONDS
        keys = sorted({trigger["definition_key"] for trigger in look.triggers})
        rules = {item.key: item for item in await load_rules(connection, keys)} if keys else {}
        counts = Counter({"fired": 0, "skipped": 0, "errors": 0})
        random.shuffle(look.triggers)  # so that several keepers share the work of a busy minute
        self._pause = SELDOM_SECONDS
        self._look_again_in(0.0 if len(look.triggers) >= SCHEDULE_BATCH else look.next_in)
        for trigger in look.triggers:
            counts.update(await self._see_to(connection, trigger, rules, look.at))
        return dict(counts)

    async def _see_to(
        self, connection: Db, trigger: Mapping[str, Any], rules: Mapping[str, StoredDefinition], now: datetime
    ) -> dict[str, int]:
        """Create the due jobs of a trigger. An error is logged and must not delay other triggers."""
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


EVENT_BATCH = 100
"""Small, because the promoter and the scheduler share the connection."""


class Matcher:
    """The step that creates the jobs of event triggers."""

    name = "matcher"

    def __init__(self, line: ReconnectingConnection, settings: Settings) -> None:
        self._line = line
        self._payload_limit = settings.max_payload_bytes
        self._more = False

    async def run_once(self) -> dict[str, int]:
        return await self._line.run(self._match)

    def pause(self) -> float:
        return 0.0 if self._more else SELDOM_SECONDS

    async def _match(self, connection: Db) -> dict[str, int]:
        self._more = False
        if not await events_waiting(connection):
            return {"fired": 0, "deduped": 0, "errors": 0}
        async with connection.transaction():
            taken = await lock_pending_events(connection, EVENT_BATCH)
            self._more = len(taken) == EVENT_BATCH
            if not taken:
                return {"fired": 0, "deduped": 0, "errors": 0}
            keys = {trigger["definition_key"] for item in taken for trigger in item.triggers}
            rules = {item.key: item for item in await load_rules(connection, sorted(keys))} if keys else {}
            results = [self._result(item, trigger, rules) for item in taken for trigger in item.triggers]
            return await record_matches(connection, [item.event["id"] for item in taken], results)

    def _result(
        self, taken: PendingEvent, trigger: Mapping[str, Any], rules: Mapping[str, StoredDefinition]
    ) -> dict[str, Any]:
        event = taken.event
        result = {
            "event_id": event["id"],
            "trigger_id": trigger["id"],
            "replay": event["replay"],
            "event_at": event["at"],
            "tenant_id": event["tenant_id"],
            "dedupe_window": 0 if event["replay"] else trigger["dedupe_window_seconds"],
        }
        try:
            kind = rules.get(trigger["definition_key"])
            context = event_context(event, from_json(taken.context or "{}"))
            payload = filled(trigger, context, kind, event_values(event), self._payload_limit)
        except (PosthouseError, ValueError) as error:  # ValueError: the context is not valid JSON
            return {**result, "error": f"{error}"}
        request = event_request(trigger, event, payload)
        return {**result, "content": _digest(payload), "request": request}


def _digest(payload: str) -> str:
    """Return a digest that is equal for equal payloads."""
    canonical = json.dumps(json.loads(payload), sort_keys=True)
    return hashlib.sha256(canonical.encode()).hexdigest()

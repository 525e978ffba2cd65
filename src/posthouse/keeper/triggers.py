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
    build_payload,
    event_context,
    event_request,
    event_values,
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
from posthouse.storage.keeper import (
    PendingEvent,
    due_schedules,
    events_waiting,
    fire_schedule,
    lock_pending_events,
    record_matches,
)
from posthouse.storage.queries import Db

INVALID_RETRY = timedelta(hours=1)
"""Pause before an invalid schedule is checked again: a keeper that knows its time zone may run by then."""
EXHAUSTED_RETRY = timedelta(days=366)
"""Pause before a schedule is checked again whose calendar has ended."""


class ScheduleRuns:
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
            return [_run(now, outcome="error", reason=str(error))], now + INVALID_RETRY
        state = ScheduleState(self.next_at, last_at, datetime.fromisoformat(trigger["updated_at"]))
        due_runs = plan(schedule, state, now, trigger["missed"], trigger["catch_up_limit"])
        runs = []
        if due_runs.missed is not None:
            first, last = due_runs.missed
            runs.append(_run(first, outcome="missed", missed_until=last.isoformat()))
        for nominal in due_runs.runs:
            runs.append(self._build_run(schedule, nominal, last_at))
            last_at = nominal
        return runs, due_runs.next_at or now + EXHAUSTED_RETRY

    def _build_run(self, schedule: Schedule, nominal: datetime, previous: datetime | None) -> dict[str, Any]:
        trigger = self._trigger
        context = schedule_context(trigger, schedule, nominal, previous)
        values = schedule_values(trigger, nominal)
        try:
            payload = build_payload(trigger, context, self._rules, values, self._payload_limit)
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
MIN_PAUSE = 0.01
FULL_SCAN_INTERVAL_SECONDS = 60.0


class Scheduler:
    """The step that creates the jobs of due schedules."""

    name = "scheduler"

    def __init__(self, connection: ReconnectingConnection, settings: Settings, pacer: PollPacer) -> None:
        self._connection = connection
        self._pacer = pacer
        self._payload_limit = settings.max_payload_bytes
        self._full_scan_at = 0.0
        self._pause = 0.0

    async def run_once(self) -> dict[str, int]:
        return await self._connection.run(self._poll)

    def pause(self) -> float:
        if self._pause > SOON_SECONDS:
            return SELDOM_SECONDS
        # run_service multiplies the pause by the factor, which must not delay a run.
        return self._pause / self._pacer.interval_factor

    async def _poll(self, connection: Db) -> dict[str, int]:
        is_full_scan = time.monotonic() >= self._full_scan_at
        due = await due_schedules(connection, SCHEDULE_BATCH, thorough=is_full_scan)
        if is_full_scan:
            self._full_scan_at = time.monotonic() + FULL_SCAN_INTERVAL_SECONDS
        keys = sorted({trigger["definition_key"] for trigger in due.triggers})
        rules = {item.key: item for item in await load_rules(connection, keys)} if keys else {}
        counts = Counter({"fired": 0, "skipped": 0, "errors": 0})
        random.shuffle(due.triggers)  # so that several keepers share the work of a busy minute
        self._pause = SELDOM_SECONDS
        self._poll_within(0.0 if len(due.triggers) >= SCHEDULE_BATCH else due.next_in)
        for trigger in due.triggers:
            counts.update(await self._fire_due_runs(connection, trigger, rules, due.at))
        return dict(counts)

    async def _fire_due_runs(
        self, connection: Db, trigger: Mapping[str, Any], rules: Mapping[str, StoredDefinition], now: datetime
    ) -> dict[str, int]:
        """Create the due jobs of a trigger. An error is logged and must not delay other triggers."""
        schedule_runs = ScheduleRuns(trigger, rules.get(trigger["definition_key"]), self._payload_limit)
        runs, next_at = schedule_runs.due(now)
        self._poll_within((next_at - now).total_seconds())
        if not runs and next_at == schedule_runs.next_at:
            return {}
        try:
            return await fire_schedule(connection, trigger, runs, next_at)
        except psycopg.Error:
            if connection.broken:
                raise
            _log.exception("trigger failed, retrying trigger_id=%s", trigger["id"])
            return {}

    def _poll_within(self, seconds: float | None) -> None:
        if seconds is not None:
            self._pause = max(MIN_PAUSE, min(self._pause, seconds))


EVENT_BATCH = 100
"""Small, because the promoter and the scheduler share the connection."""


class Matcher:
    """The step that creates the jobs of event triggers."""

    name = "matcher"

    def __init__(self, connection: ReconnectingConnection, settings: Settings) -> None:
        self._connection = connection
        self._payload_limit = settings.max_payload_bytes
        self._more = False

    async def run_once(self) -> dict[str, int]:
        return await self._connection.run(self._match)

    def pause(self) -> float:
        return 0.0 if self._more else SELDOM_SECONDS

    async def _match(self, connection: Db) -> dict[str, int]:
        self._more = False
        if not await events_waiting(connection):
            return {"fired": 0, "deduped": 0, "errors": 0}
        async with connection.transaction():
            pending = await lock_pending_events(connection, EVENT_BATCH)
            self._more = len(pending) == EVENT_BATCH
            if not pending:
                return {"fired": 0, "deduped": 0, "errors": 0}
            keys = {trigger["definition_key"] for item in pending for trigger in item.triggers}
            rules = {item.key: item for item in await load_rules(connection, sorted(keys))} if keys else {}
            results = [self._result(item, trigger, rules) for item in pending for trigger in item.triggers]
            return await record_matches(connection, [item.event["id"] for item in pending], results)

    def _result(
        self, pending: PendingEvent, trigger: Mapping[str, Any], rules: Mapping[str, StoredDefinition]
    ) -> dict[str, Any]:
        event = pending.event
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
            context = event_context(event, from_json(pending.context or "{}"))
            payload = build_payload(trigger, context, kind, event_values(event), self._payload_limit)
        except (PosthouseError, ValueError) as error:  # ValueError: the context is not valid JSON
            return {**result, "error": f"{error}"}
        request = event_request(trigger, event, payload)
        return {**result, "payload_digest": _digest(payload), "request": request}


def _digest(payload: str) -> str:
    """Return a digest that is equal for equal payloads."""
    canonical = json.dumps(json.loads(payload), sort_keys=True)
    return hashlib.sha256(canonical.encode()).hexdigest()

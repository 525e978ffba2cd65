"""Which due times of a schedule run, and with which jobs."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from posthouse.core.definition import KindRules
from posthouse.core.schedule import Schedule, Standing, jitter, plan
from posthouse.core.trigger import schedule_of
from posthouse.errors import InvalidSchedule, PosthouseError
from posthouse.trigger_jobs import filled, schedule_about, schedule_context, schedule_request

UNREADABLE = timedelta(hours=1)
"""A schedule that cannot be read is looked at again after this: perhaps by a keeper that knows its zone."""
NEVER = timedelta(days=366)
"""And one whose calendar has ended after this."""


class Timetable:
    """A trigger (its row as JSON) and the rules of its kind of job."""

    def __init__(self, trigger: Mapping[str, Any], rules: KindRules | None, payload_limit: int) -> None:
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
        standing = Standing(self.next_at, last_at, datetime.fromisoformat(trigger["updated_at"]))
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
        about = schedule_about(trigger, nominal)
        try:
            payload = filled(trigger, context, self._rules, about, self._payload_limit)
        except PosthouseError as error:
            return _run(nominal, outcome="error", reason=str(error))
        start = nominal + jitter(trigger["id"], nominal, trigger["jitter_seconds"])
        return _run(nominal, request=schedule_request(trigger, nominal, payload, start))


def _run(nominal: datetime, **fields: Any) -> dict[str, Any]:
    return {"nominal_at": nominal.isoformat(), **fields}


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)

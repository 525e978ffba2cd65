"""A database with a moved clock, triggers made of a few words, and as many schedulers as a test wants."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from datetime import UTC, datetime

from psycopg.rows import dict_row

from posthouse import testing
from posthouse.keeper.service import PollPacer
from posthouse.keeper.triggers import Scheduler
from posthouse.storage.connections import ReconnectingConnection
from support.brute_force_schedule import utc

MORNING = utc("2026-11-15T08:30")


class Timeline:
    """Schedules in a database whose clock the test moves."""

    def __init__(self, db, settings, clock):
        self.db = db
        self.settings = settings
        self._clock = clock
        self._connections = []
        self._scheduler = None

    def define(self, kind="report", **fields):
        self.db.execute("select posthouse.announce(%s)", (json.dumps([{"key": kind, **fields}]),))

    def trigger(self, expression="@hourly", **fields):
        """Creates one; returns its id."""
        fields = {
            "type": "schedule",
            "cron_expr": expression,
            "timezone": "UTC",
            "definition_key": "report",
            **fields,
        }
        return self.db.execute(
            "select (posthouse.create_trigger('default', %s, 'tester')).id", (json.dumps(fields),)
        ).fetchone()[0]

    def change(self, trigger, **changes):
        self.db.execute("select posthouse.change_trigger(%s, %s)", (trigger, json.dumps(changes)))

    def scheduler(self):
        self._connections.append(ReconnectingConnection(self.settings.database_url, "a keeper"))
        return Scheduler(self._connections[-1], self.settings, PollPacer())

    async def look(self, times=1):
        """What schedulers that look now do, all of it together."""
        self._scheduler = self._scheduler or self.scheduler()
        found = {"fired": 0, "skipped": 0, "errors": 0}
        for _ in range(times):
            for name, number in (await self._scheduler.run_once()).items():
                found[name] += number
        return found

    async def at(self, moment):
        """Moves the clock to this time and looks."""
        await self.move_to(moment)
        return await self.look()

    async def move_to(self, moment):
        await self._clock.move_to(utc(moment) if isinstance(moment, str) else moment)

    def rows(self, statement, *values):
        with self.db.cursor(row_factory=dict_row) as cursor:
            return cursor.execute(statement, values).fetchall()

    def row(self, trigger):
        return self.rows("select * from posthouse.triggers where id = %s", trigger)[0]

    def runs(self, trigger):
        """(nominal time, outcome) of each run, oldest first."""
        found = self.rows(
            "select * from posthouse.schedule_runs where trigger_id = %s order by nominal_at", trigger
        )
        return [(short(run["nominal_at"]), run["outcome"]) for run in found]

    def jobs(self, trigger):
        return self.rows(
            "select * from posthouse.jobs where source = 'schedule' and source_ref = %s "
            "order by correlation_id",
            str(trigger),
        )

    async def close(self):
        for connection in self._connections:
            await connection.close()


def short(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%m-%d %H:%M}"


@asynccontextmanager
async def timeline_of(app, db, settings, start=MORNING):
    async with testing.clock(app) as clock:
        await clock.move_to(start)
        made = Timeline(db, settings, clock)
        made.define()
        try:
            yield made
        finally:
            await made.close()

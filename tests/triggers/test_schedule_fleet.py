"""Ten keepers on one database, killed at random, over five weeks that pass in seconds.

A year instead of five weeks: SCHEDULE_DAYS=365 pytest tests/triggers/test_schedule_fleet.py
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from posthouse.core.schedule import Schedule
from support.brute_force_schedule import between, utc
from support.schedules import timeline_of
from support.waiting import WAIT_SECONDS

NURSERY = Path(__file__).with_name("crashing_schedulers.py")
KEEPERS = 10
START = utc("2026-03-04T00:00")
BEHIND = timedelta(days=7)  # in which no schedule comes more often than it may catch up
DAYS = int(os.environ.get("SCHEDULE_DAYS", "34"))

# All of these weeks' changes of clocks: New York and Havana in March, Lord Howe in April.
EXACT = [
    ("*/30 * * * *", {"timezone": "America/New_York"}),
    ("30 2 * * *", {"timezone": "America/New_York", "overlap": "queue"}),
    ("30 1 * * *", {"timezone": "America/New_York", "fold": "twice", "jitter_seconds": 3000}),
    ("0 0 * * *", {"timezone": "America/Havana"}),
    ("15 2 * * *", {"timezone": "Australia/Lord_Howe", "gap": "skip"}),
    ("45 * * * *", {"timezone": "Australia/Lord_Howe"}),
    ("every 45m", {}),
    ("0 9 * * MON-FRI", {"timezone": "Europe/Berlin"}),
]


class Keepers:
    """The processes, from outside."""

    def __init__(self, process):
        self._process = process

    @classmethod
    async def start(cls, url):
        pipe = asyncio.subprocess.PIPE
        return cls(
            await asyncio.create_subprocess_exec(
                sys.executable, str(NURSERY), url, str(KEEPERS), stdin=pipe, stdout=pipe, stderr=pipe
            )
        )

    async def stop(self):
        """How many were killed, and what they complained about."""
        out, complaints = await asyncio.wait_for(self._process.communicate(b"\n"), 30)
        assert self._process.returncode == 0, complaints.decode()
        return int(out), complaints.decode()


async def cut_off_one(timeline):
    """As if Postgres had lost a keeper in the middle of its work."""
    timeline.db.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity "
        "where datname = current_database() and application_name = 'posthouse a keeper' "
        "order by random() limit 1"
    )


async def let_time_pass(timeline, end):
    moment = START
    while moment < end:
        moment = min(end, moment + timedelta(seconds=random.choice([600, 3600, 20_000, 120_000])))
        await timeline.move_to(moment)
        if random.random() < 0.1:
            await cut_off_one(timeline)
        await asyncio.sleep(random.uniform(0, 0.05))  # for the keepers to be anywhere in their work
        await until_done(timeline, moment - BEHIND)


async def until_done(timeline, moment):
    """Waits until the keepers have come so far."""
    async with asyncio.timeout(WAIT_SECONDS):
        while timeline.rows("select from posthouse.triggers where next_at is null or next_at <= %s", moment):
            await asyncio.sleep(0.02)


@pytest.mark.timeout(60 + 3 * DAYS)
async def test_invariant_16_ten_keepers_killed_at_random_make_one_job_for_each_time(app, db, settings):
    end = START + timedelta(days=DAYS)
    async with timeline_of(app, db, settings, START) as timeline:
        exact = {
            timeline.trigger(expression, missed="catch_up", catch_up_limit=1000, **fields): (
                expression,
                fields,
            )
            for expression, fields in EXACT
        }
        latest = timeline.trigger("*/10 * * * *", missed="once")
        begun = timeline.row(latest)["created_at"]
        keepers = await Keepers.start(settings.database_url)
        try:
            await let_time_pass(timeline, end)
            await until_done(timeline, end)
        finally:
            killed, _ = await keepers.stop()
        assert killed > DAYS / 10
        for trigger, (expression, fields) in exact.items():
            policies = {name: fields[name] for name in ("gap", "fold") if name in fields}
            schedule = Schedule.parse(expression, fields.get("timezone", "UTC"), **policies)
            assert made_for(timeline, trigger) == between(schedule, begun, end), expression
        once = made_for(timeline, latest)
        assert len(set(once)) == len(once)
        assert set(once) <= set(between(Schedule.parse("*/10 * * * *"), begun, end))
        assert once[-1] == end


def made_for(timeline, trigger):
    """The nominal times of the jobs of a trigger, as the jobs tell it; the record has to tell the same."""
    jobs = sorted(utc(job["correlation_id"].partition("@")[2].rstrip("Z")) for job in timeline.jobs(trigger))
    runs = timeline.rows(
        "select nominal_at, job_id from posthouse.schedule_runs "
        "where trigger_id = %s and outcome = 'fired' order by nominal_at",
        trigger,
    )
    assert [run["nominal_at"] for run in runs] == jobs
    assert {run["job_id"] for run in runs} == {job["id"] for job in timeline.jobs(trigger)}
    return jobs

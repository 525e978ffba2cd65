"""Schedules are changed while workers run."""

from uuid import UUID

import psycopg
import pytest

from posthouse import triggers
from support.waiting import eventually
from support.workers import running_worker

LATE = "select count(*) from posthouse.jobs where created_by = %s and scheduled_for > %s"


@pytest.fixture
async def connection(database):
    async with await psycopg.AsyncConnection.connect(database, autocommit=True) as connection:
        yield connection


def every_second(mark):
    return {"cron_expr": "every 1s", "definition_key": "tick", "payload_template": {"mark": mark}}


async def test_a_schedule_is_created_changed_and_disabled_while_workers_run(app, db, connection):
    seen = []

    @app.job()
    async def tick(mark: str) -> None:
        seen.append(mark)

    async with running_worker(app):
        created = await triggers.create_trigger(connection, every_second("first"), actor="test")
        trigger = UUID(created["id"])
        await eventually(lambda: "first" in seen, what="a run of the new schedule")
        changed = {"payload_template": {"mark": "second"}}
        await triggers.change_trigger(connection, trigger, changed, actor="test")
        await eventually(lambda: "second" in seen, what="a run of the changed schedule")
        await triggers.change_trigger(connection, trigger, {"enabled": False}, actor="test")
        (disabled_at,) = db.execute("select posthouse.now()").fetchone()
        await triggers.create_trigger(connection, every_second("other"), actor="test")
        await eventually(lambda: seen.count("other") >= 3, what="three runs of another schedule")
    assert db.execute(LATE, (f"trigger:{trigger}", disabled_at)).fetchone() == (0,)

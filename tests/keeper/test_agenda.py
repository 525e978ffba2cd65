"""One look finds every step that has something to do, and none when there is nothing."""

import json
from uuid import uuid4

import psycopg
import pytest

from posthouse.keeper.keeper import Keeper
from posthouse.settings import Settings
from support.workers import claim_as_other_worker

REGISTER = "select posthouse.register(%s, 'w', 'h', 1, '', '{default}', '{work}', 1, '{}', '{}')"


@pytest.fixture
async def keeper(settings):
    """A keeper of a database in which nothing is left to do."""
    keeper = Keeper(settings.database_url, settings)
    await keeper.sampler.run_once()
    yield keeper
    await keeper.stop()


async def asked(keeper):
    return {*await keeper.urgent_agenda.run_once(), *await keeper.background_agenda.run_once()}


def run_one(db):
    db.execute("select posthouse.enqueue('work', max_attempts => 1)")
    return claim_as_other_worker(db, kinds=["work"])


def fail_one(db):
    job, token = run_one(db)
    error = json.dumps({"type": "ValueError", "message": "broken"})
    db.execute(
        "select posthouse.settle(%s, %s, '{exhaust}', '{failed}', '{null}', array[%s::jsonb])",
        ([job], [token], error),
    )


def make_trigger(db):
    db.execute('select posthouse.announce(\'[{"key": "work"}]\')')
    fields = {"type": "schedule", "cron_expr": "@hourly", "timezone": "UTC", "definition_key": "work"}
    db.execute("select posthouse.create_trigger('default', %s, 'tester')", (json.dumps(fields),))


def register(db, change):
    worker = uuid4()
    db.execute(REGISTER, (worker,))
    db.execute(f"update posthouse.workers set {change} where id = %s", (worker,))


def erase_a_running_job(db):
    db.execute("select posthouse.enqueue('work', subject => 'anna')")
    claim_as_other_worker(db, kinds=["work"])
    db.execute("select posthouse.erase('anna')")


SITUATIONS = {
    "a job that is due soon": (
        lambda db: db.execute("select posthouse.enqueue('work', delay => '0.2 s')"),
        {"promoter"},
    ),
    "a job that is due later": (
        lambda db: db.execute("select posthouse.enqueue('work', delay => '1 h')"),
        set(),
    ),
    "a job that depends on another": (
        lambda db: db.execute(
            "select posthouse.enqueue('work', depends_on => array[posthouse.enqueue('work')])"
        ),
        {"promoter"},
    ),
    "a running job": (run_one, {"rescuer"}),
    "a failed job": (fail_one, {"grouper", "alerter"}),
    "an event": (lambda db: db.execute("select posthouse.emit('order.paid')"), {"matcher"}),
    "a new schedule": (make_trigger, {"scheduler"}),
    "a worker without its lock": (lambda db: register(db, "watched = true"), {"worker_monitor", "alerter"}),
    "a silent worker": (
        lambda db: register(db, "heartbeat_at = posthouse.now() - interval '1 h'"),
        {"worker_monitor", "alerter"},
    ),
    "a worker that has returned": (
        lambda db: register(db, "lost_at = posthouse.now()"),
        {"worker_monitor", "alerter"},
    ),
    "a worker that is there": (lambda db: register(db, "heartbeat_at = posthouse.now()"), {"alerter"}),
    "a bulk change": (
        lambda db: db.execute(
            "select posthouse.start_bulk_change(gen_random_uuid(), '{}', 1, 1, 1, 'x', 'cancel')"
        ),
        {"bulk_changes"},
    ),
    "an erasure under way": (erase_a_running_job, {"eraser", "rescuer"}),
    "a minute that is over": (lambda db: db.execute("delete from posthouse.sampled_minutes"), {"sampler"}),
    "an alert": (
        lambda db: db.execute("select posthouse.raise_alert('queue_stuck', null, 'mail', 'stuck')"),
        {"alerter"},
    ),
}


@pytest.mark.parametrize("situation", SITUATIONS)
async def test_the_agenda_asks_for_the_steps_that_have_something_to_do(keeper, db, situation):
    happens, steps = SITUATIONS[situation]
    keeper.rescuer._due_at = 0.0
    happens(db)
    found = await asked(keeper)
    assert found | {"sampler"} == steps | {"sampler"}, "a minute may have passed meanwhile"
    assert "sampler" in found or "sampler" not in steps


async def test_a_quiet_keeper_asks_for_nothing(keeper):
    assert await asked(keeper) <= {"sampler"}, "a minute may have passed meanwhile"


async def test_a_live_worker_keeps_its_lock_while_the_agenda_looks(keeper, db, settings):
    worker = uuid4()
    db.execute(REGISTER, (worker,))
    await asked(keeper)
    with psycopg.connect(settings.database_url, autocommit=True) as alive:
        alive.execute("select posthouse.take_liveness_lock(%s)", (worker,))
        assert "worker_monitor" not in await asked(keeper)
        alive.execute("select pg_advisory_unlock_all()")  # as its death would
        assert "worker_monitor" in await asked(keeper)


async def test_without_running_jobs_leases_are_not_searched(keeper, db):
    await keeper.urgent_agenda.run_once()
    idle = keeper.rescuer.pause()
    run_one(db)
    await keeper.urgent_agenda.run_once()
    assert keeper.rescuer.pause() == Settings().rescue_seconds < idle

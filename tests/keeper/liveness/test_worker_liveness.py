"""When a keeper may call others silent, and what races it."""

import dataclasses
import json

import pytest

from posthouse import insights
from posthouse.keeper.keeper import Keeper
from posthouse.storage.connections import connect_async
from support.engine import Engine, run_concurrently
from support.frozen_clock import FrozenClock

NONE_CHANGED = {"went_offline": 0, "came_back": 0}
LONG = 600


@pytest.fixture
def engine(db, database):
    return Engine(db, database)


@pytest.fixture
async def keeper_with_grace(settings):
    """A keeper that gives every worker ten seconds, on a server that has been up for longer."""
    keeper = Keeper(settings.database_url, dataclasses.replace(settings, rescue_grace_seconds=10))
    at_once = dataclasses.replace(
        settings, rescue_grace_seconds=0
    )  # after Postgres started; not the outage detector's
    keeper.worker_monitor._settings = keeper.rescuer._settings = at_once
    yield keeper
    await keeper.stop()


async def test_a_keeper_that_has_just_started_declares_no_worker_silent(db, engine, keeper_with_grace):
    """They may have been asleep with it: they get the time to beat."""
    clock = FrozenClock(db)
    engine.register(offline_after=1)
    engine.enqueue()
    job = engine.claim_one(lease=60)
    clock.advance(LONG)
    assert await keeper_with_grace.worker_monitor.run_once() == NONE_CHANGED
    assert await keeper_with_grace.rescuer.run_once() == {"rescued": 0}
    clock.advance(9)
    assert await keeper_with_grace.worker_monitor.run_once() == NONE_CHANGED
    clock.advance(2)
    assert await keeper_with_grace.worker_monitor.run_once() == {"went_offline": 1, "came_back": 0}
    assert await keeper_with_grace.rescuer.run_once() == {"rescued": 1}
    assert engine.status(job.id) == "queued"


async def test_a_keeper_that_stood_still_begins_anew(db, engine, keeper_with_grace):
    clock = FrozenClock(db)
    engine.register(offline_after=1)
    for _ in range(3):
        engine.heartbeat()
        assert await keeper_with_grace.worker_monitor.run_once() == NONE_CHANGED
        clock.advance(8)
    clock.advance(LONG)  # no check and no heartbeat
    assert await keeper_with_grace.worker_monitor.run_once() == NONE_CHANGED
    engine.heartbeat()
    clock.advance(9)
    assert await keeper_with_grace.worker_monitor.run_once() == NONE_CHANGED


async def test_leases_that_ran_out_while_all_stood_still_can_be_renewed(db, engine, keeper_with_grace):
    clock = FrozenClock(db)
    engine.register(offline_after=1)
    engine.enqueue()
    job = engine.claim_one(lease=60)
    await keeper_with_grace.worker_monitor.run_once()
    clock.advance(11)
    await keeper_with_grace.worker_monitor.run_once()
    clock.advance(LONG)
    assert await keeper_with_grace.rescuer.run_once() == {"rescued": 0}
    assert engine.heartbeat(job) == {}
    clock.advance(11)
    assert await keeper_with_grace.rescuer.run_once() == {"rescued": 0}
    assert engine.succeed(job) == []


async def test_who_never_beat_is_found_by_when_it_started(engine, db, keeper_with_grace):
    clock = FrozenClock(db)
    engine.register(offline_after=1)
    db.execute("update posthouse.workers set heartbeat_at = null")
    assert await keeper_with_grace.worker_monitor.run_once() == NONE_CHANGED
    clock.advance(9)
    assert await keeper_with_grace.worker_monitor.run_once() == NONE_CHANGED
    clock.advance(2)
    assert (await keeper_with_grace.worker_monitor.run_once())["went_offline"] == 1


def test_beats_and_looks_at_once_never_leave_a_beating_worker_offline(engine):
    """The next heartbeat brings a worker back, and each loss and return is reported once."""
    worker = engine.register(offline_after=1)
    engine.connection.execute("update posthouse.workers set heartbeat_at = posthouse.now() - interval '1 h'")
    lost, back = [], []

    def beat():
        with engine.new_connection() as other:
            for _ in range(200):
                other.heartbeat(worker=worker)

    def look():
        with engine.new_connection() as other:
            for _ in range(100):
                lost.extend(other.mark_lost_workers(silence=0.001))
                back.extend(row[0] for row in other.rows("select posthouse.mark_returned_workers()"))

    run_concurrently(beat, look, look)
    engine.heartbeat(worker=worker)
    back += [row[0] for row in engine.rows("select posthouse.mark_returned_workers()")]
    assert engine.value("select stopped_at is null and lost_at is null from posthouse.workers")
    recorded = [row.change for row in engine.rows("select change from posthouse.worker_changes order by id")]
    assert recorded.count("lost") == len(lost)
    assert recorded.count("back") == len(back) <= len(lost)


async def test_several_keepers_tell_of_a_loss_and_a_return_once(db, engine, settings):
    clock = FrozenClock(db)
    keepers = [Keeper(settings.database_url, settings) for _ in range(3)]
    worker = engine.register(offline_after=1)
    clock.advance(LONG)
    counts = [await keeper.worker_monitor.run_once() for keeper in keepers]
    assert sum(count["went_offline"] for count in counts) == 1
    engine.heartbeat(worker=worker)
    counts = [await keeper.worker_monitor.run_once() for keeper in keepers]
    assert sum(count["came_back"] for count in counts) == 1
    for keeper in keepers:
        await keeper.stop()


async def test_after_an_outage_no_worker_is_declared_dead_within_the_grace(db, engine, settings):
    """Not even who holds no lock: they lost theirs as we lost our connection."""
    keeper = Keeper(settings.database_url, dataclasses.replace(settings, rescue_grace_seconds=600))
    keeper.worker_monitor._settings = dataclasses.replace(settings, rescue_grace_seconds=0)
    worker = engine.register(offline_after=1)
    db.execute("update posthouse.workers set watched = true")
    await keeper.worker_monitor.run_once()
    assert engine.value("select missing_since is not null from posthouse.workers where id = %s", worker)
    db.execute("update posthouse.workers set missing_since = missing_since - interval '1 h'")
    db.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity "
        "where application_name = 'posthouse keeper' and datname = current_database()"
    )
    with pytest.raises(Exception, match=r"terminat|closed"):
        await keeper.worker_monitor.run_once()
    assert await keeper.worker_monitor.run_once() == NONE_CHANGED
    assert engine.value("select stopped_at is null from posthouse.workers")
    await keeper.stop()


async def test_the_status_of_a_worker_is_the_same_wherever_it_is_shown(engine, database, db):
    """One rule: in the list, in the counts of queues and definitions, and when it is named."""
    worker = engine.register(concurrency=2)
    engine.value("select posthouse.announce(%s)", json.dumps([{"key": "task"}]))
    async with await connect_async(database, "tests") as connection:

        async def shown():
            (info,) = await insights.workers(connection)
            (named,) = await insights.workers_by_name(connection, "w")
            queues = {queue.name: queue.workers for queue in await insights.list_queues(connection)}
            (definition,) = await insights.definitions(connection)
            slots = (await insights.overview(connection)).workers
            return info.status, named.alive, queues.get("default"), definition.workers, slots.workers

        assert await shown() == ("idle", True, 1, 1, 1)
        engine.enqueue()
        engine.enqueue()
        engine.claim()
        assert (await shown())[0] == "active"
        engine.claim()
        assert (await shown())[0] == "busy"
        engine.value("select posthouse.disable_worker(%s)", worker)
        assert await shown() == ("disabled", True, 0, 1, 1)
        db.execute("update posthouse.workers set heartbeat_at = null, started_at = posthouse.now()")
        assert (await shown())[0] == "disabled", "it has only just started"
        engine.value("select posthouse.sign_off(%s)", worker)
        assert await shown() == ("offline", False, 0, 0, 0)
        changes = await insights.worker_changes(connection, worker=worker)
        assert [change.change for change in changes] == ["stopped", "started"]

"""The keeper's steps: promote, rescue, retain. Any number of keepers may take them at once."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

import posthouse
from posthouse import testing
from posthouse.keeper.keeper import Keeper
from support import forkserver
from support.frozen_clock import FrozenClock
from support.waiting import eventually
from support.workers import (
    attempt_outcomes,
    claim_as_other_worker,
    job_row,
    job_status,
    running_worker,
    status_counts,
)

LIVENESS = 7701  # the class of the locks that live workers hold


@pytest.fixture
async def keepers(settings):
    """Three of them, at once."""
    keepers = [Keeper(settings.database_url, settings) for _ in range(3)]
    yield keepers
    for keeper in keepers:
        await keeper.stop()


@pytest.fixture
def enqueue(db):
    def enqueue(**options):
        names = "".join(f", {name} => %s" for name in options)
        return db.execute(f"select posthouse.enqueue('work'{names})", list(options.values())).fetchone()[0]

    return enqueue


NONE_CHANGED = {"went_offline": 0, "came_back": 0, "rescued": 0}


async def look(keeper):
    """Who is gone, and what becomes of their jobs."""
    return {**await keeper.worker_monitor.run_once(), **await keeper.rescuer.run_once()}


def _expire(db):
    db.execute("update posthouse.running set lease_expires_at = posthouse.now() - interval '1 s'")


def _register(db, *, watched=True):
    worker = uuid4()
    db.execute(
        "select posthouse.register(%s, 'w', 'h', 1, '', '{default}', '{work}', 1, '{}', '{}')", (worker,)
    )
    if watched:
        db.execute("update posthouse.workers set watched = true where id = %s", (worker,))
    return worker


def _claim_as(db, worker, limit=1):
    return db.execute(
        "select id, token from posthouse.claim("
        "%s, gen_random_uuid(), '{default}', '{work}', %s, interval '1 hour')",
        (worker, limit),
    ).fetchall()


async def test_the_promoter_moves_what_is_due_and_leaves_the_rest(app, db, keeper, enqueue):
    due, later = enqueue(delay=timedelta(minutes=1)), enqueue(delay=timedelta(hours=1))
    assert await keeper.promoter.run_once() == {"promoted": 0}
    async with testing.clock(app) as clock:
        await clock.advance("61s")
        assert await keeper.promoter.run_once() == {"promoted": 1}
    assert (job_row(db, due)["job_table"], job_row(db, later)["job_table"]) == ("ready", "waiting")


async def test_the_promoter_comes_back_when_the_next_job_is_due(db, keeper, enqueue):
    FrozenClock(db)
    await keeper.promoter.run_once()
    idle = keeper.promoter.pause()
    enqueue(delay=timedelta(seconds=0.2))
    await keeper.promoter.run_once()
    assert keeper.promoter.pause() == pytest.approx(0.2)
    assert idle > 0.2


async def test_jobs_become_ready_in_the_order_in_which_they_are_due(app, db, keeper, enqueue):
    third = enqueue(delay=timedelta(minutes=3))
    first = enqueue(delay=timedelta(minutes=1))
    second = enqueue(delay=timedelta(minutes=2))
    async with testing.clock(app) as clock:
        await clock.advance("5m")
        await keeper.promoter.run_once()
    assert [claim_as_other_worker(db)[0] for _ in range(3)] == [first, second, third]


async def test_many_promoters_at_once_move_each_job_once(app, db, keepers):
    await app.client.enqueue_many(posthouse.Request(kind="work", delay="1m") for _ in range(2500))
    async with testing.clock(app) as clock:
        await clock.advance("2m")
        moved = 0
        while status_counts(db) and db.execute("select count(*) from posthouse.waiting").fetchone() != (0,):
            counts = await asyncio.gather(*(keeper.promoter.run_once() for keeper in keepers))
            moved += sum(count["promoted"] for count in counts)
    assert moved == 2500
    assert db.execute("select count(distinct id), count(*) from posthouse.ready").fetchone() == (2500, 2500)


async def test_an_edge_that_raced_the_end_of_its_dependency_is_found(settings, db, keeper, enqueue):
    """The dependant was being enqueued while the other job ended: neither transaction saw the other."""
    first = enqueue()
    _, token = claim_as_other_worker(db, kinds=["work"])
    with psycopg.connect(settings.database_url) as late:
        (second,) = late.execute("select posthouse.enqueue('work', depends_on => %s)", ([first],)).fetchone()
        db.execute("select posthouse.succeed(%s, %s, null)", ([first], [token]))
        late.commit()
    assert job_row(db, second)["job_table"] in {"waiting", "ready"}
    await keeper.promoter.run_once()
    await keeper.promoter.run_once()
    assert job_row(db, second)["job_table"] == "ready"


async def test_an_expired_lease_is_taken_back_and_recorded_as_lost(db, keeper, enqueue):
    job_id = enqueue()
    _, token = claim_as_other_worker(db, kinds=["work"])
    assert (await keeper.rescuer.run_once())["rescued"] == 0
    _expire(db)
    assert (await keeper.rescuer.run_once())["rescued"] == 1
    job = job_row(db, job_id)
    assert (job["job_table"], job["attempt_count"], job["crashes"]) == ("ready", 1, 1)
    assert job["last_error"].startswith("WorkerLost: ")
    assert attempt_outcomes(db, job_id) == [(1, "lost")]
    late = db.execute("select posthouse.succeed(%s, %s, null)", ([job_id], [token])).fetchone()[0]
    assert late == [job_id]
    assert job_status(db, job_id) == "queued", "what the old holder reports changes nothing"


async def test_the_interval_of_the_check_for_expired_leases_is_a_setting(settings):
    keeper = Keeper(settings.database_url, replace(settings, rescue_seconds=3600.0))
    await keeper.rescuer.run_once()
    assert keeper.rescuer.pause() == 3600
    await keeper.stop()


async def test_several_rescuers_at_once_take_a_lease_back_once(db, app, keepers):
    await app.client.enqueue_many(posthouse.Request(kind="work") for _ in range(300))
    worker = _register(db, watched=False)
    assert len(_claim_as(db, worker, 300)) == 300
    _expire(db)
    counts = await asyncio.gather(*(keeper.rescuer.run_once() for keeper in keepers))
    assert sum(count["rescued"] for count in counts) == 300
    assert db.execute("select count(*), sum(crashes) from posthouse.ready").fetchone() == (300, 300)
    assert db.execute("select count(*) from posthouse.past_attempts").fetchone() == (300,)


async def test_all_jobs_of_a_dead_worker_are_taken_back_however_many(db, app, keeper, settings):
    await app.client.enqueue_many(posthouse.Request(kind="work") for _ in range(2500))
    worker = _register(db)
    assert len(_claim_as(db, worker, 2500)) == 2500
    await keeper.worker_monitor.run_once()  # notices that the lock is free
    db.execute("update posthouse.workers set missing_since = missing_since - interval '2 s'")
    assert await look(keeper) == {"went_offline": 1, "came_back": 0, "rescued": 2500}


async def test_a_worker_that_holds_its_lock_is_not_declared_dead(db, settings, keeper, enqueue):
    job_id = enqueue()
    worker = _register(db)
    _claim_as(db, worker)
    with psycopg.connect(settings.database_url, autocommit=True) as alive:
        alive.execute("select posthouse.take_liveness_lock(%s)", (worker,))
        for _ in range(3):
            assert await look(keeper) == NONE_CHANGED
            db.execute("update posthouse.workers set missing_since = missing_since - interval '2 s'")
    assert job_status(db, job_id) == "running"


async def test_a_worker_whose_connection_broke_gets_time_to_come_back(db, settings, keeper, enqueue):
    job_id = enqueue()
    worker = _register(db)
    _claim_as(db, worker)
    await keeper.worker_monitor.run_once()
    assert db.execute("select missing_since is not null from posthouse.workers").fetchone() == (True,)
    with psycopg.connect(settings.database_url, autocommit=True) as back:
        back.execute("select posthouse.take_liveness_lock(%s)", (worker,))
        assert await look(keeper) == NONE_CHANGED
    assert db.execute("select missing_since from posthouse.workers").fetchone() == (None,)
    assert job_status(db, job_id) == "running"


async def test_a_job_that_was_lost_too_often_is_a_dead_letter_with_its_payload_whole(db, keeper, enqueue):
    payload = {"text": "x" * 5000}
    job_id = enqueue(payload=psycopg.types.json.Jsonb(payload), max_attempts=10)
    for crash in range(1, 4):
        claim_as_other_worker(db, kinds=["work"])
        _expire(db)
        await keeper.rescuer.run_once()
        assert job_row(db, job_id)["crashes"] == crash
    job = job_row(db, job_id)
    assert (job["status"], job["attempt_count"], job["payload"]) == ("dead_letter", 3, payload)
    assert job["error"]["type"] == "Poison"
    assert attempt_outcomes(db, job_id) == [(1, "lost"), (2, "lost"), (3, "lost")]


async def test_a_lost_job_without_attempts_left_is_a_dead_letter(db, keeper, enqueue):
    job_id = enqueue(max_attempts=1)
    claim_as_other_worker(db, kinds=["work"])
    _expire(db)
    await keeper.rescuer.run_once()
    assert (job_status(db, job_id), job_row(db, job_id)["error"]["type"]) == ("dead_letter", "WorkerLost")


async def test_a_lost_job_whose_cancellation_was_asked_for_is_canceled(db, keeper, enqueue):
    job_id = enqueue()
    claim_as_other_worker(db, kinds=["work"])
    db.execute("select posthouse.cancel(%s)", (job_id,))
    _expire(db)
    await keeper.rescuer.run_once()
    assert job_status(db, job_id) == "canceled"


async def test_right_after_a_start_of_postgres_nothing_counts_as_lost(db, settings, enqueue):
    """No worker could renew during the outage. The server of these tests is much younger than a day."""
    import dataclasses  # noqa: PLC0415

    job_id = enqueue()
    worker = _register(db)
    _claim_as(db, worker)
    _expire(db)
    patient = Keeper(settings.database_url, dataclasses.replace(settings, rescue_grace_seconds=864000))
    for _ in range(2):
        assert await look(patient) == NONE_CHANGED
        db.execute("update posthouse.workers set missing_since = posthouse.now() - interval '1 h'")
    await patient.stop()
    assert job_status(db, job_id) == "running"


async def test_partitions_are_made_ahead_and_only_once(db, keepers):
    def days():
        return db.execute(
            "select count(*) from pg_inherits where inhparent = 'posthouse.history'::regclass"
        ).fetchone()[0]

    before = days()
    await asyncio.gather(*(keeper.retention.run_once() for keeper in keepers))
    assert days() == before, "migrating had made them"
    db.execute(f"drop table posthouse.history_{datetime.now(UTC) + timedelta(days=2):%Y%m%d}")
    counts = await asyncio.gather(*(keeper.retention.run_once() for keeper in keepers))
    assert sum(count["created"] for count in counts) == 1
    assert days() == before


async def test_retention_drops_old_days_and_what_hangs_on_them(app, db, settings, enqueue):
    import dataclasses  # noqa: PLC0415

    @app.job(queue="other", retry=posthouse.Retry(0))
    async def work(job: posthouse.Job):
        if job.attempt == 1:
            raise ValueError

    old = await work.using(
        dedupe_key="k", order_key="o", dedupe_window="90d", on_duplicate="existing"
    ).enqueue(text="x" * 5000)
    keeper = Keeper(settings.database_url, dataclasses.replace(settings, retention_days=30))
    async with testing.clock(app) as clock:
        assert await testing.drain(app) == {"succeeded": 1}
        for _ in range(2):  # each makes partitions of a week, which takes seconds
            await clock.advance("14d")
            await keeper.retention.run_once()
        assert job_status(db, old.id) == "succeeded", "28 days are not 30"
        young = await work.enqueue(text="y" * 5000)
        assert await testing.drain(app) == {"succeeded": 1}
        await clock.advance("4d")
        counts = await keeper.retention.run_once()
        await keeper.stop()
        assert counts["dropped"] >= 2
        assert db.execute("select id from posthouse.jobs").fetchall() == [(young.id,)]
        for table in ("payloads", "past_attempts"):
            assert db.execute(f"select job_id from posthouse.{table}").fetchall() == [(young.id,)]
        for table in ("dedupe_keys", "order_tails"):
            assert db.execute(f"select job_id from posthouse.{table}").fetchall() == []


async def test_an_active_job_is_never_dropped_however_old(app, db, settings, enqueue):
    job_id = enqueue(delay=timedelta(days=400))
    keeper = Keeper(settings.database_url, settings)
    async with testing.clock(app) as clock:
        await clock.advance("200d")
        await keeper.run_once()
        await keeper.stop()
    assert job_status(db, job_id) == "queued"


@pytest.mark.on_stock_server
async def test_a_keeper_goes_on_after_its_connections_were_cut(app, db, settings):
    keeper = Keeper(settings.database_url, settings)
    await keeper.start()
    try:
        for _ in range(3):
            db.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity "
                "where datname = current_database() and application_name = 'posthouse keeper'"
            )
            handle = await app.client.enqueue("work", {}, delay="50ms")
            await eventually(lambda handle=handle: job_row(db, handle.id)["job_table"] == "ready")
    finally:
        await keeper.stop()


async def test_dependants_of_a_job_that_is_lost_for_good_are_settled(db, keeper, enqueue):
    first = enqueue(max_attempts=1)
    second = enqueue(depends_on=[first])
    claim_as_other_worker(db, kinds=["work"])
    _expire(db)
    await keeper.rescuer.run_once()
    assert (job_status(db, first), job_status(db, second)) == ("dead_letter", "canceled")


@pytest.mark.parametrize("skew", [86400, pytest.param(-86400, marks=pytest.mark.soak)])
def test_invariant_11_no_job_starts_early_even_if_the_worker_s_clock_is_a_day_off(settings, db, skew):
    script = Path(__file__).with_name("skewed_worker.py")
    assert forkserver.start_python([script, settings.database_url, skew]).wait(90) == 0
    rows = db.execute(
        "select kind, attempt_started_at - scheduled_for, finished_at - queued_at, "
        "abs(extract(epoch from queued_at - clock_timestamp())) from posthouse.history"
    ).fetchall()
    assert len(rows) == 20
    for kind, late, took, off in rows:
        assert late >= timedelta(0), f"{kind} started {-late} early"
        assert took >= timedelta(seconds=0.3 if kind == "retried" else 0)
        assert off < 60, "the times are the database's, not the worker's"
    assert status_counts(db) == {"succeeded": 20}


async def test_a_job_in_the_future_stays_while_workers_are_idle(app, db):
    @app.job()
    async def work():
        pass

    handle = await work.using(at=datetime.now(UTC) + timedelta(days=1)).enqueue()
    async with running_worker(app, poll_seconds=0.05) as worker:
        beats = worker.heartbeat.beats
        await eventually(lambda: worker.heartbeat.beats > beats + 3)
    assert (job_status(db, handle.id), job_row(db, handle.id)["attempt_count"]) == ("queued", 0)


@pytest.mark.on_stock_server
async def test_idle_lanes_are_deleted_and_their_jobs_are_kept(app, db, settings):
    @app.job()
    async def task() -> None:
        pass

    requests = [task.request({}, {"limit_key": str(number)}) for number in range(1_100)]
    await app.client.enqueue_many(requests)
    assert await testing.drain(app) == {"succeeded": 1_100}
    keeper = Keeper(settings.database_url, settings)
    keeper.lanes._repairs_left = 0
    with psycopg.connect(settings.database_url) as caller:
        caller.execute("select posthouse.enqueue('task', limit_key => '7')")
        assert (await keeper.lanes.run_once())["deleted"] == 1_100
        caller.commit()
    assert (await keeper.lanes.run_once())["restored"] == 1
    await keeper.stop()
    assert await testing.drain(app) == {"succeeded": 1}

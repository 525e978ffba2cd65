"""When a worker counts as gone: by a look that no beat can lose against."""

from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

from posthouse.keeper.keeper import Keeper
from support.engine import HOUR
from support.waiting import eventually_sync
from support.workers import running_worker, wait_for_startup_heartbeats


def stopped(engine, worker):
    return engine.value("select stopped_at is not null from posthouse.workers where id = %s", worker)


def test_a_worker_that_has_been_silent_for_long_is_gone(engine):
    worker = engine.register()
    engine.advance(50)
    assert engine.mark_lost_workers(silence=60) == []
    engine.advance(70)
    assert engine.mark_lost_workers(silence=60) == [worker]
    assert stopped(engine, worker)


def test_a_worker_that_never_beat_is_found_too(engine):
    worker = engine.register()
    engine.connection.execute("update posthouse.workers set heartbeat_at = null")
    assert engine.mark_lost_workers(silence=60) == []
    engine.advance(70)
    assert engine.mark_lost_workers(silence=60) == [worker]


def test_a_silent_worker_with_a_lease_that_goes_on_is_there(engine):
    worker = engine.register()
    engine.enqueue()
    engine.claim_one(lease=HOUR)
    engine.advance(70)
    assert engine.mark_lost_workers(silence=60) == []
    assert not stopped(engine, worker)
    engine.advance(2 * HOUR)
    assert engine.mark_lost_workers(silence=60) == [worker]


def test_a_heartbeat_wins_over_a_concurrent_declaration_of_death(engine):
    worker = engine.register()
    engine.advance(70)
    with engine.new_connection(autocommit=False) as beating, engine.new_connection() as keeper:
        beating.heartbeat(worker=worker)  # not committed: the keeper waits for it
        buried = at_once_with(keeper, lambda: keeper.mark_lost_workers(silence=60), beating.commit)
    assert buried == []
    assert not stopped(engine, worker)


def at_once_with(waiter, act, release):
    """Starts the act, releases what it waits for once it waits, and returns what it answers."""
    pid = waiter.connection.info.backend_pid
    with ThreadPoolExecutor(1) as pool, waiter.new_connection() as watcher:
        answer = pool.submit(act)
        eventually_sync(lambda: watcher.value("select cardinality(pg_blocking_pids(%s)) > 0", pid))
        release()
        return answer.result(20)


def test_a_worker_that_was_only_quiet_is_back_with_its_next_beat(engine):
    worker = engine.register()
    engine.advance(70)
    engine.mark_lost_workers(silence=60)
    engine.heartbeat(worker=worker)
    assert not stopped(engine, worker)
    assert engine.mark_lost_workers(silence=60) == []


def test_what_a_worker_claimed_after_it_was_thought_dead_stays_with_it(engine):
    """It was stopped for a while, and claims before its next beat."""
    worker = engine.register()
    engine.enqueue()
    lost = engine.claim_one(lease=60)
    engine.advance(70)
    engine.mark_lost_workers(silence=60)
    job = engine.enqueue("other")
    engine.claim_one(kinds=["other"], lease=HOUR)
    assert engine.rescue() == {lost.id: "rescue"}
    assert engine.status(job) == "running"
    assert stopped(engine, worker)


def test_after_a_restart_of_postgres_the_silent_have_time_to_come_back(engine):
    engine.register()
    engine.advance(70)
    assert engine.mark_lost_workers(silence=60, grace=10**9) == []


async def test_a_restarted_keeper_declares_no_worker_dead(app, db, settings):
    @app.job()
    async def task() -> None:
        pass

    async with running_worker(app, keeper=False) as worker:
        await wait_for_startup_heartbeats(worker)
        for _ in range(3):
            keeper = Keeper(settings.database_url, settings)
            counts = await keeper.run_once()
            assert (counts["worker_monitor"]["went_offline"], counts["rescuer"]["rescued"]) == (0, 0)
            await keeper.stop()
        assert db.execute("select count(*) from posthouse.workers where stopped_at is null").fetchone() == (
            1,
        )


def test_a_disabled_or_draining_worker_claims_nothing(engine):
    other = uuid4()
    engine.register()
    engine.register(other)
    for call in ("disable_worker", "drain_worker"):
        engine.enqueue()
        assert engine.value(f"select posthouse.{call}(%s)", engine.worker)
        assert engine.claim() == []
        assert engine.value("select posthouse.enable_worker(%s)", engine.worker)
        assert len(engine.claim()) == 1
    engine.enqueue()
    engine.value("select posthouse.disable_worker(%s)", engine.worker)
    assert len(engine.claim(worker=other)) == 1


def test_a_job_is_not_left_to_a_preferred_worker_that_is_kept_from_it(engine):
    gpu = engine.register(uuid4(), capabilities=["gpu"])
    engine.register()
    engine.enqueue(prefers=["gpu"])
    assert engine.claim() == []
    engine.value("select posthouse.drain_worker(%s)", gpu)
    assert len(engine.claim()) == 1


def test_a_heartbeat_requests_a_drain(engine):
    engine.register()
    assert engine.heartbeat() == {}
    engine.value("select posthouse.drain_worker(%s)", engine.worker)
    assert engine.heartbeat() == {engine.worker: "drain"}


def test_an_unknown_worker_cannot_be_controlled(engine):
    for call in ("disable_worker", "enable_worker", "drain_worker"):
        assert engine.value(f"select posthouse.{call}(%s)", uuid4()) is None

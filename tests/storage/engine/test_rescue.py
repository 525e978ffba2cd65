"""Rescue: lost leases are given away, and only lost ones."""

from uuid import uuid4

import pytest

from support.engine import HOUR, run_concurrently
from support.waiting import eventually_sync

pytestmark = pytest.mark.on_stock_server

LARGE = {"text": "x" * 5_000}


def test_an_expired_lease_is_given_away(engine):
    job_id = engine.enqueue()
    lost = engine.claim_one(lease=30)
    assert engine.rescue() == {}
    engine.advance(31)
    assert engine.rescue() == {job_id: "rescue"}
    again = engine.claim_one()
    assert (again.id, again.attempt_count, again.crashes) == (job_id, 2, 1)
    assert again.token != lost.token
    first, second = engine.attempts(job_id)
    assert (first.outcome, first.error_type, first.worker_id) == ("lost", "WorkerLost", engine.worker)
    assert second.outcome == "running"


def test_rescued_jobs_return_after_a_random_time_up_to_the_jitter(engine):
    ids = {engine.enqueue() for _ in range(20)}
    for _ in ids:
        engine.claim_one(lease=30)
    engine.advance(31)
    engine.rows("select id from posthouse.rescue(p_grace => '0 s', p_jitter => '10 s')")
    delays = [row.delay for row in engine.rows(
        "select extract(epoch from due_at - a.finished_at) as delay from posthouse.waiting as w "
        "join posthouse.past_attempts as a on a.job_id = w.id")]  # fmt: skip
    assert len(set(delays)) == len(ids)
    assert all(0 <= delay <= 10 for delay in delays)
    engine.advance(41)
    assert engine.promote() == len(ids)


def test_an_expired_lease_of_a_live_worker_counts_no_crash(engine):
    """The reply to its claim was lost: its heartbeats go on, and do not renew the lease."""
    engine.register()
    engine.heartbeat(lease=30)
    job_id = engine.enqueue()
    engine.claim_one(lease=30)
    for clock in (10, 20, 29):
        engine.advance(clock)
        engine.heartbeat(lease=30)
    engine.advance(31)
    assert engine.rescue(crash_limit=1) == {job_id: "rescue"}
    again = engine.claim_one()
    assert (again.attempt_count, again.crashes) == (2, 0)
    first, _ = engine.attempts(job_id)
    assert (first.outcome, first.error_type) == ("lost", "LeaseExpired")


def test_an_expired_lease_of_a_worker_that_fell_silent_counts_a_crash(engine):
    engine.register()
    job_id = engine.enqueue()
    job = engine.claim_one(lease=30)
    engine.advance(10)
    assert engine.heartbeat(job, lease=30) == {}
    engine.advance(41)
    assert engine.rescue() == {job_id: "rescue"}
    assert engine.claim_one().crashes == 1


def test_what_a_worker_left_behind_when_it_signed_off_counts_no_crash(engine):
    engine.register()
    job_id = engine.enqueue()
    engine.claim_one(lease=30)
    engine.value("select posthouse.sign_off(%s)", engine.worker)
    assert engine.rescue() == {job_id: "rescue"}
    assert engine.claim_one().crashes == 0


def test_a_lease_that_is_renewed_in_time_is_never_given_away(engine):
    engine.enqueue()
    job = engine.claim_one(lease=30)
    for clock in range(0, 300, 20):
        engine.advance(clock)
        assert engine.heartbeat(job, lease=30) == {}
        assert engine.rescue() == {}
    assert engine.succeed(job) == []


def test_a_lease_that_progress_extends_is_not_given_away(engine):
    engine.enqueue()
    job = engine.claim_one(lease=30)
    engine.advance(20)
    engine.progress(job, 10.0, lease=30)
    engine.advance(40)
    assert engine.rescue() == {}


def test_a_renewal_extends_a_lease_by_what_was_asked_and_no_more(engine):
    left = (
        "select lease_expires_at - posthouse.now() between make_interval() and make_interval(secs => %s) "
        "from posthouse.running"
    )
    engine.register()
    engine.enqueue()
    job = engine.claim_one(lease=30)
    assert engine.value(left, 30)
    for clock in (10, 20, 500):
        engine.advance(clock)
        engine.heartbeat(job, lease=30)
        assert engine.value(left, 30)
    engine.advance(510)
    engine.progress(job, 10.0, lease=20)
    assert engine.value(left, 20)


def test_a_late_beat_before_the_rescue_saves_the_lease(engine):
    engine.enqueue()
    job = engine.claim_one(lease=30)
    engine.advance(HOUR)
    assert engine.heartbeat(job, lease=30) == {}
    assert engine.rescue() == {}


def test_a_beat_that_is_being_committed_keeps_the_rescuer_off(engine):
    engine.enqueue()
    job = engine.claim_one(lease=30)
    engine.advance(HOUR)
    with engine.new_connection(autocommit=False) as worker:
        worker.heartbeat(job, lease=30)
        assert engine.rescue() == {}
        worker.commit()
    assert engine.rescue() == {}
    assert engine.succeed(job) == []


def test_after_a_restart_of_postgres_workers_have_time_to_renew(engine):
    engine.enqueue()
    engine.claim_one(lease=30)
    engine.advance(HOUR)
    assert engine.rescue(grace=10**9) == {}
    assert engine.rescue(grace=0) != {}


def test_the_late_finish_of_a_rescued_job_changes_nothing(engine):
    engine.enqueue()
    late = engine.claim_one(lease=30)
    engine.advance(HOUR)
    engine.rescue()
    fresh = engine.claim_one()
    before = engine.dump_tables()
    engine.succeed(late, result="late")
    engine.fail(late)
    assert engine.dump_tables() == before
    assert engine.succeed(fresh, result="in time") == []
    assert engine.job(late.id).result == "in time"


def test_a_job_that_crashes_its_workers_is_a_dead_letter_with_its_payload_whole(engine):
    job_id = engine.enqueue(payload=LARGE, max_attempts=10)
    for crash in (1, 2, 3):
        engine.claim_one(lease=30)
        engine.advance(crash * HOUR)
        assert engine.rescue() == {job_id: "rescue" if crash < 3 else "exhaust"}
    ended = engine.job(job_id)
    assert (ended.status, ended.crashes, ended.attempt_count) == ("dead_letter", 3, 3)
    assert (ended.error["type"], ended.payload) == ("Poison", LARGE)
    assert [attempt.outcome for attempt in engine.attempts(job_id)] == ["lost"] * 3


def test_the_crash_limit_can_be_set(engine):
    job_id = engine.enqueue(max_attempts=10)
    engine.claim_one(lease=30)
    engine.advance(HOUR)
    assert engine.rescue(crash_limit=1) == {job_id: "exhaust"}


def test_a_job_lost_in_its_last_attempt_is_a_dead_letter(engine):
    job_id = engine.enqueue(max_attempts=1, payload=LARGE)
    engine.claim_one(lease=30)
    engine.advance(HOUR)
    assert engine.rescue() == {job_id: "exhaust"}
    ended = engine.job(job_id)
    assert (ended.status, ended.attempt_count, ended.payload) == ("dead_letter", 1, LARGE)
    assert ended.error["type"] == "WorkerLost"


@pytest.mark.parametrize("max_attempts", [1, 2, 5])
def test_attempts_never_pass_their_limit_however_they_end(engine, max_attempts):
    engine.enqueue(max_attempts=max_attempts)
    clock, ways = 0, ["retry", "rescue", "release", "snooze", "expire"]
    for turn in range(100):
        found = engine.claim(lease=30)
        if not found:
            break
        [job] = found
        assert job.attempt_count <= max_attempts
        way = ways[turn % 5]
        if way in {"expire", "rescue"}:
            clock += HOUR
            engine.advance(clock)
            engine.rescue(crash_limit=100)
        else:
            engine.settle(job, way, "x", 0.0)
    assert engine.value("select status from posthouse.history") == "dead_letter"
    assert engine.value("select attempt_count from posthouse.history") == max_attempts


def test_every_claim_is_accounted_for(engine):
    job_id = engine.enqueue(max_attempts=3)
    claims = []
    for way in ("snooze", "retry", "release", "retry"):
        job = engine.claim_one()
        claims.append(job.token)
        engine.settle(job, way, way, 0.0)
    last = engine.claim_one()
    engine.succeed(last)
    assert [attempt.outcome for attempt in engine.attempts(job_id)] == [
        "snooze", "retry", "release", "retry", "succeeded",
    ]  # fmt: skip
    kept = engine.rows(
        "select token from posthouse.past_attempts union all select token from posthouse.history"
    )
    assert {row.token for row in kept} == {*claims, last.token}


def test_two_rescuers_at_once_take_each_job_once(engine):
    engine.enqueue_many(*({"kind": "task"} for _ in range(200)))
    engine.claim(200, lease=30)
    engine.advance(HOUR)

    def rescue():
        found = []
        with engine.new_connection() as other:
            while taken := other.rescue(limit=17):
                found += taken
        return found

    found = [job_id for ids in run_concurrently(*[rescue] * 3) for job_id in ids]
    assert len(found) == len(set(found)) == 200
    assert engine.value("select max(crashes) from posthouse.ready") == 1
    assert engine.count("running") == 0


def test_a_rescue_passes_over_a_job_that_is_being_finished(engine):
    engine.enqueue()
    job = engine.claim_one(lease=30)
    engine.advance(HOUR)
    with engine.new_connection(autocommit=False) as finisher:
        assert finisher.succeed(job) == []
        assert engine.rescue() == {}
        finisher.commit()
    assert engine.rescue() == {}
    assert engine.status(job.id) == "succeeded"


# Workers that die: their liveness lock is free at once, so the rescue need not wait for the lease.


@pytest.fixture
def worker(engine):
    """A worker with a job and a liveness lock, on a connection of its own."""
    with engine.new_connection() as other:
        other.register()
        other.value("select posthouse.take_liveness_lock(%s)", other.worker)
        other.enqueue()
        other.job_held = other.claim_one(lease=HOUR)
        yield other


def die(worker, engine):
    """Its process is gone, and Postgres has noticed."""
    worker.connection.close()
    eventually_sync(lambda: not engine.rows(
        "select from pg_locks where locktype = 'advisory' and classid = 7701 "
        "and database = (select oid from pg_database where datname = current_database())"
    ))  # fmt: skip


def test_a_live_worker_is_not_declared_dead(engine, worker):
    for clock in (0, 10, 20):
        engine.advance(clock)
        assert engine.mark_lost_workers(patience=1) == []


def test_a_dead_worker_is_marked_on_the_second_check_and_its_jobs_are_rescued(engine, worker):
    other = uuid4()
    engine.register(other)
    engine.enqueue()
    [kept] = engine.claim(worker=other, lease=HOUR)
    die(worker, engine)
    assert engine.mark_lost_workers(patience=1) == []
    engine.advance(2)
    assert engine.mark_lost_workers(patience=1) == [worker.worker]
    assert engine.rescue([worker.worker]) == {worker.job_held.id: "rescue"}
    assert engine.status(kept.id) == "running"
    assert engine.mark_lost_workers(patience=0) == []


def test_a_worker_that_restores_its_lock_in_time_is_not_declared_dead(engine, worker):
    die(worker, engine)
    engine.mark_lost_workers(patience=1)
    with engine.new_connection() as back:
        back.value("select posthouse.take_liveness_lock(%s)", worker.worker)
        engine.advance(60)
        assert engine.mark_lost_workers(patience=1) == []
        assert engine.mark_lost_workers(patience=1) == []


def test_a_worker_that_beats_between_two_looks_starts_anew(engine, worker):
    die(worker, engine)
    engine.mark_lost_workers(patience=1)
    engine.heartbeat(worker.job_held, worker=worker.worker)
    engine.advance(60)
    assert engine.mark_lost_workers(patience=1) == []


def test_a_worker_that_beats_after_its_burial_keeps_its_jobs(engine, worker):
    """Its lock was lost for long, but it renews: a renewed lease is not given away."""
    die(worker, engine)
    engine.mark_lost_workers(patience=0)
    engine.advance(2)
    dead = engine.mark_lost_workers(patience=0)
    assert dead == [worker.worker]
    assert engine.heartbeat(worker.job_held, worker=worker.worker, lease=HOUR) == {}
    assert engine.rescue() == {}
    assert engine.succeed(worker.job_held) == []


def test_no_worker_is_declared_dead_during_the_grace_after_a_postgres_restart(engine, worker):
    die(worker, engine)
    for clock in (0, 60):
        engine.advance(clock)
        assert engine.mark_lost_workers(patience=1, grace=10**9) == []


def test_a_worker_that_signed_off_is_not_dead(engine, worker):
    engine.connection.execute("select posthouse.sign_off(%s)", (worker.worker,))
    die(worker, engine)
    for clock in (0, 60):
        engine.advance(clock)
        assert engine.mark_lost_workers(patience=1) == []


def test_a_worker_without_a_lock_is_only_judged_by_its_leases(engine):
    """Behind a pooler no session is its own, so there is no lock to look at."""
    engine.register()
    for clock in (0, 60):
        engine.advance(clock)
        assert engine.mark_lost_workers(patience=1) == []


def test_the_next_keeper_rescues_the_jobs_of_a_worker_that_was_already_marked_dead(engine, worker):
    die(worker, engine)
    engine.mark_lost_workers(patience=0)
    engine.advance(2)
    engine.mark_lost_workers(patience=0)
    with engine.new_connection() as next_keeper:
        assert next_keeper.rescue() == {worker.job_held.id: "rescue"}


def test_jobs_that_a_worker_left_behind_when_it_signed_off_go_on_at_once(engine):
    worker = engine.register()
    job = engine.start()
    engine.value("select posthouse.sign_off(%s)", worker)
    assert engine.rescue() == {job.id: "rescue"}


def test_a_late_beat_does_not_start_a_worker_again_that_has_signed_off(engine):
    """A worker that is told to stop while its first beat is under way signs off before that beat arrives."""
    worker = engine.register()
    engine.value("select posthouse.sign_off(%s)", worker)
    engine.heartbeat(worker=worker)
    assert engine.value("select stopped_at is not null from posthouse.workers where id = %s", worker)
    engine.connection.execute(
        "update posthouse.workers set lost_at = posthouse.now() where id = %s", (worker,)
    )
    engine.heartbeat(worker=worker)
    assert engine.value("select stopped_at is null from posthouse.workers where id = %s", worker), (
        "it was lost"
    )

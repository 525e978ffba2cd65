"""Claim: in what order, by whom, and what a worker remembers."""

from collections import Counter
from datetime import timedelta
from uuid import uuid4

import pytest

from support.engine import HOUR, run_concurrently

pytestmark = pytest.mark.on_stock_server


def test_a_claim_takes_the_oldest_of_the_most_urgent_jobs_of_any_kind(engine):
    jobs = [("b", 100), ("a", 100), ("a", 10), ("b", 200), ("b", 10), ("a", 100)]
    ids = [engine.enqueue(kind, priority=priority) for kind, priority in jobs]
    expected = [ids[n] for n in (2, 4, 0, 1, 5, 3)]
    assert engine.run_all(kinds=["a", "b"]) == expected


def test_a_large_claim_takes_the_front_of_the_line(engine):
    ids = [
        engine.enqueue(kind, priority=priority) for priority in (10, 50) for kind in "abc" for _ in range(4)
    ]
    taken = engine.claim(14, kinds=["a", "b", "c"])
    assert {job.id for job in taken} == set(ids[:14])


def test_the_lowest_and_highest_possible_priorities_keep_their_order(engine):
    priorities = (2**31 - 1, -(2**31), 100, -1, 2**31 - 2)
    jobs = {priority: engine.enqueue(priority=priority) for priority in priorities}
    assert engine.run_all() == [jobs[priority] for priority in sorted(priorities)]


def test_a_lane_that_two_transactions_opened_at_once_counts_once(engine):
    with engine.new_connection(autocommit=False) as other:
        other.enqueue(tenant_id="first")
        engine.enqueue(tenant_id="first")
        other.connection.commit()
    assert engine.count("lanes") == 2
    served = {f"t{n}": 1.0 for n in range(31)}
    engine.enqueue_many(*[{"kind": "task", "tenant_id": tenant} for tenant in served] * 2)
    assert len(engine.claim(64, tenant_usage=served)) == 64


def test_a_claim_leaves_kinds_queues_it_does_not_serve(engine):
    engine.enqueue("other")
    engine.enqueue("task", queue="elsewhere")
    assert engine.claim(10) == []


def test_a_claim_starts_the_lease_and_counts_the_attempt(engine):
    job_id = engine.enqueue()
    token, worker = uuid4(), uuid4()
    [job] = engine.claim(token=token, worker=worker, lease=30)
    assert (job.id, job.token, job.worker_id, job.attempt_count) == (job_id, token, worker, 1)
    assert job.lease_expires_at - job.attempt_started_at == timedelta(seconds=30)
    shown = engine.job(job_id)
    assert (shown.status, shown.started_at, shown.worker_id) == ("running", job.attempt_started_at, worker)
    assert shown.started_at >= shown.scheduled_for


def test_the_first_start_stays_the_start_of_the_job(engine):
    first = engine.start()
    engine.retry(first)
    second = engine.claim_one()
    assert second.started_at == first.started_at
    assert second.attempt_started_at > first.attempt_started_at
    assert (second.attempt_count, second.last_error) == (2, "ValueError: again")


def test_a_claim_whose_answer_was_lost_can_be_asked_for(engine):
    ids = {engine.enqueue() for _ in range(3)}
    token = uuid4()
    engine.claim(2, token=token)
    asked = engine.rows("select * from posthouse.claimed(%s)", token)
    assert len(asked) == 2
    assert {job.id for job in asked} < ids
    assert engine.rows("select * from posthouse.claimed(%s)", uuid4()) == []


def test_claims_at_once_never_share_a_job(engine):
    engine.enqueue_many(*({"kind": "task", "priority": n % 5} for n in range(600)))

    def take():
        taken = []
        with engine.new_connection() as other:
            while jobs := other.claim(7):
                taken += [(job.id, job.token) for job in jobs]
        return taken

    taken = [job for jobs in run_concurrently(*[take] * 4) for job in jobs]
    assert len(taken) == 600
    assert Counter(job_id for job_id, _ in taken).most_common(1)[0][1] == 1
    assert engine.count("running") == 600
    assert engine.count("ready") == 0


def test_a_job_that_another_session_is_taking_is_passed_over(engine):
    engine.enqueue()
    with engine.new_connection(autocommit=False) as other:
        assert len(other.claim()) == 1
        assert engine.claim() == []
        other.connection.rollback()
    assert len(engine.claim()) == 1


def test_a_claim_looks_only_behind_its_marks_and_sees_the_rest_without_them(engine):
    late = engine.new_connection(autocommit=False)
    with late as other:
        hidden = other.enqueue()
        first = engine.enqueue()
        job = engine.claim_one()
        assert job.id == first
        other.commit()
    lane_cursors = {job.lane: job.position}
    assert engine.claim(lane_cursors=lane_cursors) == []
    second = engine.enqueue()
    assert engine.claim_one(lane_cursors=lane_cursors).id == second
    assert engine.claim_one().id == hidden


def test_marks_of_one_lane_do_not_hide_another(engine):
    first = engine.start("a")
    engine.enqueue("b")
    assert len(engine.claim(kinds=["a", "b"], lane_cursors={first.lane: 10**9})) == 1


def crash(engine, jobs, clock=HOUR):
    """Their worker dies with them."""
    engine.advance(clock)
    assert engine.rescue() == {job.id: "rescue" for job in jobs}


@pytest.fixture
def suspects(engine):
    """Three jobs that two workers died with."""
    ids = {engine.enqueue(max_attempts=9) for _ in range(3)}
    crash(engine, engine.claim(3, lease=1), HOUR)
    crash(engine, engine.claim(3, lease=1), 2 * HOUR)
    return ids


def test_jobs_lost_once_with_their_worker_come_back_all_together(engine):
    for _ in range(3):
        engine.enqueue()
    lost = engine.claim(3, lease=1)
    crash(engine, lost)
    engine.enqueue()
    assert {job.id for job in engine.claim(3)} == {job.id for job in lost}


def test_a_worker_takes_one_suspect_at_a_time_and_first(engine, suspects):
    others = {engine.enqueue() for _ in range(4)}
    taken = engine.claim(3)
    assert len({job.id for job in taken} & suspects) == 1
    assert len({job.id for job in taken} & others) == 2
    assert engine.claim_one().id in suspects


def test_a_worker_with_a_suspect_takes_no_other(engine, suspects):
    other = engine.enqueue()
    assert [job.id for job in engine.claim(10, allow_suspect=False)] == [other]


def test_suspects_do_not_overtake_more_urgent_jobs(engine, suspects):
    urgent = engine.enqueue(priority=10)
    assert engine.claim_one().id == urgent


def test_suspects_then_released_then_the_others(engine):
    fresh = engine.start("fresh")
    released = engine.start("released")
    suspect = engine.start("suspect", max_attempts=9)
    for _ in range(2):
        engine.settle(suspect, "rescue", "lost", 0.0)
        suspect = engine.claim_one(kinds=["suspect"])
    engine.settle(fresh, "snooze", "snoozed", 0.0)
    engine.settle(released, "release", "released", 0.0)
    engine.settle(suspect, "retry", "failed", 0.0)
    assert engine.run_all(kinds=["fresh", "released", "suspect"]) == [suspect.id, released.id, fresh.id]


def test_a_retry_goes_to_the_end_of_the_line(engine):
    first, second = engine.enqueue(), engine.enqueue()
    engine.retry(engine.claim_one(), delay=0.0)
    assert engine.run_all() == [second, first]


def test_one_busy_tenant_does_not_hide_another_of_equal_priority(engine):
    engine.enqueue_many(*({"kind": "task", "tenant_id": "busy"} for _ in range(50)))
    quiet = engine.enqueue(tenant_id="quiet")
    assert quiet in [job.id for job in engine.claim(51)]


def test_a_job_never_starts_before_it_is_due(engine):
    job_id = engine.enqueue(delay=HOUR)
    assert engine.promote() == 0
    assert engine.claim() == []
    engine.advance(HOUR + 1)
    assert engine.promote() == 1
    job = engine.claim_one()
    assert job.id == job_id
    assert job.started_at >= job.scheduled_for


def test_promotion_takes_the_longest_due_first_and_at_most_its_limit(engine):
    ids = [engine.enqueue(delay=delay) for delay in (30, 10, 20)]
    engine.advance(60)
    assert engine.promote(2) == 2
    assert engine.run_all() == [ids[1], ids[2]]
    assert engine.promote() == 1


def test_two_promoters_at_once_move_each_job_once(engine):
    engine.enqueue_many(*({"kind": "task", "delay": 1} for _ in range(300)))
    engine.advance(60)

    def promote():
        moved = 0
        with engine.new_connection() as other:
            while n := other.promote(20):
                moved += n
        return moved

    assert sum(run_concurrently(*[promote] * 3)) == 300
    assert (engine.count("ready"), engine.count("waiting")) == (300, 0)


def test_a_claim_for_a_batch_takes_nothing_if_the_batch_is_not_full(engine):
    ids = {engine.enqueue(tenant=tenant) for tenant in ("a", "b", "b")}
    assert engine.claim(4, min_jobs=4) == []
    assert {job.id for job in engine.claim(4, min_jobs=3)} == ids


def test_a_batch_can_be_filled_from_one_of_many_lanes(engine):
    for tenant, jobs in [("busy", 15), *((f"tenant {n}", 1) for n in range(5))]:
        for _ in range(jobs):
            engine.enqueue(tenant=tenant)
    assert len(engine.claim(20, min_jobs=20)) == 20


def test_a_claim_for_a_batch_takes_nothing_if_a_limit_allows_only_part_of_it(engine):
    engine.limit(max_running=3)
    for _ in range(5):
        engine.enqueue()
    assert engine.claim(4, min_jobs=4) == []
    assert len(engine.claim(4, min_jobs=1)) == 3


def test_ready_batches_counts_the_jobs_of_each_kind_up_to_its_batch_size(engine):
    ask = "select * from posthouse.ready_batches(%s, '{default,mail}', '{a,b,c}', '{3,3,3}') order by kind"
    for kind, queue in (("a", "default"), ("a", "mail"), ("b", "default"), ("b", "elsewhere"), ("d", "mail")):
        engine.enqueue(kind, queue=queue)
    assert [(row.kind, row.jobs) for row in engine.rows(ask, engine.worker)] == [("a", 2), ("b", 1)]
    for _ in range(4):
        engine.enqueue("a")
    newest = engine.value("select max(position) from posthouse.ready")
    assert engine.rows(ask, engine.worker)[0] == ("a", 3, newest)

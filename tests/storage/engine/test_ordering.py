"""Ordered lines: first in, first out, one at a time for each key."""

from collections import defaultdict
from functools import partial
from uuid import uuid4

import pytest

from support.engine import HOUR, has_lock_waiter, run_concurrently
from support.waiting import eventually_sync


def line(engine, n, key="k", **fields):
    return [engine.enqueue(order_key=key, **fields) for _ in range(n)]


def test_a_line_runs_in_order_and_one_at_a_time(engine):
    ids = line(engine, 5)
    for job_id in ids:
        [job] = engine.claim(10)
        assert job.id == job_id
        engine.succeed(job)


def test_lines_do_not_wait_for_each_other(engine):
    heads = [line(engine, 2, key)[0] for key in ("a", "b")]
    other_tenant = line(engine, 2, "a", tenant_id="acme")[0]
    assert {job.id for job in engine.claim(10)} == {*heads, other_tenant}


@pytest.mark.parametrize("event", ["retry", "snooze", "release", "rescue"])
def test_an_ordered_group_waits_while_its_head_is_retried(engine, event):
    ids = line(engine, 3)
    job = engine.claim_one()
    engine.settle(job, event, "x", 60.0)
    assert engine.claim(10) == []
    engine.advance(HOUR)
    engine.promote()
    assert engine.run_all() == ids


@pytest.mark.parametrize("event", ["fail", "exhaust", "cancel"])
def test_a_line_goes_on_when_its_head_ends_badly(engine, event):
    ids = line(engine, 3)
    engine.settle(engine.claim_one(), event)
    assert engine.run_all() == ids[1:]


def test_a_line_closes_up_when_a_job_in_it_is_canceled(engine):
    ids = line(engine, 4)
    engine.cancel(ids[1])
    [head] = engine.claim(10)
    assert head.id == ids[0]
    engine.succeed(head)
    assert engine.run_all() == ids[2:]


def test_a_line_that_was_canceled_in_the_middle_still_waits_for_its_head(engine):
    ids = line(engine, 3)
    engine.cancel(ids[1])
    assert [job.id for job in engine.claim(10)] == [ids[0]]


def test_a_new_ordered_job_waits_for_the_predecessors_of_a_canceled_job(engine):
    head, second, third = line(engine, 3)
    engine.cancel(third)
    engine.cancel(second)
    newcomer = engine.enqueue(order_key="k")
    assert [job.id for job in engine.claim(10)] == [head]
    engine.succeed(*engine.rows("select * from posthouse.running"))
    assert engine.run_all() == [newcomer]
    assert engine.count("job_dependencies") == 0


def test_a_new_ordered_job_waits_for_the_head_after_its_predecessor_is_canceled(engine):
    """Neither transaction sees the other: the keeper repairs the group, and the order is kept."""
    head, second = line(engine, 2)
    with engine.new_connection(autocommit=False) as caller:
        newcomer = caller.enqueue(order_key="k")
        engine.connection.execute("set lock_timeout = '2s'")
        assert engine.cancel(second) == "canceled"
        caller.commit()
    engine.value("select posthouse.recheck_dependencies()::text")
    assert [job.id for job in engine.claim(10)] == [head]
    engine.succeed(*engine.rows("select * from posthouse.running"))
    assert engine.run_all() == [newcomer]


def test_a_canceled_job_that_is_reopened_does_not_wait_for_those_that_wait_for_it(engine):
    head, second = line(engine, 2)
    with engine.new_connection(autocommit=False) as caller:
        newcomer = caller.enqueue(order_key="k")
        engine.cancel(second)
        caller.commit()
    assert engine.reopen(second) == "queued"
    assert engine.run_all() == [head, newcomer, second]
    assert engine.count("job_dependencies") == 0


def test_a_canceled_ordered_job_does_not_change_the_order(engine):
    """Its dependency had failed before: it never waits, but others stand behind it."""
    failed = engine.start("part")
    engine.fail(failed)
    [head] = line(engine, 1)
    canceled, newcomer = uuid4(), uuid4()
    engine.enqueue_many(
        {"kind": "task", "id": canceled, "order_key": "k", "depends_on": [failed.id]},
        {"kind": "task", "id": newcomer, "order_key": "k"},
    )
    assert engine.status(canceled) == "canceled"
    assert [job.id for job in engine.claim(10)] == [head]
    engine.succeed(*engine.rows("select * from posthouse.running"))
    assert engine.run_all() == [newcomer]


def test_the_last_of_a_line_that_was_canceled_and_reopened_stays_behind_the_head(engine):
    head, last = line(engine, 2)
    engine.cancel(last)
    assert engine.reopen(last) == "queued"
    assert [job.id for job in engine.claim(10)] == [head]
    engine.succeed(*engine.rows("select * from posthouse.running"))
    assert engine.run_all() == [last]
    assert engine.count("job_dependencies") == 0


def test_a_line_that_has_run_empty_starts_anew(engine):
    engine.succeed(*[engine.start(order_key="k")])
    second, third = line(engine, 2)
    assert engine.run_all() == [second, third]


def test_a_delayed_head_holds_its_line(engine):
    ids = [engine.enqueue(order_key="k", delay=60), *line(engine, 1)]
    assert engine.claim(10) == []
    engine.advance(HOUR)
    engine.promote()
    assert engine.run_all() == ids


def test_jobs_of_one_call_keep_their_order_in_the_line(engine):
    jobs = [
        {"kind": "task", "id": uuid4(), "order_key": "k", "dedupe_key": "z"},
        {"kind": "task", "id": uuid4(), "order_key": "k", "dedupe_key": "a"},
        {"kind": "task", "id": uuid4(), "order_key": "k"},
        {"kind": "task", "id": uuid4(), "order_key": "k", "delay": 0.001},
    ]
    engine.enqueue_many(*jobs)
    engine.advance(1)
    assert engine.run_all() == [job["id"] for job in jobs]


def test_jobs_of_one_call_keep_their_order_even_if_one_depends_on_another_job(engine):
    part = engine.enqueue("part")
    first, second = uuid4(), uuid4()
    engine.enqueue_many(
        {"kind": "task", "id": first, "order_key": "k", "depends_on": [part]},
        {"kind": "task", "id": second, "order_key": "k"},
    )
    assert engine.claim(10) == []
    engine.succeed(engine.claim_one(kinds=["part"]))
    assert engine.run_all() == [first, second]


def test_a_repeated_enqueue_does_not_join_the_line_again(engine):
    first = uuid4()
    again = {"kind": "task", "id": first, "verify": True, "order_key": "k"}
    engine.enqueue_many(again)
    second = engine.enqueue(order_key="k")
    assert engine.enqueue_many(again) == [(first, "repeated")]
    third = engine.enqueue(order_key="k")
    assert engine.run_all() == [first, second, third]


def test_a_repeat_while_the_first_try_is_uncommitted_does_not_join_the_line_again(engine):
    first = uuid4()
    again = {"kind": "task", "id": first, "verify": True, "order_key": "k"}
    with engine.new_connection(autocommit=False) as caller, engine.new_connection() as repeater:
        caller.enqueue_many(again)
        second = caller.enqueue(order_key="k")
        answers = run_concurrently(
            lambda: repeater.enqueue_many(again),
            lambda: (eventually_sync(lambda: has_lock_waiter(engine)), caller.commit()),
        )
    assert answers[0] == [(first, "repeated")]
    third = engine.enqueue(order_key="k")
    assert engine.run_all() == [first, second, third]
    assert engine.count("job_dependencies") == 0


def test_a_reopened_job_goes_to_the_end_of_its_line(engine):
    first, second = line(engine, 2)
    engine.fail(engine.claim_one())
    assert engine.reopen(first) == "queued"
    third = engine.enqueue(order_key="k")
    assert [job.id for job in engine.claim(10)] == [second]
    engine.succeed(*engine.rows("select * from posthouse.running"))
    assert engine.run_all() == [first, third]


def test_a_canceled_job_that_is_reopened_while_the_next_one_is_locked_stays_before_it(engine):
    """The edge of the next job cannot be moved, so the end of the group would be behind the job itself."""
    head, second, third, fourth = line(engine, 4)
    with engine.new_connection(autocommit=False) as busy:
        busy.rows("select from posthouse.waiting where id = %s for update", third)
        assert engine.cancel(second) == "canceled"
        assert engine.reopen(second) == "queued"
    last = engine.enqueue(order_key="k")
    assert engine.run_all() == [head, second, third, fourth, last]
    assert engine.count("job_dependencies") == 0


def test_jobs_of_a_group_that_was_reopened_while_locked_can_be_canceled(engine):
    head, second, third = line(engine, 3)
    with engine.new_connection(autocommit=False) as busy:
        busy.rows("select from posthouse.waiting where id = %s for update", third)
        engine.cancel(second)
        engine.reopen(second)
    engine.connection.execute("set statement_timeout = '20s'")
    assert [engine.cancel(job_id) for job_id in (second, third)] == ["canceled", "canceled"]
    assert engine.run_all() == [head]
    assert engine.count("job_dependencies") == 0


def test_a_reopened_job_stays_before_jobs_of_its_group_that_depend_on_it(engine):
    first = engine.enqueue(order_key="k")
    second = engine.enqueue(order_key="k", depends_on=[first], on_dependency_failure="wait")
    third = engine.enqueue(order_key="k")
    engine.fail(engine.claim_one())
    assert engine.reopen(first) == "queued"
    assert engine.run_all() == [first, second, third]
    assert engine.count("job_dependencies") == 0


def enqueue_in_turns(engine, caller):
    with engine.new_connection() as other:
        for n in range(25):
            other.enqueue(order_key=f"line {n % 2}", payload={"caller": caller, "n": n}, max_attempts=9)


def work_badly(engine, ran, turn):
    """Every fifth job crashes, every fifth is retried; the others are noted in the order they ran."""
    with engine.new_connection() as other:
        while len(ran) < 100:
            other.value("select posthouse.recheck_dependencies()::text")
            other.promote()
            for job in other.claim(3):
                turn += 1
                if turn % 5 == 0:
                    other.settle(job, "rescue", "lost", 0.0)
                elif turn % 5 == 1:
                    other.retry(job)
                else:
                    ran.append((job.order_key, job.payload["caller"], job.payload["n"]))
                    other.succeed(job)


def watch(engine, ran):
    with engine.new_connection() as other:
        while len(ran) < 100:
            assert not other.rows(
                "select order_key from posthouse.running group by order_key having count(*) > 1"
            )


def test_enqueuers_at_once_make_one_line_and_it_never_runs_twice_at_once(engine):
    """Each caller's jobs run in its order, and at no time do two of one line run, through crash and retry."""
    ran = []
    run_concurrently(
        *[partial(enqueue_in_turns, engine, caller) for caller in range(4)],
        *[partial(work_badly, engine, ran, turn) for turn in (0, 3)],
        partial(watch, engine, ran),
    )
    seen = defaultdict(list)
    for key, caller, n in ran:
        seen[key, caller].append(n)
    assert all(numbers == sorted(numbers) for numbers in seen.values()), seen

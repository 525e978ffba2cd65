"""Dedupe keys: at most one active job for each."""

from functools import partial
from uuid import uuid4

import pytest

from support.engine import HOUR, run_concurrently

DAY = 24 * HOUR


def again(engine, **fields):
    [(job_id, outcome)] = engine.enqueue_many({"kind": "task", "dedupe_key": "k", **fields})
    return job_id, outcome


ACTIVE = {
    "ready": lambda engine: engine.enqueue(dedupe_key="k"),
    "waiting": lambda engine: engine.enqueue(dedupe_key="k", delay=60),
    "running": lambda engine: engine.start(dedupe_key="k").id,
}


@pytest.mark.parametrize("where", ACTIVE)
def test_an_active_job_stands_for_another_with_its_key(engine, where):
    holder = ACTIVE[where](engine)
    assert again(engine) == (holder, "existing")
    assert engine.count("jobs") == 1


@pytest.mark.parametrize("where", ACTIVE)
def test_a_second_job_with_the_key_may_be_rejected(engine, where):
    holder = ACTIVE[where](engine)
    assert again(engine, on_duplicate="reject") == (holder, "rejected")
    assert engine.count("jobs") == 1


@pytest.mark.parametrize("where", ["ready", "waiting"])
def test_a_queued_job_may_be_replaced(engine, where):
    old = ACTIVE[where](engine)
    new, outcome = again(engine, on_duplicate="replace", payload={"new": True})
    assert (outcome, new != old) == ("created", True)
    assert (engine.status(old), engine.job(old).error["type"]) == ("canceled", "Replaced")
    assert again(engine) == (new, "existing")
    assert [job.id for job in engine.claim(10)] == [new]


def test_a_running_job_is_not_replaced(engine):
    holder = ACTIVE["running"](engine)
    assert again(engine, on_duplicate="replace") == (holder, "existing")


def test_a_queued_job_with_a_window_may_be_replaced_too(engine):
    """Debouncing: of many requests in a window the last one runs."""
    old, _ = again(engine, dedupe_window=HOUR, on_duplicate="replace", delay=60)
    new, outcome = again(engine, dedupe_window=HOUR, on_duplicate="replace", delay=60)
    assert outcome == "created"
    assert (engine.status(old), engine.status(new)) == ("canceled", "queued")


ENDINGS = {
    "succeeded": lambda engine, job: engine.succeed(job),
    "failed": lambda engine, job: engine.fail(job),
    "dead_letter": lambda engine, job: engine.settle(job, "exhaust"),
    "canceled": lambda engine, job: engine.settle(job, "cancel"),
}


@pytest.mark.parametrize("status", ENDINGS)
def test_the_key_is_free_again_after_the_end(engine, status):
    first = engine.start(dedupe_key="k")
    ENDINGS[status](engine, first)
    assert engine.status(first.id) == status
    second, outcome = again(engine)
    assert (outcome, second != first.id) == ("created", True)


def test_the_key_is_free_again_after_a_cancel_while_queued(engine):
    engine.cancel(engine.enqueue(dedupe_key="k"))
    assert again(engine)[1] == "created"


@pytest.mark.parametrize("event", ["retry", "snooze", "release", "rescue"])
def test_the_key_stays_taken_while_the_job_goes_round_again(engine, event):
    job = engine.start(dedupe_key="k")
    engine.settle(job, event, "x", 60.0)
    assert again(engine) == (job.id, "existing")


def test_a_key_with_a_window_counts_after_the_end_until_the_window_is_over(engine):
    job = engine.start(dedupe_key="k", dedupe_window=HOUR)
    engine.succeed(job)
    assert again(engine) == (job.id, "existing")
    assert again(engine, on_duplicate="reject") == (job.id, "rejected")
    engine.advance(HOUR + 1)
    assert again(engine)[1] == "created"


def test_a_key_with_a_window_stays_taken_while_the_job_is_active_past_it(engine):
    job = engine.start(dedupe_key="k", dedupe_window=60)
    engine.advance(HOUR)
    assert again(engine) == (job.id, "existing")
    engine.succeed(job)
    assert again(engine)[1] == "created"


def test_a_result_may_be_reused_for_good(engine):
    job = engine.start(dedupe_key="k", on_duplicate="reuse")
    engine.succeed(job, result={"answer": 42})
    engine.advance(10 * DAY)
    holder, outcome = again(engine, on_duplicate="reuse")
    assert (holder, outcome) == (job.id, "existing")
    assert engine.job(holder).result == {"answer": 42}


def test_a_result_may_be_reused_for_a_while(engine):
    engine.succeed(engine.start(dedupe_key="k", on_duplicate="reuse", dedupe_window=HOUR))
    assert again(engine, on_duplicate="reuse")[1] == "existing"
    engine.advance(HOUR + 1)
    assert again(engine, on_duplicate="reuse")[1] == "created"


@pytest.mark.parametrize("status", ["failed", "dead_letter", "canceled"])
def test_a_job_without_success_has_no_result_to_reuse(engine, status):
    job = engine.start(dedupe_key="k", on_duplicate="reuse")
    ENDINGS[status](engine, job)
    assert again(engine, on_duplicate="reuse")[1] == "created"


def test_equal_content_is_a_key_of_its_own(engine):
    first = engine.enqueue(payload={"a": 1, "b": 2}, dedupe_content=True)
    answers = engine.enqueue_many(
        {"kind": "task", "payload": {"b": 2, "a": 1}, "dedupe_content": True},
        {"kind": "task", "payload": {"a": 1, "b": 3}, "dedupe_content": True},
        {"kind": "other", "payload": {"a": 1, "b": 2}, "dedupe_content": True},
    )
    assert [outcome for _, outcome in answers] == ["existing", "created", "created"]
    assert answers[0][0] == first


def test_equal_content_may_reuse_the_result(engine):
    job = engine.start(payload={"a": 1}, dedupe_content=True, on_duplicate="reuse")
    engine.succeed(job, result=7)
    [(holder, outcome)] = engine.enqueue_many(
        {"kind": "task", "payload": {"a": 1}, "dedupe_content": True, "on_duplicate": "reuse"}
    )
    assert (holder, outcome) == (job.id, "existing")


def test_tenants_do_not_share_keys(engine):
    engine.enqueue(dedupe_key="k", tenant_id="a")
    assert again(engine, tenant_id="b")[1] == "created"


@pytest.mark.parametrize("policy", ["existing", "reject", "replace", "reuse"])
def test_a_conflict_never_fails_its_batch_peers(engine, policy):
    engine.start(dedupe_key="taken")
    answers = engine.enqueue_many(
        {"kind": "task", "subject": "one"},
        {"kind": "task", "dedupe_key": "taken", "on_duplicate": policy},
        {"kind": "task", "dedupe_key": "free", "on_duplicate": policy},
        {"kind": "task", "delay": 60},
    )
    outcomes = [outcome for _, outcome in answers]
    assert outcomes == ["created", "rejected" if policy == "reject" else "existing", "created", "created"]
    assert engine.count("jobs") == 4


def test_one_key_twice_in_one_call_makes_one_job(engine):
    answers = engine.enqueue_many(*({"kind": "task", "dedupe_key": "k"} for _ in range(3)))
    assert [outcome for _, outcome in answers] == ["created", "existing", "existing"]
    assert len({job_id for job_id, _ in answers}) == 1


def test_enqueuers_of_one_key_at_once_make_one_job(engine):
    for n in range(10):

        def enqueue(n=n):
            with engine.new_connection() as other:
                return other.enqueue_many({"kind": "task", "dedupe_key": f"key {n}"})[0]

        answers = run_concurrently(*[enqueue] * 4)
        assert sorted(outcome for _, outcome in answers) == ["created", "existing", "existing", "existing"]
        assert len({job_id for job_id, _ in answers}) == 1


def test_enqueuers_of_the_same_keys_in_different_order_do_not_deadlock(engine):
    def enqueue(keys):
        with engine.new_connection() as other:
            for turn in range(15):
                other.enqueue_many(
                    *({"kind": "task", "dedupe_key": f"{turn} {key}", "order_key": f"{key}"} for key in keys)
                )

    keys = list(range(8))
    run_concurrently(lambda: enqueue(keys), lambda: enqueue(keys[::-1]), lambda: enqueue(keys[4:] + keys[:4]))
    assert engine.count("dedupe_keys") == 15 * 8


def test_keys_and_lines_together_do_not_deadlock(engine):
    """A caller with lines in one order and keys in the other, against one with both the other way round."""

    def enqueue(turn, pairs):
        with engine.new_connection() as other:
            other.enqueue_many(
                *({"kind": "task", "order_key": f"{turn} {a}", "dedupe_key": f"{turn} {b}"} for a, b in pairs)
            )

    callers = [
        [(i, 5 - i) for i in range(6)],
        [(5 - i, 5 - i) for i in range(6)],
        [(i, (i + 3) % 6) for i in range(6)],
    ]
    for turn in range(15):
        run_concurrently(*[partial(enqueue, turn, pairs) for pairs in callers])
    assert engine.count("dedupe_keys") == 15 * 6


def test_a_caller_that_meets_a_taken_key_does_not_hold_up_the_worker(engine):
    """An open transaction must not keep a job from being finished."""
    job = engine.start(dedupe_key="k")
    with engine.new_connection(autocommit=False) as caller:
        assert again(caller) == (job.id, "existing")
        engine.connection.execute("set lock_timeout = '2s'")
        assert engine.succeed(job) == []
        caller.commit()


def test_a_caller_waits_for_another_that_is_taking_the_key_and_then_sees_it(engine):
    with engine.new_connection(autocommit=False) as first, engine.new_connection() as second:
        holder = first.enqueue(dedupe_key="k")
        answers = run_concurrently(lambda: again(second), first.commit)
    assert answers[0] == (holder, "existing")


def test_a_key_whose_taker_rolled_back_is_free(engine):
    with engine.new_connection(autocommit=False) as first, engine.new_connection() as second:
        holder = first.enqueue(dedupe_key="k")
        answers = run_concurrently(lambda: again(second), first.connection.rollback)
    assert answers[0][0] != holder
    assert answers[0][1] == "created"


def test_a_repeat_of_a_known_id_with_a_key_is_a_repeat(engine):
    job = {"kind": "task", "id": uuid4(), "verify": True, "dedupe_key": "k", "on_duplicate": "reject"}
    assert engine.enqueue_many(job) == [(job["id"], "created")]
    assert engine.enqueue_many(job) == [(job["id"], "repeated")]
    engine.succeed(engine.claim_one())
    assert engine.enqueue_many(job) == [(job["id"], "repeated")]
    assert again(engine)[1] == "created"

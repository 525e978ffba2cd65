"""What people do to jobs: cancel, and run again what ended."""

from uuid import uuid4

import psycopg
import pytest

from posthouse.core.states import TRANSITIONS, Event, Status
from support.engine import run_concurrently

CANCELABLE = {move.source.value for move in TRANSITIONS if move.event is Event.CANCEL}
REOPENABLE = {move.source.value for move in TRANSITIONS if move.event is Event.REOPEN}


def job_in(engine, status, **fields):
    """The id of a job with this status."""
    if status == "queued":
        return engine.enqueue(**fields)
    job = engine.start(**fields)
    if status == "succeeded":
        engine.succeed(job, result=7)
    elif status != "running":
        event = {"failed": "fail", "dead_letter": "exhaust", "canceled": "cancel"}[status]
        engine.settle(job, event, "failed", error={"type": "E", "message": "m"})
    assert engine.status(job.id) == status
    return job.id


@pytest.mark.parametrize("status", [status.value for status in Status])
def test_cancel_is_legal_exactly_where_the_table_says(engine, status):
    job_id = job_in(engine, status)
    before = engine.dump_tables()
    answer = engine.cancel(job_id)
    if status in CANCELABLE:
        assert answer == {"queued": "canceled", "running": "canceling"}[status]
    else:
        assert answer == status
        assert engine.dump_tables() == before


@pytest.mark.parametrize("status", [status.value for status in Status])
def test_reopen_is_legal_exactly_where_the_table_says(engine, status):
    job_id = job_in(engine, status)
    before = engine.dump_tables()
    answer = engine.reopen(job_id)
    if status in REOPENABLE:
        assert answer == "queued"
        assert engine.status(job_id) == "queued"
    else:
        assert answer != "queued"
        assert status in answer
        assert engine.dump_tables() == before


def test_a_succeeded_job_never_changes(engine):
    job = engine.start()
    engine.succeed(job, result={"a": 1})
    before = engine.dump_tables()
    engine.cancel(job.id)
    engine.reopen(job.id)
    engine.succeed(job, result=2)
    engine.retry(job)
    engine.fail(job)
    engine.progress(job, 1.0)
    engine.heartbeat(job)
    engine.rescue([engine.worker])
    engine.enqueue_many({"kind": "task", "id": job.id, "verify": True})
    assert engine.dump_tables() == before


@pytest.mark.parametrize("options", [{}, {"delay": 60}, {"depends_on": True}])
def test_a_queued_job_that_is_canceled_never_starts(engine, options):
    if options.get("depends_on"):
        options = {"depends_on": [job_in(engine, "running")]}
    job_id = engine.enqueue("other", **options)
    assert engine.cancel(job_id) == "canceled"
    engine.advance(3600)
    engine.promote()
    assert engine.claim(10, kinds=["other"]) == []
    ended = engine.job(job_id)
    assert (ended.status, ended.started_at, ended.error["type"]) == ("canceled", None, "Canceled")
    assert engine.attempts(job_id) == []
    assert engine.count("job_dependencies") == 0


@pytest.mark.parametrize("event", ["succeed", "fail", "exhaust", "retry", "snooze", "release", "rescue"])
def test_a_running_job_with_a_requested_cancellation_ends_as_canceled_for_every_outcome(engine, event):
    job = engine.start()
    assert engine.cancel(job.id) == "canceling"
    assert engine.status(job.id) == "running"
    if event == "succeed":
        engine.succeed(job, result=1)
    else:
        engine.settle(job, event, "failed", 0.0)
    assert engine.status(job.id) == "canceled"
    assert engine.claim(10) == []
    assert engine.attempts(job.id)[-1].outcome == "canceled"


def test_cancel_asked_for_twice_is_the_same_as_once(engine):
    job = engine.start()
    engine.cancel(job.id)
    asked_at = engine.job(job.id).cancel_requested_at
    assert engine.cancel(job.id) == "canceling"
    assert engine.job(job.id).cancel_requested_at == asked_at


def test_cancel_tells_the_worker(engine):
    job = engine.start()
    with engine.new_connection() as listener:
        listener.connection.execute("listen posthouse_cancel")
        engine.cancel(job.id)
        [note] = listener.connection.notifies(timeout=60, stop_after=1)
    assert note.payload == str(engine.worker)


def test_a_cancel_and_a_claim_at_once_leave_one_of_them_the_job(engine):
    for _ in range(30):
        job_id = engine.enqueue()

        def cancel(job_id=job_id):
            with engine.new_connection() as other:
                return other.cancel(job_id)

        def claim():
            with engine.new_connection() as other:
                return other.claim()

        answer, claimed = run_concurrently(cancel, claim)
        if claimed:
            assert answer == "canceling"
            engine.succeed(claimed[0])
        else:
            assert answer == "canceled"
        assert engine.status(job_id) == "canceled"


@pytest.mark.parametrize("act", ["cancel", "reopen"])
def test_a_job_of_another_tenant_is_not_there(engine, act):
    job_id = job_in(engine, "failed" if act == "reopen" else "queued", tenant_id="acme")
    before = engine.dump_tables()
    assert getattr(engine, act)(job_id, tenant="other") is None
    assert getattr(engine, act)(uuid4()) is None
    assert engine.dump_tables() == before
    assert getattr(engine, act)(job_id, tenant="acme") in {"queued", "canceled"}


def test_a_reopened_job_keeps_its_id_payload_and_story(engine):
    job = engine.start(payload={"a": 1}, subject="s", correlation_id="c", max_attempts=2, priority=5)
    engine.retry(job, message="one")
    engine.settle(engine.claim_one(), "exhaust", "failed", error={"type": "E", "message": "two"})
    assert engine.reopen(job.id) == "queued"
    again = engine.job(job.id)
    assert (again.generation, again.attempt_count, again.payload, again.subject) == (2, 0, {"a": 1}, "s")
    assert (again.correlation_id, again.priority, again.queued_at) == ("c", 5, job.queued_at)
    assert (again.last_error, again.finished_at, again.error) == ("E: two", None, None)
    second = engine.claim_one()
    assert (second.attempt_count, second.max_attempts) == (1, 2)
    engine.succeed(second, result="at last")
    story = [(a.generation, a.attempt, a.outcome) for a in engine.attempts(job.id)]
    assert story == [(1, 1, "failed"), (1, 2, "failed"), (2, 1, "succeeded")]
    assert engine.status(job.id) == "succeeded"


def test_a_job_that_never_ran_can_be_reopened(engine):
    job_id = engine.enqueue()
    engine.cancel(job_id)
    assert engine.reopen(job_id) == "queued"
    assert engine.claim_one().id == job_id
    assert engine.attempts(job_id)[0].generation == 2


def test_a_late_report_of_an_earlier_generation_changes_nothing(engine):
    job = engine.start()
    engine.fail(job)
    engine.reopen(job.id)
    engine.claim_one()
    before = engine.dump_tables()
    engine.succeed(job)
    engine.fail(job)
    assert engine.dump_tables() == before


def test_two_people_reopen_at_once_and_one_generation_opens(engine):
    job_id = job_in(engine, "failed")

    def reopen():
        with engine.new_connection() as other:
            return other.reopen(job_id)

    assert sorted(run_concurrently(reopen, reopen, reopen)) == ["already queued", "already queued", "queued"]
    assert engine.job(job_id).generation == 2


def test_reopen_takes_its_dedupe_key_again(engine):
    job_id = job_in(engine, "failed", dedupe_key="k")
    engine.reopen(job_id)
    assert engine.enqueue_many({"kind": "task", "dedupe_key": "k"}) == [(job_id, "existing")]


def test_reopen_is_refused_while_another_job_has_its_key(engine):
    job_id = job_in(engine, "failed", dedupe_key="k")
    engine.enqueue(dedupe_key="k")
    before = engine.dump_tables()
    with pytest.raises(psycopg.Error) as caught:
        engine.reopen(job_id)
    assert caught.value.sqlstate == "PH001"
    assert engine.dump_tables() == before


def test_what_people_do_is_audited(engine):
    running, failed = engine.start(), engine.start()
    engine.cancel(running.id)
    engine.fail(failed)
    engine.reopen(failed.id)
    engine.cancel(failed.id)
    notes = engine.rows("select actor, action, target, before, after from posthouse.audit order by id")
    assert [(note.actor, note.action, note.target) for note in notes] == [
        ("tester", "job.cancel", str(running.id)),
        ("tester", "job.retry", str(failed.id)),
        ("tester", "job.cancel", str(failed.id)),
    ]
    assert notes[1].before == {"status": "failed", "generation": 1}
    assert notes[1].after == {"status": "queued", "generation": 2}


@pytest.mark.parametrize("act", ["cancel", "reopen"])
def test_what_is_refused_is_not_audited(engine, act):
    job_id = job_in(engine, "succeeded")
    getattr(engine, act)(job_id)
    assert engine.count("audit") == 0

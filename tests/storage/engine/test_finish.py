"""Finish: every way out of running, and what is recorded of it."""

import json

import psycopg
import pytest

from support.engine import HOUR

pytestmark = pytest.mark.on_stock_server

ERROR = {
    "type": "ValueError", "message": "broken", "traceback": "Traceback ...", "exit_code": 3, "pid": 77,
    "fingerprint": "0123456789abcdef",
}  # fmt: skip
OUTPUT = {"exit_code": 4, "pid": 78, "stdout": "out", "stderr": "err"}

ENDINGS = [("fail", "failed"), ("exhaust", "dead_letter"), ("cancel", "canceled")]
RETURNS = ["retry", "snooze", "release", "rescue"]


def test_success_is_history_with_its_result(engine):
    job = engine.start(payload={"a": 1})
    assert engine.succeed(job, result={"answer": 42}) == []
    ended = engine.job(job.id)
    assert (ended.status, ended.job_table, ended.result, ended.payload) == (
        "succeeded", "history", {"answer": 42}, {"a": 1},
    )  # fmt: skip
    assert ended.finished_at >= ended.started_at
    assert ended.error is None
    [attempt] = engine.attempts(job.id)
    assert (attempt.attempt, attempt.outcome, attempt.worker_id) == (1, "succeeded", engine.worker)
    assert engine.count("past_attempts") == 0


def test_a_batch_of_successes_lands_together(engine):
    for _ in range(20):
        engine.enqueue()
    jobs = engine.claim(20)
    assert engine.succeed(*jobs) == []
    assert engine.count("history") == 20
    assert engine.count("running") == 0


@pytest.mark.parametrize(("event", "status"), ENDINGS)
def test_an_ending_is_history_with_its_error(engine, event, status):
    job = engine.start()
    assert engine.settle(job, event, "failed", error=ERROR) == []
    ended = engine.job(job.id)
    assert (ended.status, ended.error, ended.last_error) == (status, ERROR, "ValueError: broken")
    [attempt] = engine.attempts(job.id)
    assert (attempt.error_type, attempt.error_message, attempt.traceback) == (
        "ValueError", "broken", "Traceback ...",
    )  # fmt: skip
    assert (attempt.exit_code, attempt.pid, attempt.stdout_tail) == (3, 77, None)
    assert attempt.outcome == ("canceled" if event == "cancel" else "failed")
    assert attempt.finished_at == ended.finished_at


def of_output(attempt):
    return attempt.exit_code, attempt.pid, attempt.stdout_tail, attempt.stderr_tail


@pytest.mark.parametrize("event", ["succeed", *(event for event, _ in ENDINGS), *RETURNS])
def test_the_output_of_a_command_is_kept_with_its_attempt_however_it_ends(engine, event):
    job = engine.start()
    if event == "succeed":
        engine.succeed(job, output=OUTPUT)
    else:
        engine.settle(job, event, "failed", error=ERROR, output=OUTPUT)
    [attempt] = engine.attempts(job.id)
    assert of_output(attempt) == (4, 78, "out", "err")


def test_a_retried_job_keeps_the_output_of_its_last_attempt(engine):
    job = engine.start()
    engine.settle(job, "fail", "failed", error=ERROR, output=OUTPUT)
    engine.value("select posthouse.reopen(%s)", job.id)
    [attempt] = engine.attempts(job.id)
    assert of_output(attempt) == (4, 78, "out", "err")


@pytest.mark.parametrize("event", RETURNS)
def test_a_return_is_queued_again_with_its_attempt_recorded(engine, event):
    job = engine.start(payload={"a": 1}, subject="s")
    assert engine.settle(job, event, "lost", 60.0, ERROR) == []
    queued = engine.job(job.id)
    assert (queued.status, queued.job_table, queued.payload, queued.subject) == (
        "queued", "waiting", {"a": 1}, "s",
    )  # fmt: skip
    assert (queued.last_error, queued.started_at) == ("ValueError: broken", job.started_at)
    assert 55 < engine.value("select posthouse.next_due()") <= 60
    [attempt] = engine.attempts(job.id)
    assert (attempt.attempt, attempt.outcome, attempt.error_type) == (1, "lost", "ValueError")
    assert (attempt.started_at, attempt.worker_id) == (job.attempt_started_at, engine.worker)


@pytest.mark.parametrize(
    ("event", "attempts", "crashes", "snoozes"),
    [("retry", 1, 0, 0), ("snooze", 0, 0, 1), ("release", 0, 0, 0), ("rescue", 1, 1, 0)],
)
def test_what_a_return_costs(engine, event, attempts, crashes, snoozes):
    job = engine.start()
    engine.settle(job, event, "x", 0.0)
    queued = engine.job(job.id)
    assert (queued.attempt_count, queued.crashes, queued.snoozes) == (attempts, crashes, snoozes)


@pytest.mark.parametrize("event", RETURNS)
def test_a_return_without_delay_can_be_claimed_at_once(engine, event):
    job = engine.start()
    engine.settle(job, event, "x", 0.0)
    again = engine.claim_one()
    assert again.id == job.id
    assert again.token != job.token


def test_every_attempt_is_kept_in_order(engine):
    job = engine.start(max_attempts=3)
    engine.retry(job, message="one")
    engine.retry(engine.claim_one(), message="two")
    running = engine.claim_one()
    seen = engine.attempts(job.id)
    assert [(a.attempt, a.outcome, a.error_message) for a in seen] == [
        (1, "failed", "one"), (2, "failed", "two"), (3, "running", None),
    ]  # fmt: skip
    engine.settle(running, "exhaust", "timeout", error={"type": "TimedOut", "message": "three"})
    seen = engine.attempts(job.id)
    assert [(a.attempt, a.outcome, a.error_message) for a in seen] == [
        (1, "failed", "one"), (2, "failed", "two"), (3, "timeout", "three"),
    ]  # fmt: skip
    assert all(a.finished_at is not None for a in seen)


def test_a_batch_may_hold_every_kind_of_outcome(engine):
    for _ in range(4):
        engine.enqueue()
    jobs = engine.claim(4)
    engine.connection.execute(
        "select posthouse.settle(%s, %s, %s, %s, %s, %s::text[]::jsonb[])",
        ([j.id for j in jobs], [j.token for j in jobs], ["fail", "retry", "exhaust", "snooze"],
         ["failed", "failed", "failed", "snoozed"], [None, 60.0, None, 60.0], [None] * 4),
    )  # fmt: skip
    assert [engine.status(job.id) for job in jobs] == ["failed", "queued", "dead_letter", "queued"]


def test_a_retry_past_the_last_attempt_is_a_dead_letter(engine):
    job = engine.start(max_attempts=1, payload={"a": 1})
    assert engine.retry(job) == []
    ended = engine.job(job.id)
    assert (ended.status, ended.attempt_count, ended.payload) == ("dead_letter", 1, {"a": 1})


@pytest.mark.parametrize("event", ["claim", "reopen", "explode", None])
def test_an_event_that_is_no_way_out_of_running_is_refused_and_loses_nothing(engine, event):
    job = engine.start()
    before = engine.dump_tables()
    with pytest.raises(psycopg.Error):
        engine.settle(job, event)
    assert engine.dump_tables() == before


# Fencing: a write needs the token of the current lease.


@pytest.fixture
def stale(engine):
    """A claim that was given away: the job was rescued, and another worker has it."""
    old = engine.start()
    engine.settle(old, "rescue", "lost", 0.0)
    fresh = engine.claim_one()
    assert fresh.id == old.id
    assert fresh.token != old.token
    return old._replace(token=engine.worker)  # a token that was never given out


WRITES = {
    "succeed": lambda engine, job: engine.succeed(job, result=1) == [job.id],
    "succeed_with": lambda engine, job: engine.succeed_with(job, [{"kind": "next"}]) == [job.id],
    "progress": lambda engine, job: engine.progress(job, 50.0, "step") is False,
    "heartbeat": lambda engine, job: engine.heartbeat(job) == {job.id: "lost"},
    **{
        f"settle {event}": lambda engine, job, event=event: (
            engine.settle(job, event, "x", 0.0, ERROR) == [job.id]
        )
        for event in [*RETURNS, *(event for event, _ in ENDINGS)]
    },
}


@pytest.mark.parametrize("write", WRITES)
def test_a_stale_token_changes_nothing_and_is_reported(engine, stale, write):
    before = engine.dump_tables()
    assert WRITES[write](engine, stale)
    assert engine.dump_tables() == before


@pytest.mark.parametrize("write", WRITES)
def test_the_token_of_a_finished_job_changes_nothing_and_is_reported(engine, write):
    job = engine.start()
    engine.succeed(job)
    before = engine.dump_tables()
    assert WRITES[write](engine, job._replace(token=engine.worker))
    assert engine.dump_tables() == before


@pytest.mark.parametrize("stale_first", [True, False])
def test_of_two_attempts_at_one_job_in_one_report_the_stale_one_is_lost(engine, stale, stale_first):
    [live] = engine.rows("select * from posthouse.running where id = %s", stale.id)
    both = [stale, live] if stale_first else [live, stale]
    assert engine.heartbeat(*both) == {stale.id: "lost"}
    assert engine.settle_many(both, "retry", delay=0.0) == [stale.id]
    again = engine.claim_one()
    both = [stale, again] if stale_first else [again, stale]
    followups = [json.dumps([{"kind": name}]) for name in ("first", "second")]
    lost = engine.value(
        "select posthouse.succeed_with(%s, %s, null, %s::text[]::jsonb[])",
        [job.id for job in both], [job.token for job in both], followups,
    )  # fmt: skip
    assert lost == [stale.id]
    assert engine.succeed(*both) == [stale.id], "also when the reply was lost and the report is repeated"
    assert engine.status(stale.id) == "succeeded"
    [followup] = engine.rows("select kind from posthouse.ready")
    assert followup.kind == ("second" if stale_first else "first")


def test_a_stale_report_does_not_keep_its_batch_from_landing(engine, stale):
    good = engine.start()
    assert engine.succeed(stale, good) == [stale.id]
    assert (engine.status(stale.id), engine.status(good.id)) == ("running", "succeeded")


def test_a_success_reported_again_with_its_token_lands_once(engine):
    job = engine.start()
    assert engine.succeed(job, result=1) == []
    before = engine.dump_tables()
    assert engine.succeed(job, result=2) == []
    assert engine.dump_tables() == before


@pytest.mark.parametrize("event", [*RETURNS, "fail", "exhaust", "cancel"])
def test_an_outcome_reported_again_with_its_token_lands_once(engine, event):
    job = engine.start()
    assert engine.settle(job, event, "x", 60.0, ERROR) == []
    before = engine.dump_tables()
    assert engine.settle(job, event, "x", 60.0, ERROR) == []
    assert engine.dump_tables() == before


def test_a_retry_reported_again_while_the_next_attempt_runs_leaves_it_alone(engine):
    job = engine.start()
    engine.retry(job)
    engine.claim_one()
    before = engine.dump_tables()
    assert engine.retry(job) == []
    assert engine.dump_tables() == before


def test_follow_ups_are_stored_with_the_success_and_once(engine):
    job = engine.start()
    assert engine.succeed_with(job, [{"kind": "next"}, {"kind": "next"}], result=1) == []
    assert engine.succeed_with(job, [{"kind": "next"}, {"kind": "next"}], result=1) == []
    assert engine.job(job.id).result == 1
    assert engine.value("select count(*) from posthouse.ready where kind = 'next'") == 2


def test_follow_ups_of_a_job_whose_cancellation_was_asked_for_are_not_stored(engine):
    job = engine.start()
    assert engine.cancel(job.id) == "canceling"
    engine.succeed_with(job, [{"kind": "next"}])
    assert engine.status(job.id) == "canceled"
    assert engine.value("select count(*) from posthouse.jobs where kind = 'next'") == 0


def test_a_follow_up_that_is_refused_keeps_the_success_from_landing(engine):
    job = engine.start()
    with pytest.raises(psycopg.Error):
        engine.succeed_with(job, [{"kind": "next", "max_attempts": -1}])
    assert engine.status(job.id) == "running"
    assert engine.count("ready") == 0


def complete(engine, job, followups=None):
    return engine.value("select posthouse.complete(%s, %s, '7', %s::jsonb)", job.id, job.token, followups)


def test_completion_within_a_transaction_of_the_handlers_lands_with_it_and_once(engine):
    job = engine.start()
    with engine.new_connection(autocommit=False) as handler:
        assert complete(handler, job, '[{"kind": "next"}]') == "succeeded"
        assert engine.status(job.id) == "running"
        handler.commit()
    assert (engine.job(job.id).status, engine.job(job.id).result) == ("succeeded", 7)
    assert complete(engine, job, '[{"kind": "next"}]') == "lost"  # or the handler's writes would come twice
    assert engine.value("select count(*) from posthouse.ready where kind = 'next'") == 1


def test_completion_within_a_transaction_is_refused_for_a_lost_or_canceled_job(engine, stale):
    canceled = engine.start()
    engine.cancel(canceled.id)
    before = engine.dump_tables()
    assert complete(engine, stale) == "lost"
    assert complete(engine, canceled) == "canceled"
    assert engine.dump_tables() == before


def test_progress_is_shown_and_extends_the_lease(engine):
    job = engine.start()
    assert engine.progress(job, 25.0, "reading", "row 5", lease=HOUR)
    assert engine.progress(job, message="row 6", lease=1)
    shown = engine.job(job.id)
    assert (shown.progress_percent, shown.current_step, shown.progress_message) == (25.0, "reading", "row 6")
    assert (shown.lease_expires_at - shown.attempt_started_at).total_seconds() >= HOUR


def test_a_heartbeat_renews_held_leases_and_reports_lost_ones(engine):
    held, lost, canceled = engine.start(), engine.start(), engine.start()
    engine.succeed(lost)
    engine.cancel(canceled.id)
    assert engine.heartbeat(held, lost, canceled, lease=HOUR) == {lost.id: "lost", canceled.id: "cancel"}
    assert (engine.job(held.id).lease_expires_at - held.lease_expires_at).total_seconds() > HOUR - 120


def test_a_beat_without_jobs_keeps_the_worker_alive(engine):
    engine.register()
    before = engine.value("select heartbeat_at from posthouse.workers")
    assert engine.heartbeat() == {}
    assert engine.value("select heartbeat_at from posthouse.workers") > before


def test_a_beat_does_not_wait_for_a_job_that_is_being_finished(engine):
    job, other = engine.start(), engine.start()
    with engine.new_connection(autocommit=False) as finisher:
        finisher.succeed(job)
        engine.connection.execute("set lock_timeout = '2s'")
        assert engine.heartbeat(job, other, lease=HOUR) == {job.id: "busy"}
        finisher.commit()
    assert engine.job(other.id).lease_expires_at > other.lease_expires_at
    assert engine.status(job.id) == "succeeded"

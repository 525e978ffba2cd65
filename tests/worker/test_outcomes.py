"""What a handler returns or raises, and what follows: retry, fail, snooze, cancel."""

import logging

import pytest

import posthouse
from posthouse import testing
from posthouse.errors import JobFailed
from support.workers import attempt_outcomes, job_row, job_status


class Broken(Exception):
    pass


class BrokenForGood(Broken):
    pass


async def test_a_ladder_is_climbed_and_then_the_job_is_a_dead_letter(app, db):
    @app.job(retry=posthouse.Retry("1m", "5m"))
    async def fall(job: posthouse.Job):
        raise Broken(f"attempt {job.attempt}")

    handle = await fall.enqueue()
    async with testing.clock(app) as clock:
        for pause in ("50s", "4m50s"):
            assert await testing.drain(app) == {}
            await clock.advance(pause)
            assert await testing.drain(app) == {}, "not before the rung has passed"
            await clock.advance("11s")
        assert await testing.drain(app) == {"dead_letter": 1}
    job = job_row(db, handle.id)
    assert job["attempt_count"] == job["max_attempts"] == 3
    assert job["error"]["message"] == "attempt 3"
    assert job["error"]["type"].endswith("test_outcomes.Broken")
    assert "raise Broken" in job["error"]["traceback"]
    assert attempt_outcomes(db, handle.id) == [(1, "failed"), (2, "failed"), (3, "failed")]


async def test_a_job_may_have_a_policy_of_its_own(app, db):
    @app.job(retry=posthouse.Retry("1h"))
    async def fall():
        raise Broken

    own = await fall.using(retry=posthouse.Retry("1m", "1m", "1m"), max_attempts=2).enqueue()
    usual = await fall.enqueue()
    async with testing.clock(app) as clock:
        assert await testing.drain(app) == {}
        await clock.advance("2m")
        assert await testing.drain(app) == {"dead_letter": 1}
    assert attempt_outcomes(db, own.id) == [(1, "failed"), (2, "failed")]
    assert job_status(db, usual.id) == "queued"


async def test_a_policy_of_its_own_brings_its_number_of_attempts(app, db):
    @app.job(retry=posthouse.Retry("1h"))
    async def fall():
        raise Broken

    handle = await fall.using(retry=posthouse.Retry(0, 0, 0)).enqueue()
    assert await testing.drain(app) == {"dead_letter": 1}
    assert len(attempt_outcomes(db, handle.id)) == 4


async def test_exponential_pauses_grow_to_the_cap(app, db):
    @app.job(retry=posthouse.Retry.exponential("10s", factor=3, cap="1m", jitter=0), max_attempts=5)
    async def fall():
        raise Broken

    handle = await fall.enqueue()
    pauses = []
    async with testing.clock(app) as clock:
        for _ in range(4):
            await testing.drain(app)
            (pause,) = db.execute(
                "select extract(epoch from w.due_at - max(a.finished_at)) "
                "from posthouse.waiting w join posthouse.past_attempts a on a.job_id = w.id "
                "where w.id = %s group by w.due_at",
                (handle.id,),
            ).fetchone()
            pauses.append(round(pause))
            await clock.advance("1m")
    assert pauses == [10, 30, 60, 60]


@pytest.mark.parametrize("in_thread", [False, True])
@pytest.mark.parametrize("returned", [False, True])
async def test_fail_ends_the_job_at_once(app, db, in_thread, returned):
    def act():
        ending = posthouse.Fail("no such customer")
        if returned:
            return ending
        raise ending

    async def act_async():
        return act()

    fall = app.job("fall")(act if in_thread else act_async)
    handle = await fall.enqueue()
    assert await testing.drain(app) == {"failed": 1}
    assert job_row(db, handle.id)["last_error"] == "Fail: no such customer"
    assert attempt_outcomes(db, handle.id) == [(1, "failed")]
    with pytest.raises(JobFailed, match="no such customer"):
        await handle.wait("60s")


async def test_fail_from_another_error_keeps_that_error(app, db):
    @app.job()
    async def fall():
        raise posthouse.Fail from Broken("the cause")

    handle = await fall.enqueue()
    assert await testing.drain(app) == {"failed": 1}
    assert job_row(db, handle.id)["error"]["type"].endswith("Broken")
    assert job_row(db, handle.id)["error"]["message"] == "the cause"


async def test_errors_that_must_not_be_retried_are_named_by_the_job(app, db):
    @app.job(fail_on=[BrokenForGood], retry=posthouse.Retry(0))
    async def fall(for_good: bool):
        raise BrokenForGood if for_good else Broken

    once = await fall.enqueue(for_good=True)
    twice = await fall.enqueue(for_good=False)
    assert await testing.drain(app) == {"failed": 1, "dead_letter": 1}
    assert attempt_outcomes(db, once.id) == [(1, "failed")]
    assert attempt_outcomes(db, twice.id) == [(1, "failed"), (2, "failed")]


@pytest.mark.parametrize("returned", [False, True])
async def test_a_snooze_runs_again_later_without_spending_an_attempt(app, db, returned):
    runs = []

    @app.job(max_attempts=1)
    async def poll(job: posthouse.Job) -> str:
        runs.append((job.attempt, job.snoozes))
        if len(runs) == 3:
            return "done"
        if returned:
            return posthouse.Snooze("1m")
        raise posthouse.Snooze("1m")

    handle = await poll.enqueue()
    async with testing.clock(app) as clock:
        for _ in range(2):
            assert await testing.drain(app) == {}
            await clock.advance("61s")
        assert await testing.drain(app) == {"succeeded": 1}
    assert runs == [(1, 0), (1, 1), (1, 2)]
    job = job_row(db, handle.id)
    assert (job["attempt_count"], job["snoozes"], job["result"]) == (1, 2, "done")
    assert attempt_outcomes(db, handle.id) == [(1, "snoozed"), (1, "snoozed"), (1, "succeeded")]


async def test_a_snooze_past_its_limit_is_a_dead_letter(app, db):
    @app.job()
    async def poll():
        return posthouse.Snooze(0, limit=3)

    handle = await poll.enqueue()
    assert await testing.drain(app) == {"dead_letter": 1}
    job = job_row(db, handle.id)
    assert job["snoozes"] == 3
    assert job["error"]["type"] == "SnoozeLimit"


async def test_a_snooze_past_its_deadline_is_a_dead_letter(app, db):
    @app.job()
    async def poll():
        return posthouse.Snooze("10m", deadline="25m")

    handle = await poll.enqueue()
    async with testing.clock(app) as clock:
        for _ in range(2):
            assert await testing.drain(app) == {}
            await clock.advance("10m1s")
        assert await testing.drain(app) == {"dead_letter": 1}
    assert "the deadline is 1500 s" in job_row(db, handle.id)["error"]["message"]


@pytest.mark.parametrize("returned", [False, True])
async def test_a_handler_can_cancel_its_job(app, db, returned):
    @app.job()
    async def give_up():
        if returned:
            return posthouse.Cancel("not wanted")
        raise posthouse.Cancel("not wanted")

    handle = await give_up.enqueue()
    assert await testing.drain(app) == {"canceled": 1}
    assert job_row(db, handle.id)["error"]["message"] == "not wanted"
    assert attempt_outcomes(db, handle.id) == [(1, "canceled")]


async def test_an_exception_that_is_returned_counts_as_raised(app, db):
    @app.job(max_attempts=1)
    async def fall():
        return Broken("returned")

    handle = await fall.enqueue()
    assert await testing.drain(app) == {"dead_letter": 1}
    assert job_row(db, handle.id)["error"]["message"] == "returned"


async def test_an_attempt_knows_the_error_of_the_one_before(app):
    seen = []

    @app.job(retry=posthouse.Retry(0))
    async def fall(job: posthouse.Job):
        seen.append(job.last_error)
        if job.attempt == 1:
            raise ValueError("first")

    await fall.enqueue()
    assert await testing.drain(app) == {"succeeded": 1}
    assert seen == [None, "ValueError: first"]


async def test_one_failing_job_does_not_hurt_the_reports_of_others(app, db):
    @app.job(max_attempts=1)
    async def work(number: int):
        if number % 10 == 3:
            raise Broken
        return number

    await app.client.enqueue_many([work.request({"number": number}) for number in range(100)])
    assert await testing.drain(app) == {"succeeded": 90, "dead_letter": 10}


async def test_a_dead_letter_that_is_reopened_runs_as_a_new_generation(app, db):
    @app.job(max_attempts=1)
    async def work(job: posthouse.Job):
        if job.generation == 1:
            raise Broken
        return "at last"

    handle = await work.enqueue()
    assert await testing.drain(app) == {"dead_letter": 1}
    assert db.execute("select posthouse.reopen(%s)", (handle.id,)).fetchone() == ("queued",)
    await testing.drain(app)
    job = job_row(db, handle.id)
    assert (job["status"], job["result"], job["generation"]) == ("succeeded", "at last", 2)
    assert attempt_outcomes(db, handle.id) == [(1, "failed"), (1, "succeeded")]


async def test_a_final_failure_is_logged_as_an_error_with_its_exception(app, caplog):
    """As error trackers that hook into logging expect it."""
    caplog.set_level(logging.INFO, "posthouse")

    @app.job(retry=posthouse.Retry(0, 0))
    async def fall(job: posthouse.Job):
        raise Broken(f"attempt {job.attempt}")

    await fall.enqueue()
    await testing.drain(app)
    logged = [record for record in caplog.records if "attempt" in record.getMessage()]
    assert [record.levelname for record in logged] == ["WARNING", "WARNING", "ERROR"]
    assert [bool(record.exc_info) for record in logged] == [False, False, True]
    kind, error, trace = logged[-1].exc_info
    assert (kind.__name__, str(error)) == ("Broken", "attempt 3")
    assert trace is not None


async def test_the_exception_of_a_logged_failure_is_masked(app, caplog):
    @app.job(max_attempts=1)
    async def fall(password: str):
        raise Broken(f"cannot log in with {password}")

    await fall.enqueue(password="correct horse battery")
    await testing.drain(app)
    (logged,) = [record for record in caplog.records if record.levelname == "ERROR"]
    kind, error, trace = logged.exc_info
    assert (kind.__name__, trace is not None) == ("Broken", True)
    assert "horse" not in str(error) + logged.exc_text


@pytest.mark.parametrize("runner", ["auto", "thread"])
async def test_a_result_that_is_no_json_fails_the_job_and_names_the_type(app, db, runner):
    async def awkward():
        return {"connection": Broken}

    def awkward_thread():
        return {"connection": Broken}

    handle = await app.job("awkward")(awkward if runner == "auto" else awkward_thread).enqueue()
    assert await testing.drain(app) == {"failed": 1}
    job = job_row(db, handle.id)
    assert (job["error"]["type"], job["attempt_count"]) == ("InvalidResult", 1)
    assert "the result contains an object of type type," in job["error"]["message"]

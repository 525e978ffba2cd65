"""A handler in a process of its own is given and gives what one in the worker does."""

import logging

import process_jobs as jobs
import psutil
import pytest

import posthouse
from support.processes import ended, errors
from support.waiting import eventually
from support.workers import attempt_outcomes, job_row, job_status

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture(scope="module")
def db(process_worker):
    return process_worker.db


async def test_results_come_back_from_plain_async_and_batch_handlers(process_worker, db):
    handles = [
        await jobs.double.enqueue(number=4),
        await jobs.double_async.enqueue(number=5),
        await process_worker.app.client.enqueue("double_many", {"number": 6}),
        await jobs.double_here.enqueue(number=7),
    ]
    none = await process_worker.app.client.enqueue("double_many", {})
    assert await ended(db, *handles, none) == ["succeeded"] * 4 + ["canceled"]
    assert [await handle.wait() for handle in handles] == [8, 10, 12, 14]
    with pytest.raises(posthouse.JobFailed, match="none"):
        await none.wait()


async def test_the_job_has_the_same_attributes_as_in_the_worker(process_worker, db):
    handle = await jobs.about.using(tenant="acme", correlation_id="c-1", max_attempts=4).enqueue(word="ä\n")
    await ended(db, handle)
    stored = job_row(db, handle.id)
    assert await handle.wait() == {
        "id": str(handle.id),
        "kind": "about",
        "tenant": "acme",
        "payload": {"word": "ä\n"},
        "attempt": [1, 4],
        "correlation_id": "c-1",
        "queued": stored["queued_at"].isoformat(),
    }


async def test_followups_land_with_the_completion_and_only_then(process_worker, db):
    ordered = await jobs.order.enqueue(number=3)
    failed = await jobs.order_and_fail.enqueue()
    assert await ended(db, ordered, failed) == ["succeeded", "dead_letter"]
    ask = (
        "select kind, result::text, parent_id, correlation_id from posthouse.jobs "
        "where parent_id = any(%s) order by kind"
    )
    await eventually(lambda: all(row[1] for row in db.execute(ask, ([ordered.id],)).fetchall()))
    rows = db.execute(ask, ([ordered.id, failed.id],)).fetchall()
    assert rows == [
        ("double", "6", ordered.id, str(ordered.id)),
        ("double_here", "6", ordered.id, str(ordered.id)),
    ]


async def test_progress_is_seen_while_the_handler_runs(process_worker, db, marker_file):
    handle = await jobs.report.enqueue(marker_file=marker_file.folder)
    await eventually(lambda: job_row(db, handle.id)["progress_percent"])
    found = job_row(db, handle.id)
    assert (found["status"], found["progress_percent"], found["current_step"]) == ("running", 40, "half")
    marker_file.go()
    await handle.wait("20s")


async def test_async_handlers_report_progress_steps_and_parts(process_worker):
    handle = await jobs.report_async.enqueue()
    assert await handle.wait("60s") == ["first"]


async def test_a_step_is_done_once_for_all_attempts(process_worker, db, marker_file):
    handle = await jobs.step_by_step.enqueue(marker_file=marker_file.folder)
    assert await handle.wait("60s") == [1, ["once"]]
    assert attempt_outcomes(db, handle.id) == [(1, "failed"), (2, "succeeded")]


@pytest.mark.parametrize(
    ("how", "ended", "attempt", "error"),
    [
        ("snooze raised", "queued", "snoozed", None),
        ("snooze returned", "queued", "snoozed", None),
        ("snooze past its limit", "dead_letter", "failed", "SnoozeLimit: snoozed 0 times, the limit is 0"),
        ("cancel", "canceled", "canceled", "Canceled: not wanted"),
        ("fail", "failed", "failed", "ValueError: bad input"),
        ("raise", "queued", "failed", "RuntimeError: odd"),
    ],
)
async def test_outcomes_mean_what_they_mean_in_the_worker(process_worker, db, *, how, ended, attempt, error):
    handle = await jobs.end_as.enqueue(how=how)
    await eventually(lambda: [outcome for _, outcome in attempt_outcomes(db, handle.id)] == [attempt])
    found = job_row(db, handle.id)
    assert (found["status"], found["last_error"]) == (ended, error)


async def test_fail_on_knows_the_subclasses_of_what_it_names(process_worker, db):
    handle = await jobs.look_up.enqueue()
    assert await ended(db, handle) == ["failed"]
    assert job_row(db, handle.id)["last_error"] == "process_jobs.OrderGone: order 7"


async def test_an_error_is_stored_with_its_type_text_and_traceback(process_worker, db):
    handle = await jobs.explode.enqueue()
    assert await ended(db, handle) == ["dead_letter"]
    [(kind, message, _, trace)] = errors(db, handle.id)
    assert (kind, message) == ("process_jobs.OrderGone", "with\\u0000nul and \\ud800")
    assert "in explode" in trace


async def test_a_payload_that_does_not_fit_goes_to_the_dead_letter(process_worker, db):
    [job_id] = db.execute("""select posthouse.enqueue('double', '{"number": "many"}')""").fetchone()
    await eventually(lambda: job_status(db, job_id) == "dead_letter")
    assert "InvalidPayload: invalid payload for double: number" in job_row(db, job_id)["last_error"]


async def test_log_records_arrive_in_the_workers_log_with_the_jobs_ids(process_worker, caplog):
    caplog.set_level(logging.INFO)
    handle = await jobs.chat.enqueue()
    await handle.wait("60s")
    [mine] = [record for record in caplog.records if record.name == "posthouse.job"]
    [other] = [record for record in caplog.records if record.name == "shop"]
    assert (mine.getMessage(), mine.levelname, mine.funcName) == ("one of mine", "WARNING", "chat")
    assert (mine.job_id, mine.kind, mine.tenant_id, mine.attempt) == (str(handle.id), "chat", "default", 1)
    assert mine.process not in {None, psutil.Process().pid}
    assert other.getMessage().startswith("of the application")


async def test_what_a_handler_prints_does_not_disturb_the_talk_with_the_worker(process_worker):
    handles = [await jobs.make_noise.enqueue(lines=500) for _ in range(4)]
    assert [await handle.wait("60s") for handle in handles] == ["quiet again"] * 4


async def test_large_payloads_and_results_go_through(process_worker):
    text = "ä\n" * 200_000
    handles = [await jobs.echo.enqueue(text=text) for _ in range(2)]
    small = await jobs.echo.enqueue(text="x")
    assert [await handle.wait("60s") for handle in handles] == [text] * 2
    assert await small.wait("60s") == "x"


async def test_a_commit_lands_together_with_the_handlers_writes(process_worker, db):
    handle = await jobs.write.enqueue(word="hello")
    assert await handle.wait("60s") == {"wrote": "hello"}
    assert db.execute("select word from words where word = 'hello'").fetchall() == [("hello",)]
    followups = "select status from posthouse.jobs where parent_id = %s"
    await eventually(lambda: db.execute(followups, (handle.id,)).fetchall() == [("succeeded",)])
    assert attempt_outcomes(db, handle.id) == [(1, "succeeded")]


async def test_a_handler_may_go_on_after_its_commit(process_worker, db, marker_file):
    """Beats find no lease then, and must not take it for lost."""
    heartbeat = process_worker.worker.heartbeat
    handle = await jobs.write_async.enqueue(word="goodbye", marker_file=marker_file.folder)
    await eventually(lambda: "written" in list(marker_file))
    beats = heartbeat.beats
    await eventually(lambda: heartbeat.beats > beats + 3)
    marker_file.go()
    await eventually(lambda: "done" in list(marker_file))
    await eventually(lambda: not process_worker.worker.executor.leased)
    assert (job_status(db, handle.id), attempt_outcomes(db, handle.id)) == ("succeeded", [(1, "succeeded")])

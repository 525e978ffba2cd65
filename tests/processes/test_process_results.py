"""A handler in a process of its own is given and gives what one in the worker does."""

import logging

import chores as jobs
import psutil
import pytest
from processkit import errors, stop_claiming

import posthouse
from posthouse import testing
from workshop import attempts, background, eventually, give_away, row, status, working

pytestmark = pytest.mark.usefixtures("leftovers")


async def test_results_come_back_from_plain_async_and_batch_handlers(chores):
    handles = [
        await jobs.double.enqueue(number=4),
        await jobs.double_async.enqueue(number=5),
        await chores.client.enqueue("double_many", {"number": 6}),
        await jobs.double_here.enqueue(number=7),
    ]
    none = await chores.client.enqueue("double_many", {})
    assert await testing.drain(chores) == {"succeeded": 4, "canceled": 1}
    assert [await handle.wait() for handle in handles] == [8, 10, 12, 14]
    with pytest.raises(posthouse.JobFailed, match="none"):
        await none.wait()


async def test_no_signal_is_ignored_because_the_worker_was_started_in_the_background(chores):
    handle = await jobs.signals.enqueue()
    with background():
        await testing.drain(chores)
    assert [int(mask, 16) & 0x7FFFFFFF for mask in await handle.wait()] == [0, 0]


async def test_the_job_has_the_same_attributes_as_in_the_worker(chores, db):
    handle = await jobs.about.using(tenant="acme", correlation_id="c-1", max_attempts=4).enqueue(word="ä\n")
    await testing.drain(chores)
    stored = row(db, handle.id)
    assert await handle.wait() == {
        "id": str(handle.id),
        "kind": "about",
        "tenant": "acme",
        "payload": {"word": "ä\n"},
        "attempt": [1, 4],
        "correlation_id": "c-1",
        "aged": True,
        "queued": stored["queued_at"].isoformat(),
    }


async def test_a_second_job_finds_the_application_loaded(chores):
    handles = [await jobs.where.enqueue() for _ in range(20)]
    async with working(chores, process_slots=2) as worker:
        found = [tuple(await handle.wait("20s")) for handle in handles]
        assert {pid for pid, _ in found} <= set(worker.processes.pids)
        assert len({loaded for _, loaded in found}) <= 2
        assert jobs.LOADED not in {loaded for _, loaded in found}, "it ran in the worker"


async def test_as_many_processes_as_the_setting_says(chores):
    async with working(chores, process_slots=3) as worker:
        assert len(worker.processes.pids) == 3
        assert all(psutil.pid_exists(pid) for pid in worker.processes.pids)


async def test_followups_land_with_the_completion_and_only_then(chores, db):
    ordered = await jobs.order.enqueue(number=3)
    failed = await jobs.order_and_fail.enqueue()
    assert await testing.drain(chores) == {"succeeded": 3, "dead_letter": 1}
    rows = db.execute(
        "select kind, result::text, parent_id, correlation_id from posthouse.jobs "
        "where id <> all(%s) order by kind",
        ([ordered.id, failed.id],),
    ).fetchall()
    assert rows == [
        ("double", "6", ordered.id, str(ordered.id)),
        ("double_here", "6", ordered.id, str(ordered.id)),
    ]


async def test_progress_is_seen_while_the_handler_runs(chores, db, marks):
    handle = await jobs.report.enqueue(marks=marks.folder)
    async with working(chores):
        await eventually(lambda: row(db, handle.id)["progress_percent"])
        found = row(db, handle.id)
        assert (found["status"], found["progress_percent"], found["current_step"]) == ("running", 40, "half")
        marks.go()
        await handle.wait("20s")


async def test_async_handlers_report_progress_steps_and_parts(chores):
    handle = await jobs.report_async.enqueue()
    await testing.drain(chores)
    assert await handle.wait() == ["first"]


async def test_a_step_is_done_once_for_all_attempts(chores, db, marks):
    handle = await jobs.step_by_step.enqueue(marks=marks.folder)
    assert await testing.drain(chores) == {"succeeded": 1}
    assert await handle.wait() == [1, ["once"]]
    assert attempts(db, handle.id) == [(1, "failed"), (2, "succeeded")]


async def test_progress_raises_when_the_lease_is_lost_and_the_outcome_is_dropped(chores, db, marks):
    handle = await jobs.report_until_lost.enqueue(marks=marks.folder)
    async with working(
        chores, keeper=False, heartbeat_seconds=30, lease_seconds=60, cancel_grace_seconds=10
    ) as worker:
        await eventually(lambda: "started" in list(marks))
        await stop_claiming(worker)
        give_away(db, handle.id)
        await eventually(lambda: "lost" in list(marks))
        await eventually(lambda: not worker.executor.held)
    assert attempts(db, handle.id) == [(1, "lost")]


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
async def test_outcomes_mean_what_they_mean_in_the_worker(chores, db, *, how, ended, attempt, error):
    handle = await jobs.end_as.enqueue(how=how)
    await testing.drain(chores)
    found = row(db, handle.id)
    assert (found["status"], found["last_error"]) == (ended, error)
    assert [outcome for _, outcome in attempts(db, handle.id)] == [attempt]


async def test_fail_on_knows_the_subclasses_of_what_it_names(chores, db):
    handle = await jobs.look_up.enqueue()
    assert await testing.drain(chores) == {"failed": 1}
    assert row(db, handle.id)["last_error"] == "chores.OrderGone: order 7"


async def test_an_error_is_stored_with_its_type_text_and_traceback(chores, db):
    handle = await jobs.explode.enqueue()
    assert await testing.drain(chores) == {"dead_letter": 1}
    [(kind, message, _, trace)] = errors(db, handle.id)
    assert (kind, message) == ("chores.OrderGone", "with\\u0000nul and \\ud800")
    assert "in explode" in trace


async def test_a_payload_that_does_not_fit_goes_to_the_dead_letter(chores, db):
    handle = await chores.client.enqueue("double", {"number": "many"})
    assert await testing.drain(chores) == {"dead_letter": 1}
    assert "InvalidPayload: invalid payload for double: number" in row(db, handle.id)["last_error"]


async def test_log_records_arrive_in_the_workers_log_with_the_jobs_ids(chores, caplog):
    caplog.set_level(logging.INFO)
    handle = await jobs.chat.enqueue()
    await testing.drain(chores)
    [mine] = [record for record in caplog.records if record.name == "posthouse.job"]
    [other] = [record for record in caplog.records if record.name == "shop"]
    assert (mine.getMessage(), mine.levelname, mine.funcName) == ("one of mine", "WARNING", "chat")
    assert (mine.job_id, mine.kind, mine.tenant_id, mine.attempt) == (str(handle.id), "chat", "default", 1)
    assert mine.process not in {None, psutil.Process().pid}
    assert other.getMessage().startswith("of the application")


async def test_what_a_handler_prints_does_not_disturb_the_talk_with_the_worker(chores):
    handles = [await jobs.make_noise.enqueue(lines=500) for _ in range(4)]
    assert await testing.drain(chores) == {"succeeded": 4}
    assert [await handle.wait() for handle in handles] == ["quiet again"] * 4


async def test_large_payloads_and_results_go_through(chores):
    text = "ä\n" * 200_000
    handles = [await jobs.echo.enqueue(text=text) for _ in range(6)]
    small = await jobs.echo.enqueue(text="x")
    assert await testing.drain(chores) == {"succeeded": 7}
    assert [await handle.wait() for handle in handles] == [text] * 6
    assert await small.wait() == "x"


async def test_a_commit_lands_together_with_the_handlers_writes(chores, db):
    db.execute("create table words (word text)")
    handle = await jobs.write.enqueue(word="hello")
    assert await testing.drain(chores) == {"succeeded": 2}
    assert db.execute("select word from words").fetchall() == [("hello",)]
    assert await handle.wait() == {"wrote": "hello"}
    assert attempts(db, handle.id) == [(1, "succeeded")]


async def test_a_handler_may_go_on_after_its_commit(chores, db, marks):
    """Beats find no lease then, and must not take it for lost."""
    db.execute("create table words (word text)")
    handle = await jobs.write_async.enqueue(word="hello", marks=marks.folder)
    async with working(chores) as worker:
        await eventually(lambda: "written" in list(marks))
        beats = worker.heartbeat.beats
        await eventually(lambda: worker.heartbeat.beats > beats + 3)
        marks.go()
        await eventually(lambda: "done" in list(marks))
    assert status(db, handle.id) == "succeeded"


@pytest.mark.soak
async def test_many_jobs_leave_the_processes_no_larger(chores, db):
    """Sixty payloads and results of 500 kB would be 60 MB if they were kept."""
    async with working(chores, process_slots=1) as worker:
        await _echo(10)
        process = psutil.Process(worker.processes.pids[0])
        before = process.memory_info().rss
        await _echo(60)
        assert worker.processes.pids == [process.pid]
        assert process.memory_info().rss - before < 30e6


async def _echo(count):
    for _ in range(count):
        handle = await jobs.echo.enqueue(text="x" * 500_000)
        assert len(await handle.wait("20s")) == 500_000

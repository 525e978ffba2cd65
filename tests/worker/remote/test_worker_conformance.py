"""What holds of a worker, whether it has a database or only a server: the same code, the same outcomes."""

from __future__ import annotations

import asyncio
import json
import sys
from datetime import timedelta
from uuid import UUID

import pytest
import pytest_asyncio

from posthouse import testing
from support.remote import RemoteServer
from support.waiting import eventually
from support.workers import cancel, expire_lease_and_rescue

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["direct", "remote"])
async def worker_site(request, server, tmp_path_factory):
    """A site where one worker of either kind runs everything."""
    with testing.database(server) as database:
        async with RemoteServer.over(database, tmp_path_factory.mktemp("site")) as remote_server:
            remote_server.way = request.param
            async with remote_server.working(request.param, processes=True, commands=True, process_slots=1):
                yield remote_server


async def test_a_result_is_stored_from_every_runner(worker_site):
    for kind in ("add", "add_in_thread", "add_in_process"):
        row = await worker_site.run(kind, {"a": 2, "b": 3})
        assert (row["status"], row["result"], row["attempt_count"]) == ("succeeded", 5, 1), kind


async def test_what_needs_the_database_waits_for_a_worker_that_has_it(worker_site):
    if worker_site.way == "direct":
        assert (await worker_site.run("beside_the_database"))["status"] == "succeeded"
        return
    waiting = await worker_site.enqueue("beside_the_database")
    await worker_site.run("add", {"a": 1, "b": 2})
    assert worker_site.row(waiting)["status"] == "queued"
    cancel(worker_site.db, waiting)


async def test_a_handler_knows_its_job(worker_site):
    payload = {"big": 12345678901234567890123, "deep": {"a": [1.5, None, "ü"]}}
    row = await worker_site.run(
        "about", payload, correlation_id="c-1", subject="s-1", priority="high", tenant="acme"
    )
    known = row["result"]
    assert known["payload"] == payload
    assert known["queued"] == row["queued_at"].isoformat()
    assert known["due"] == row["scheduled_for"].isoformat()
    assert known["started"] == row["started_at"].isoformat()
    assert (known["tenant"], known["correlation_id"], known["subject"]) == ("acme", "c-1", "s-1")
    assert (known["priority"], known["attempt"]) == (50, 1)


@pytest.mark.parametrize("kind", ["about", "about_in_thread", "about_in_process"])
async def test_a_handler_knows_when_its_job_was_queued_due_and_started(worker_site, kind):
    job_id = await worker_site.enqueue(kind, delay=0.3)
    worker_site.db.execute(
        "update posthouse.waiting set queued_at = queued_at - interval '2 hours' where id = %s", (job_id,)
    )
    row = await worker_site.ended(job_id)
    known = row["result"]
    assert known["queued"] == row["queued_at"].isoformat()
    assert known["due"] == row["scheduled_for"].isoformat()
    assert known["started"] == row["started_at"].isoformat()
    assert known["queued"] < known["due"] <= known["started"]
    assert row["started_at"] - row["queued_at"] >= timedelta(hours=2)


@pytest.mark.parametrize("kind", ["snoozing", "snoozing_in_process"])
async def test_a_job_keeps_its_age_when_it_runs_again(worker_site, kind):
    """The deadline of a snooze counts from the first start, which the worker knows from the claimed row."""
    job_id = await worker_site.enqueue(kind)
    change = """
        update posthouse.waiting set started_at = started_at - interval '9000 s', due_at = posthouse.now()
        where id = %s and snoozes = 1"""
    await eventually(lambda: worker_site.db.execute(change, (job_id,)).rowcount, what="the first snooze")
    row = await worker_site.ended(job_id)
    assert (row["status"], row["snoozes"]) == ("dead_letter", 1)
    before, _, after = row["error"]["message"].partition(" s after the start, the deadline is 10800 s")
    assert (int(before.removeprefix("still not done ")) >= 9000, after) == (True, "")


async def test_an_error_is_retried_and_the_next_attempt_knows_of_it(worker_site):
    row = await worker_site.run("flaky")
    assert (row["status"], row["attempt_count"]) == ("succeeded", 2)
    assert "at first it does not work" in row["result"]
    first, second = worker_site.attempts(row["id"])
    assert (first["outcome"], second["outcome"]) == ("failed", "succeeded")
    assert first["error_type"] == "ValueError"
    assert "conformance_jobs.py" in first["traceback"]


@pytest.mark.parametrize(
    ("kind", "status", "error"),
    [
        ("hopeless", "failed", "Fail"),
        ("exhausting", "dead_letter", "OSError"),
        ("overdue", "dead_letter", "TimedOut"),
        ("gives_up", "canceled", None),
        ("sleepy", "succeeded", None),
    ],
)
async def test_every_way_to_end_is_recorded(worker_site, kind, status, error):
    row = await worker_site.run(kind)
    assert row["status"] == status
    if error:
        assert worker_site.attempts(row["id"])[-1]["error_type"] == error


async def test_a_payload_that_does_not_fit_goes_to_the_dead_letter_whole(worker_site):
    wrong = {"kind": "add", "payload": {"a": "many", "b": 1}}
    ((job_id,),) = worker_site.db.execute("select id from posthouse.enqueue_many(%s)", (json.dumps([wrong]),))
    row = await worker_site.ended(job_id)
    assert (row["status"], row["payload"]) == ("dead_letter", {"a": "many", "b": 1})
    assert worker_site.attempts(job_id)[-1]["error_type"] == "InvalidPayload"


async def test_a_batch_handler_answers_for_each_of_its_jobs(worker_site):
    ids = [
        await worker_site.enqueue("add_many", payload)
        for payload in ({"a": 1, "b": 1}, {"a": 1}, {"a": 2, "b": 2})
    ]
    rows = [await worker_site.ended(job_id) for job_id in ids]
    assert [(row["status"], row["result"]) for row in rows] == [
        ("succeeded", 2), ("failed", None), ("succeeded", 4)
    ]  # fmt: skip


async def test_a_retry_goes_on_where_the_last_attempt_stopped(worker_site):
    row = await worker_site.run("resuming")
    assert row["status"] == "succeeded"
    assert row["result"] == {
        "seen": ["completed", "in_progress"], "kept": {"made in attempt": 1}, "steps": ["once"]
    }  # fmt: skip
    parts = worker_site.db.execute(
        "select name, status, total, result from posthouse.parts where job_id = %s order by ordinal",
        (row["id"],),
    ).fetchall()
    assert parts == [("low", "completed", 4, None), ("high", "completed", None, {"height": 1080})]
    assert row["current_step"] == "half way"


async def test_what_a_job_says_is_kept_with_it(worker_site):
    row = await worker_site.run("talking")
    lines = worker_site.db.execute(
        "select stream, level, text from posthouse.log_lines where job_id = %s order by sequence",
        (row["id"],),
    ).fetchall()
    assert lines == [("log", "info", "hello there"), ("stdout", None, "one"), ("stdout", None, "two")]
    assert (row["progress_percent"], row["current_step"], row["progress_message"]) == (
        100, "talking", "still here"
    )  # fmt: skip


async def test_follow_ups_come_with_the_completion_and_not_without(worker_site):
    row = await worker_site.run("parent", {"children": 2}, tenant="acme", correlation_id="family")
    for number, child in enumerate(row["result"]):
        child_row = await worker_site.ended(UUID(child))
        assert (child_row["result"], child_row["parent_id"]) == (number + 1, row["id"])
        assert (child_row["tenant_id"], child_row["correlation_id"]) == ("acme", "family")
    barren = await worker_site.run("barren_parent")
    assert barren["status"] == "dead_letter"
    found = worker_site.db.execute(
        "select count(*) from posthouse.jobs where parent_id = %s", (barren["id"],)
    )
    assert found.fetchone() == (0,)


async def test_large_results_and_follow_ups_come_through_together(worker_site):
    ids = [await worker_site.enqueue("pile", {"size": 1_000_000}) for _ in range(3)]
    for job_id in ids:
        assert len((await worker_site.ended(job_id))["result"]) == 1_000_000
    heaps = worker_site.db.execute(
        "select length(payload ->> 'heap') from posthouse.jobs where parent_id = any (%s)", (ids,)
    ).fetchall()
    assert heaps == [(1_000_000,)] * 6


async def test_a_running_job_is_canceled(worker_site, tmp_path):
    started = tmp_path / "started"
    job_id = await worker_site.enqueue("wait", {"started": str(started), "until": str(tmp_path / "never")})
    await eventually(started.exists, what="the start")
    assert cancel(worker_site.db, job_id) in {"canceling", "running"}
    row = await worker_site.ended(job_id)
    assert row["status"] == "canceled"


async def test_a_handler_is_notified_when_its_job_is_reassigned_and_changes_nothing(worker_site, tmp_path):
    started, lost_marker = tmp_path / "started", tmp_path / "lost"
    job_id = await worker_site.enqueue("deprived", {"started": str(started), "lost_marker": str(lost_marker)})
    await eventually(started.exists, what="the start")
    expire_lease_and_rescue(worker_site.db, job_id)
    row = await worker_site.ended(job_id)
    await eventually(lost_marker.exists, what="LeaseLost")
    assert (row["status"], row["attempt_count"]) == ("succeeded", 2)
    assert [attempt["outcome"] for attempt in worker_site.attempts(job_id)] == ["lost", "succeeded"]


async def test_secrets_are_masked_before_they_leave_the_worker(worker_site):
    row = await worker_site.run("indiscreet", {"user": {"iban": "canary-1234567"}})
    kept = worker_site.db.execute(
        "select string_agg(text, ' ') from posthouse.log_lines where job_id = %s", (row["id"],)
    ).fetchone()[0]
    last = worker_site.attempts(row["id"])[-1]
    error = last["error_message"] + last["traceback"]
    assert "paying from" in kept
    assert "cannot pay from" in error
    assert "canary" not in kept + error + row["progress_message"]


async def test_a_command_runs_and_its_output_is_kept(worker_site):
    code = "import sys; print('out of', sys.argv[1]); print('careful', file=sys.stderr)"
    known = {"command": {"argv": [sys.executable, "-S", "-c", code, "{payload.what}"]}, "timeout_seconds": 30}
    worker_site.db.execute("select posthouse.create_definition('print_it', %s)", (json.dumps(known),))
    row = await worker_site.run("print_it", {"what": "paper"})
    assert row["status"] == "succeeded", worker_site.attempts(row["id"])
    last = worker_site.attempts(row["id"])[-1]
    assert (last["exit_code"], last["stdout_tail"].strip()) == (0, "out of paper")
    assert last["stderr_tail"].strip() == "careful"


@pytest.mark.parametrize("kind", ["committing", "committing_in_thread", "committing_in_process"])
async def test_only_a_worker_with_a_database_commits_there_and_the_other_says_why(worker_site, kind):
    row = await worker_site.run(kind)
    if worker_site.way == "direct":
        assert row["status"] == "succeeded"
        return
    assert "this worker is remote" in worker_site.attempts(row["id"])[-1]["error_message"]
    assert row["status"] == "dead_letter"


async def test_a_batch_handler_gets_full_batches(worker_site):
    rows = worker_site.db.execute(
        "select posthouse.enqueue('count_batch') from generate_series(1, 20)"
    ).fetchall()
    assert [(await worker_site.ended(job_id))["result"] for (job_id,) in rows] == [10] * 20


async def test_an_operator_drains_a_worker(worker_site):
    """Last: it is the one that all of them used."""
    ((worker_id, name),) = worker_site.db.execute("select id, name from posthouse.workers").fetchall()
    # Not on the loop: the server is there too, and may hold the worker's row.
    await asyncio.to_thread(worker_site.db.execute, "select posthouse.drain_worker(%s)", (worker_id,))
    job_id = await worker_site.enqueue("add", {"a": 1, "b": 1})
    assert name
    assert worker_site.row(job_id)["status"] == "queued"

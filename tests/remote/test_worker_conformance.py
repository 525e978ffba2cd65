"""What holds of a worker, whether it has a database or only a server: the same code, the same outcomes."""

from __future__ import annotations

import asyncio
import json
import sys
from uuid import UUID

import pytest
import pytest_asyncio
from remotekit import Site

from posthouse import testing
from workshop import cancel, eventually, give_away

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["direct", "remote"])
async def place(request, server, tmp_path_factory):
    """A site where one worker of either kind runs everything."""
    with testing.database(server) as database:
        async with Site.over(database, tmp_path_factory.mktemp("site")) as site:
            site.way = request.param
            async with site.working(request.param, processes=True, commands=True, process_slots=1):
                yield site


async def test_a_result_is_stored_from_every_runner(place):
    for kind in ("add", "add_in_thread", "add_in_process"):
        row = await place.run(kind, {"a": 2, "b": 3})
        assert (row["status"], row["result"], row["attempt_count"]) == ("succeeded", 5, 1), kind


async def test_what_needs_the_database_waits_for_a_worker_that_has_it(place):
    if place.way == "direct":
        assert (await place.run("beside_the_database"))["status"] == "succeeded"
        return
    waiting = await place.enqueue("beside_the_database")
    await place.run("add", {"a": 1, "b": 2})
    assert place.row(waiting)["status"] == "queued"
    cancel(place.db, waiting)


async def test_a_handler_knows_its_job(place):
    payload = {"big": 12345678901234567890123, "deep": {"a": [1.5, None, "ü"]}}
    row = await place.run(
        "about", payload, correlation_id="c-1", subject="s-1", priority="high", tenant="acme"
    )
    known = row["result"]
    assert known["payload"] == payload
    assert known["queued"] == row["queued_at"].isoformat()
    assert known["due"] == row["scheduled_for"].isoformat()
    assert known["started"] == row["started_at"].isoformat()
    assert (known["tenant"], known["correlation_id"], known["subject"]) == ("acme", "c-1", "s-1")
    assert (known["priority"], known["attempt"]) == (50, 1)


async def test_an_error_is_retried_and_the_next_attempt_knows_of_it(place):
    row = await place.run("flaky")
    assert (row["status"], row["attempt_count"]) == ("succeeded", 2)
    assert "at first it does not work" in row["result"]
    first, second = place.attempts(row["id"])
    assert (first["outcome"], second["outcome"]) == ("failed", "succeeded")
    assert first["error_type"] == "ValueError"
    assert "chorebook.py" in first["traceback"]


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
async def test_every_way_to_end_is_recorded(place, kind, status, error):
    row = await place.run(kind)
    assert row["status"] == status
    if error:
        assert place.attempts(row["id"])[-1]["error_type"] == error


async def test_a_payload_that_does_not_fit_goes_to_the_dead_letter_whole(place):
    wrong = {"kind": "add", "payload": {"a": "many", "b": 1}}
    ((job_id,),) = place.db.execute("select id from posthouse.enqueue_many(%s)", (json.dumps([wrong]),))
    row = await place.ended(job_id)
    assert (row["status"], row["payload"]) == ("dead_letter", {"a": "many", "b": 1})
    assert place.attempts(job_id)[-1]["error_type"] == "InvalidPayload"


async def test_a_batch_handler_answers_for_each_of_its_jobs(place):
    ids = [
        await place.enqueue("add_many", payload) for payload in ({"a": 1, "b": 1}, {"a": 1}, {"a": 2, "b": 2})
    ]
    rows = [await place.ended(job_id) for job_id in ids]
    assert [(row["status"], row["result"]) for row in rows] == [
        ("succeeded", 2), ("failed", None), ("succeeded", 4)
    ]  # fmt: skip


async def test_a_retry_goes_on_where_the_last_attempt_stopped(place):
    row = await place.run("resuming")
    assert row["status"] == "succeeded"
    assert row["result"] == {
        "seen": ["completed", "in_progress"], "kept": {"made in attempt": 1}, "steps": ["once"]
    }  # fmt: skip
    parts = place.db.execute(
        "select name, status, total, result from posthouse.parts where job_id = %s order by ordinal",
        (row["id"],),
    ).fetchall()
    assert parts == [("low", "completed", 4, None), ("high", "completed", None, {"height": 1080})]
    assert row["current_step"] == "half way"


async def test_what_a_job_says_is_kept_with_it(place):
    row = await place.run("talking")
    lines = place.db.execute(
        "select stream, level, text from posthouse.log_lines where job_id = %s order by sequence",
        (row["id"],),
    ).fetchall()
    assert lines == [("log", "info", "hello there"), ("stdout", None, "one"), ("stdout", None, "two")]
    assert (row["progress_percent"], row["current_step"], row["progress_message"]) == (
        100, "talking", "still here"
    )  # fmt: skip


async def test_follow_ups_come_with_the_completion_and_not_without(place):
    row = await place.run("parent", {"children": 2}, tenant="acme", correlation_id="family")
    for number, child in enumerate(row["result"]):
        child_row = await place.ended(UUID(child))
        assert (child_row["result"], child_row["parent_id"]) == (number + 1, row["id"])
        assert (child_row["tenant_id"], child_row["correlation_id"]) == ("acme", "family")
    barren = await place.run("barren_parent")
    assert barren["status"] == "dead_letter"
    found = place.db.execute("select count(*) from posthouse.jobs where parent_id = %s", (barren["id"],))
    assert found.fetchone() == (0,)


async def test_large_results_and_follow_ups_come_through_together(place):
    ids = [await place.enqueue("pile", {"size": 1_000_000}) for _ in range(3)]
    for job_id in ids:
        assert len((await place.ended(job_id))["result"]) == 1_000_000
    heaps = place.db.execute(
        "select length(payload ->> 'heap') from posthouse.jobs where parent_id = any (%s)", (ids,)
    ).fetchall()
    assert heaps == [(1_000_000,)] * 6


async def test_a_running_job_is_canceled(place, tmp_path):
    started = tmp_path / "started"
    job_id = await place.enqueue("wait", {"started": str(started), "until": str(tmp_path / "never")})
    await eventually(started.exists, what="the start")
    assert cancel(place.db, job_id) in {"canceling", "running"}
    row = await place.ended(job_id, 10)
    assert row["status"] == "canceled"


async def test_a_handler_is_notified_when_its_job_is_reassigned_and_changes_nothing(place, tmp_path):
    started, heard = tmp_path / "started", tmp_path / "heard"
    job_id = await place.enqueue("deprived", {"started": str(started), "heard": str(heard)})
    await eventually(started.exists, what="the start")
    give_away(place.db, job_id)
    row = await place.ended(job_id)
    await eventually(heard.exists, what="LeaseLost")
    assert (row["status"], row["attempt_count"]) == ("succeeded", 2)
    assert [attempt["outcome"] for attempt in place.attempts(job_id)] == ["lost", "succeeded"]


async def test_secrets_are_masked_before_they_leave_the_worker(place):
    row = await place.run("indiscreet", {"user": {"iban": "canary-1234567"}})
    kept = place.db.execute(
        "select string_agg(text, ' ') from posthouse.log_lines where job_id = %s", (row["id"],)
    ).fetchone()[0]
    last = place.attempts(row["id"])[-1]
    error = last["error_message"] + last["traceback"]
    assert "paying from" in kept
    assert "cannot pay from" in error
    assert "canary" not in kept + error + row["progress_message"]


async def test_a_command_runs_and_its_output_is_kept(place):
    code = "import sys; print('out of', sys.argv[1]); print('careful', file=sys.stderr)"
    known = {"command": {"argv": [sys.executable, "-S", "-c", code, "{payload.what}"]}, "timeout_seconds": 30}
    place.db.execute("select posthouse.create_definition('print_it', %s)", (json.dumps(known),))
    row = await place.run("print_it", {"what": "paper"})
    assert row["status"] == "succeeded", place.attempts(row["id"])
    last = place.attempts(row["id"])[-1]
    assert (last["exit_code"], last["stdout_tail"].strip()) == (0, "out of paper")
    assert last["stderr_tail"].strip() == "careful"


@pytest.mark.parametrize("kind", ["committing", "committing_in_thread", "committing_in_process"])
async def test_only_a_worker_with_a_database_commits_there_and_the_other_says_why(place, kind):
    row = await place.run(kind)
    if place.way == "direct":
        assert row["status"] == "succeeded"
        return
    assert "this worker is remote" in place.attempts(row["id"])[-1]["error_message"]
    assert row["status"] == "dead_letter"


async def test_a_batch_handler_gets_full_batches(place):
    rows = place.db.execute("select posthouse.enqueue('count_batch') from generate_series(1, 20)").fetchall()
    assert [(await place.ended(job_id))["result"] for (job_id,) in rows] == [10] * 20


async def test_an_operator_drains_a_worker(place):
    """Last: it is the one that all of them used."""
    ((worker_id, name),) = place.db.execute("select id, name from posthouse.workers").fetchall()
    # Not on the loop: the server is there too, and may hold the worker's row.
    await asyncio.to_thread(place.db.execute, "select posthouse.drain_worker(%s)", (worker_id,))
    job_id = await place.enqueue("add", {"a": 1, "b": 1})
    assert name
    assert place.row(job_id)["status"] == "queued"

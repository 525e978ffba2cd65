"""posthouse enqueue, jobs, queues, workers, definitions."""

import re
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from support.terminal import terminal


@pytest.fixture
def worker(posthouse):
    """A real worker process for the app in conftest."""
    process = posthouse.start("worker", "--app", posthouse.write_app())
    process.line()
    return process


def test_a_job_goes_from_the_command_line_to_its_result(posthouse, worker):
    answer = posthouse(
        "enqueue", "greet", "--payload", '{"name": "Ada"}', "--wait", "--timeout", "20s", "--json"
    )
    assert answer.code == 0, answer.err
    assert (answer.json["outcome"], answer.json["status"]) == ("created", "succeeded")
    assert answer.json["result"] == "hello Ada"

    shown = posthouse("jobs", "show", answer.json["id"], "--json").json
    assert (shown["queue"], shown["payload"], shown["result"]) == ("mail", {"name": "Ada"}, "hello Ada")
    assert shown["created_by"].startswith("cli")


def test_waiting_for_a_job_that_fails_exits_with_one_and_its_error(posthouse, worker):
    arguments = ("enqueue", "explode", "--payload", '{"why": "boom"}', "--wait", "--timeout", "20s", "--json")
    answer = posthouse(*arguments)
    assert answer.code == 1
    assert answer.json["status"] == "dead_letter"
    assert answer.err.startswith("error: ")
    assert "boom" in answer.err

    attempts = posthouse("jobs", "attempts", answer.json["id"], "--json").json
    assert [(item["attempt"], item["outcome"]) for item in attempts] == [(1, "failed"), (2, "failed")]


def test_waiting_no_longer_than_asked_for(posthouse, enqueue):
    answer = posthouse("enqueue", "unserved", "--wait", "--timeout", "10ms")
    assert answer.code == 1
    assert "still queued" in answer.err


def test_the_options_of_an_enqueue_land_in_the_job(posthouse, db):
    answer = posthouse(
        "enqueue", "report", "--payload", "-", "--tenant", "acme", "--queue", "slow", "--priority", "urgent",
        "--at", "2040-01-31T08:00+01:00", "--dedupe", "january", "--correlation", "run-1",
        "--subject", "sales", stdin='{"month": 1}',
    )  # fmt: skip
    assert answer.code == 0, answer.err
    job = db.execute(
        "select id::text, payload, tenant_id, queue, priority, scheduled_for, dedupe_key, correlation_id,"
        " subject from posthouse.jobs"
    ).fetchone()
    assert job == (
        answer.out.strip(), {"month": 1}, "acme", "slow", 10, datetime(2040, 1, 31, 7, tzinfo=UTC), "january",
        "run-1", "sales",
    )  # fmt: skip


def test_a_second_enqueue_with_the_same_key_names_the_first_job(posthouse):
    first = posthouse("enqueue", "report", "--dedupe", "january", "--json").json
    second = posthouse("enqueue", "report", "--dedupe", "january", "--json").json
    assert (second["id"], second["outcome"]) == (first["id"], "existing")


def test_a_delay_is_counted_from_now(posthouse, db):
    assert posthouse("enqueue", "report", "--delay", "1h30m").code == 0
    waits = db.execute("select scheduled_for - posthouse.now() from posthouse.jobs").fetchone()[0]
    assert timedelta(minutes=85) < waits <= timedelta(minutes=90)


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["--payload", '{"a": 1,}'], "line 1, column 9"),
        (["--payload", "[1]"], "JSON object"),
        (["--at", "yesterday"], "2030-01-31T08:00Z"),
        (["--delay", "soon"], "30s"),
        (["--priority", "huge"], "urgent"),
        (["--nonsense"], "posthouse enqueue --help"),
    ],
)
def test_wrong_usage_exits_with_two_and_says_what_is_right(offline, arguments, hint):
    answer = offline("enqueue", "report", *arguments)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith("error: ")
    assert hint in answer.err
    assert answer.err.count("\n") == 1


def test_jobs_are_listed_by_filter_and_page(posthouse, enqueue):
    ids = [str(enqueue("mail", tenant_id="acme")) for _ in range(3)]
    enqueue("other")
    first = posthouse("jobs", "list", "--kind", "mail", "--tenant", "acme", "--limit", "2", "--json").json
    assert [job["id"] for job in first] == [ids[2], ids[1]]
    rest = posthouse("jobs", "list", "--kind", "mail", "--after", first[-1]["id"], "--json").json
    assert [job["id"] for job in rest] == [ids[0]]


def test_jobs_are_listed_by_a_line_of_the_filter_language(posthouse, enqueue):
    ids = [str(enqueue("mail", subject=f"letter {number}")) for number in range(3)]
    found = posthouse("jobs", "list", "--filter", 'subject:"letter 1","letter 2"', "--json").json
    assert [job["id"] for job in found] == [ids[2], ids[1]]
    first = posthouse("jobs", "list", "--filter", "-subject:other", "--kind", "mail", "--limit", "2")
    assert f"next page: --after {ids[1]}" in first.err
    rest = posthouse("jobs", "list", "--filter", "kind:mail", "--after", ids[1], "--json").json
    assert [job["id"] for job in rest] == [ids[0]]


def test_a_list_in_a_pipe_is_plain_columns(posthouse, enqueue):
    job = enqueue("mail")
    answer = posthouse("jobs", "list", "--status", "queued")
    head, line = answer.out.splitlines()
    assert head.split()[:3] == ["id", "kind", "status"]
    assert line.split()[:3] == [str(job), "mail", "queued"]
    assert "\x1b" not in answer.out


@pytest.mark.parametrize(
    "arguments", [["--status", "done"], ["--limit", "0"], ["--after", "x"], ["--filter", "stat:x"]]
)
def test_a_filter_that_makes_no_sense_is_wrong_usage(offline, arguments):
    answer = offline("jobs", "list", *arguments)
    assert answer.code == 2
    assert answer.err.startswith("error: ")


def test_an_unknown_job_is_an_error_and_prints_nothing(posthouse):
    answer = posthouse("jobs", "show", uuid4(), "--json")
    assert (answer.code, answer.out) == (1, "")
    assert "does not exist" in answer.err


def test_a_job_is_canceled_and_retried_by_hand_and_audited(posthouse, db, enqueue):
    job = enqueue("mail")
    assert posthouse("jobs", "cancel", job, "--json").json == [{"id": str(job), "status": "canceled"}]
    assert posthouse("jobs", "retry", job).code == 0
    again = posthouse("jobs", "retry", job)
    assert again.code == 1
    assert "already queued" in again.err
    assert db.execute("select status, generation from posthouse.jobs").fetchone() == ("queued", 2)
    audit = db.execute("select action, actor like 'cli%' from posthouse.audit order by id").fetchall()
    assert audit == [("job.cancel", True), ("job.retry", True)]


def test_of_several_jobs_each_is_answered_for(posthouse, enqueue):
    job, unknown = enqueue("mail"), uuid4()
    answer = posthouse("jobs", "cancel", unknown, job, "--json")
    assert answer.code == 1
    assert [item["status"] for item in answer.json] == [None, "canceled"]
    assert answer.json[0]["code"] == "job_not_found"


def test_why_explains_in_words_and_in_json(posthouse, enqueue):
    job = enqueue("mail")
    assert posthouse("jobs", "why", job, "--json").json["reason"] == "no_worker"
    assert "no live worker" in posthouse("jobs", "why", job).out


def test_queues_workers_and_definitions_are_listed(posthouse, worker, enqueue):
    enqueue("mail", queue="slow")
    queues = {queue["name"]: queue for queue in posthouse("queues", "--json").json}
    assert (queues["slow"]["ready"], queues["mail"]["workers"]) == (1, 1)

    (found,) = posthouse("workers", "--json").json
    assert (found["status"], found["kinds"]) == ("idle", ["explode", "greet"])
    keys = [item["key"] for item in posthouse("definitions", "--json").json]
    assert keys == ["explode", "greet"]
    assert posthouse("queues").out.splitlines()[0].split()[:2] == ["queue", "ready"]


def test_a_kind_that_no_worker_has_announced_is_pointed_out(posthouse, worker):
    answer = posthouse("enqueue", "gret")
    assert answer.code == 0
    assert answer.err == "note: no worker has announced the kind 'gret' yet; did you mean 'greet'?\n"
    assert "note" not in posthouse("enqueue", "greet", "--payload", '{"name": "Ada"}').err


@pytest.mark.parametrize("group", ["jobs", "events", "keys", "audit", "alerts", "workers"])
def test_a_group_of_commands_lists_by_default(posthouse, enqueue, group):
    enqueue("mail")
    assert posthouse(group, "--json").json == posthouse(group, "list", "--json").json


def test_the_table_of_workers_fits_into_a_terminal(worker, posthouse):
    with terminal(posthouse, "workers", columns=100) as screen:
        assert screen.end() == 0
    shown = re.sub(r"\x1b\[[0-9;]*m", "", screen.shown)
    assert re.search(r":\d+ +idle +0/\d+ +default \+ 1 ", shown)
    assert "…" not in shown

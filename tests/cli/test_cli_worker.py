"""posthouse worker and posthouse keeper."""

import json
import signal

import pytest

from support.waiting import eventually_sync

SECOND = """
import posthouse

jobs = posthouse.App()


@jobs.job()
async def shout(text: str) -> str:
    return text.upper()
"""


def test_a_worker_says_what_it_is_and_leaves_when_told(posthouse, db):
    worker = posthouse.start(
        "worker", "--app", posthouse.write_app(), "--queue", "mail", "--concurrency", "3"
    )
    line = json.loads(worker.line())
    assert (line["queues"], line["kinds"], line["concurrency"]) == (["mail"], ["explode", "greet"], 3)
    assert "concurrency=3" in line["message"]
    (worker_id,) = db.execute("select id::text from posthouse.workers where concurrency = 3").fetchone()
    assert line["worker_id"] == worker_id
    assert worker.stop() == 0
    assert db.execute("select stopped_at is not null from posthouse.workers").fetchone() == (True,)


def test_log_lines_carry_the_job(posthouse, enqueue, db):
    worker = posthouse.start("worker", "--app", posthouse.write_app())
    started = json.loads(worker.line())
    job = enqueue("greet", payload='{"name": "Ada"}', tenant_id="acme", queue="mail")
    line = json.loads(worker.line())
    assert line["message"] == "greeting Ada"
    about = {name: line[name] for name in ("job_id", "kind", "tenant_id", "attempt", "worker_id")}
    assert about == {
        "job_id": str(job),
        "kind": "greet",
        "tenant_id": "acme",
        "attempt": 1,
        "worker_id": started["worker_id"],
    }


def test_a_failing_job_is_in_the_log_with_its_error(posthouse, enqueue):
    worker = posthouse.start("worker", "--app", posthouse.write_app())
    worker.line()
    enqueue("explode", payload='{"why": "boom"}', max_attempts=1)
    line = json.loads(worker.line())
    assert (line["level"], line["kind"]) == ("error", "explode")
    assert "ValueError: boom" in line["message"]


def test_logs_are_readable_if_asked_for(posthouse):
    worker = posthouse.start("worker", "--app", posthouse.write_app(), "--log-text")
    assert "worker " in worker.line()
    assert worker.stop(signal.SIGINT) == 0


def test_several_apps_are_served_by_one_worker(posthouse, enqueue, db):
    posthouse.write_app("second", SECOND)
    worker = posthouse.start("worker", "--app", posthouse.write_app(), "--app", "second:jobs")
    assert json.loads(worker.line())["kinds"] == ["explode", "greet", "shout"]
    job = enqueue("shout", payload='{"text": "hey"}')
    result = "select result from posthouse.jobs where id = %s and status = 'succeeded'"
    assert eventually_sync(lambda: db.execute(result, (job,)).fetchone()) == ("HEY",)


def test_the_app_may_come_from_the_settings(posthouse):
    worker = posthouse.start("worker", POSTHOUSE_APP=posthouse.write_app())
    assert json.loads(worker.line())["kinds"] == ["explode", "greet"]


BROKEN = "import posthouse\nraise RuntimeError('half written')\n"


@pytest.mark.parametrize(
    ("apps", "code", "hint"),
    [
        ([], 2, "--app module:name"),
        (["nowhere:app"], 1, "module 'nowhere' does not exist"),
        (["shop:nothing"], 1, "did you mean shop:app?"),
        (["broken:app"], 1, "RuntimeError: half written"),
        (["shop:app", "twin:app"], 1, "both shop:app and twin:app define the job kind 'greet'"),
    ],
)
def test_an_app_that_cannot_be_run_is_named_with_the_reason(offline, apps, code, hint):
    offline.write_app()
    (offline.folder / "twin.py").write_text((offline.folder / "shop.py").read_text())
    offline.write_app("broken", BROKEN)
    answer = offline("worker", *(part for app in apps for part in ("--app", app)))
    assert (answer.code, answer.out) == (code, "")
    assert answer.err.startswith("error: ")
    assert hint in answer.err


def test_a_worker_refuses_a_schema_that_it_does_not_know(posthouse, db):
    db.execute(
        "delete from posthouse.migrations where number = (select max(number) from posthouse.migrations)"
    )
    answer = posthouse("worker", "--app", posthouse.write_app())
    assert answer.code == 1
    assert "posthouse migrate" in answer.err


def test_a_keeper_moves_due_jobs_and_leaves_when_told(posthouse, enqueue, db):
    keeper = posthouse.start("keeper")
    assert "promoter" in json.loads(keeper.line())["message"]
    job = enqueue("mail", delay="200 milliseconds")
    moved = "select job_table from posthouse.jobs where id = %s and job_table = 'ready'"
    assert eventually_sync(lambda: db.execute(moved, (job,)).fetchone()) == ("ready",)
    assert keeper.stop() == 0

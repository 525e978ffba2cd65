"""Each type of alert arises from what really happened."""

import asyncio
import signal
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

import posthouse
from posthouse import testing, triggers
from posthouse.alerts.doctor import DoctorChecks
from posthouse.core.alerts import AlertType
from posthouse.keeper.keeper import Keeper
from posthouse.storage.connections import ReconnectingConnection
from support import forkserver
from support.waiting import WAIT_SECONDS, eventually
from support.workers import running_worker

SLEEPER = Path(__file__).with_name("hanging_worker.py")


async def test_a_job_that_uses_up_its_attempts_raises_an_alert(app, alerter, alerts):
    @app.job(max_attempts=1)
    async def import_photo(job: posthouse.Job, name: str) -> None:
        raise ValueError("the file is broken")

    handle = await import_photo.enqueue(name="a.jpg")
    await testing.drain(app)
    assert await alerter().run_once() == {"raised": 1, "posted": 1}
    [alert] = alerts()
    assert (alert["type"], alert["subject"], alert["tenant_id"]) == (
        "job_max_retries_exceeded", "import_photo", "default",
    )  # fmt: skip
    assert alert["details"]["job_id"] == str(handle.id)
    assert "the file is broken" in alert["message"]


async def test_a_job_that_fails_for_good_at_once_raises_none(app, alerter, alerts):
    @app.job()
    async def import_photo() -> None:
        raise posthouse.Fail("no such photo")

    await import_photo.enqueue()
    await testing.drain(app)
    await alerter().run_once()
    assert alerts() == []


async def test_a_killed_worker_raises_an_alert_for_the_job_that_runs_again(app, settings, db, alerts):
    db.execute("select posthouse.enqueue('sleep')")
    process = forkserver.start_python([SLEEPER, settings.database_url])
    keeper = Keeper(settings.database_url, settings)
    try:
        await eventually(
            lambda: db.execute("select 1 from posthouse.running").fetchone(), what="a running job"
        )
        process.send_signal(signal.SIGKILL)
        process.wait(WAIT_SECONDS)
        await keeper.start()
        [alert] = await eventually(lambda: alerts("stale_job_recovered"), what="the alert")
    finally:
        await keeper.stop()
        process.kill()
        process.wait()
    [(name,)] = db.execute("select name from posthouse.workers").fetchall()
    assert alert["subject"] == name
    assert "will run again" in alert["message"]
    assert alerts("job_max_retries_exceeded") == []


def fail(jobs, subject=None, error=None, kind="task", tenant="default"):
    job = jobs.start(kind, subject=subject, tenant_id=tenant)
    jobs.settle(job, "fail", error=error or {"type": "ValueError", "message": "broken"})


async def test_failures_of_one_subject_make_a_pattern(jobs, alerter, alerts):
    for number in range(5):
        fail(jobs, subject="video 7", error={"type": f"Error{number}", "message": "broken"})
        fail(jobs, subject=f"other {number}", error={"type": f"Other{number}", "message": "broken"})
    await alerter(alert_pattern_failures=5).run_once()
    [alert] = alerts("job_failed_pattern")
    assert alert["subject"] == "video 7"
    assert (alert["details"]["failures"], alert["details"]["jobs"]) == (5, 5)


async def test_attempts_of_one_job_count_for_its_subject(jobs, alerter, alerts):
    job_id = jobs.enqueue(subject="video 7", max_attempts=9)
    for _ in range(3):
        [job] = jobs.claim()
        jobs.retry(job)
    await alerter(alert_pattern_failures=3).run_once()
    [alert] = alerts("job_failed_pattern")
    assert alert["details"]["last_job_id"] == str(job_id)
    assert alert["details"]["jobs"] == 1


async def test_failures_with_one_fingerprint_make_a_pattern(jobs, alerter, alerts):
    for number in range(3):
        fail(jobs, f"video {number}", {"type": "E", "message": f"{number}", "fingerprint": "f1"})
        fail(jobs, f"video {number}", {"type": "E", "message": f"{number}", "fingerprint": f"x{number}"})
    await alerter(alert_pattern_failures=3).run_once()
    [alert] = alerts("job_failed_pattern")
    assert alert["subject"] == "task f1"


async def test_an_error_without_a_fingerprint_of_its_own_counts_by_kind_and_type(jobs, alerter, alerts):
    for number in range(3):
        fail(jobs, error={"type": "TimeoutError", "message": f"after {number} s"})
        fail(jobs, error={"type": "TimeoutError", "message": "x"}, kind=f"kind {number}")
    await alerter(alert_pattern_failures=3).run_once()
    [alert] = alerts("job_failed_pattern")
    assert (alert["details"]["kind"], alert["details"]["error_type"]) == ("task", "TimeoutError")


async def test_tenants_do_not_make_a_pattern_together(jobs, alerter, alerts):
    for tenant in ("a", "b"):
        for _ in range(2):
            fail(jobs, "video 7", tenant=tenant)
    await alerter(alert_pattern_failures=3).run_once()
    assert alerts("job_failed_pattern") == []


async def test_a_pattern_that_goes_on_is_raised_once_a_window(app, jobs, alerter, alerts):
    async with testing.clock(app) as clock:
        for _ in range(3):
            fail(jobs, "video 7")
        await alerter(alert_pattern_failures=3).run_once()
        fail(jobs, "video 7")
        await alerter(alert_pattern_failures=3).run_once()
        assert len(alerts("job_failed_pattern")) == 1
        await clock.advance("61m")
        await alerter(alert_pattern_failures=3).run_once()
        assert len(alerts("job_failed_pattern")) == 1
        for _ in range(3):
            fail(jobs, "video 7")
        await alerter(alert_pattern_failures=3).run_once()
        assert len(alerts("job_failed_pattern")) == 2


async def test_failures_that_lie_too_far_apart_make_none(app, jobs, alerter, alerts):
    async with testing.clock(app) as clock:
        for _ in range(3):
            fail(jobs, "video 7")
            await clock.advance("31m")
        await alerter(alert_pattern_failures=3).run_once()
    assert alerts("job_failed_pattern") == []


async def test_workers_coming_and_going_raise_alerts_where_that_is_wanted(app, alerter, alerts):
    @app.job()
    async def nothing() -> None: ...

    async with running_worker(app, keeper=False) as worker:
        await alerter().run_once()
        assert alerts() == []
        await alerter(alert_types="+worker_startup,+worker_shutdown").run_once()
        [started] = alerts()
        assert (started["type"], started["subject"]) == ("worker_startup", worker.name)
    await alerter(alert_types="+worker_startup,+worker_shutdown").run_once()
    [_, stopped] = alerts()
    assert (stopped["type"], stopped["message"]) == ("worker_shutdown", f"worker {worker.name} stopped")


@pytest.fixture
async def doctor(settings):
    connection = ReconnectingConnection(settings.database_url, "keeper")
    yield lambda **changes: DoctorChecks(connection, replace(settings, **changes))
    await connection.close()


async def test_jobs_that_are_not_claimed_raise_a_stuck_queue_alert(app, jobs, doctor, alerts):
    jobs.enqueue("mail", queue="post")
    async with testing.clock(app) as clock:
        assert await doctor().run_once() == {"raised": 0}
        await clock.advance("301s")
        assert await doctor().run_once() == {"raised": 1}
        await clock.advance("10m")
        assert await doctor().run_once() == {"raised": 0}  # it is still the same job that waits
    [alert] = alerts("queue_stuck")
    assert (alert["subject"], alert["details"]["kind"]) == ("post", "mail")
    assert "posthouse jobs why" in alert["details"]["advice"]


async def test_a_queue_whose_workers_take_nothing_is_stuck(app, jobs, doctor, alerts, db):
    jobs.enqueue()
    async with testing.clock(app) as clock:
        await clock.advance("301s")
        jobs.register()
        assert await doctor().run_once() == {"raised": 1}
    [alert] = alerts("queue_stuck")
    assert "serve them, but claim nothing" in alert["message"]


async def test_the_alert_of_a_stuck_queue_names_only_its_own_jobs(app, jobs, doctor, alerts):
    jobs.enqueue("mail", queue="post")
    jobs.enqueue("invoice", queue="billing")
    async with testing.clock(app) as clock:
        await clock.advance("301s")
        assert await doctor().run_once() == {"raised": 2}
    named = {alert["subject"]: alert["message"].partition(". ")[0] for alert in alerts("queue_stuck")}
    assert named == {
        "post": "no live worker can run mail in post (1, no definition)",
        "billing": "no live worker can run invoice in billing (1, no definition)",
    }


async def test_a_paused_queue_is_not_stuck(app, jobs, doctor, db):
    jobs.enqueue("mail", queue="post")
    db.execute("select posthouse.pause_queue('post', 'tester')")
    async with testing.clock(app) as clock:
        await clock.advance("301s")
        assert await doctor().run_once() == {"raised": 0}


async def test_a_long_transaction_raises_one_alert(settings, doctor, alerts):
    with psycopg.connect(settings.database_url) as forgotten:
        forgotten.execute("create table forgotten ()")  # an xid: it holds back the horizon
        pid = forgotten.info.backend_pid
        keeper = doctor(alert_transaction_age_seconds=1.0)
        async with asyncio.timeout(WAIT_SECONDS):
            while not alerts("horizon_pinned"):
                await keeper.run_once()
        await keeper.run_once()
        [alert] = alerts("horizon_pinned")
        assert alert["subject"] == f"session {pid}"
        assert "query" not in alert["details"]
        forgotten.rollback()


def test_sql_raises_an_alert_in_the_callers_transaction_once_a_fact(db, alerts):
    raised = (
        "select posthouse.raise_alert('trigger_error', 'acme', 'nightly', 'no such path', '{}', 'event 7')"
    )
    with db.transaction(force_rollback=True):
        assert db.execute(raised).fetchone() == (True,)
    assert alerts() == []
    assert db.execute(raised).fetchone() == (True,)
    assert db.execute(raised).fetchone() == (False,)
    [alert] = alerts()
    assert (alert["tenant_id"], alert["subject"]) == ("acme", "nightly")


def test_sql_without_a_key_raises_an_alert_each_time(db, alerts):
    for _ in range(2):
        db.execute("select posthouse.raise_alert('trigger_error', null, 'nightly', 'no such path')")
    assert len(alerts()) == 2


def test_a_type_that_there_is_not_is_refused(db):
    with pytest.raises(psycopg.Error, match="trigger_error") as caught:
        db.execute("select posthouse.raise_alert('trigger_eror', null, 'x', 'x')")
    assert caught.value.sqlstate == "PH016"


def test_python_and_the_database_know_the_same_types(db):
    found = {name for (name,) in db.execute("select type from posthouse.alert_types").fetchall()}
    assert found == set(AlertType)


async def test_a_trigger_whose_template_does_not_fit_its_event_raises_an_alert(app, settings, db, alerts):
    """Once a minute at most, however many events it fails on."""
    db.execute("select posthouse.announce(%s)", ('[{"key": "sync-folder"}]',))
    async with await psycopg.AsyncConnection.connect(settings.database_url, autocommit=True) as connection:
        await triggers.create_trigger(
            connection,
            {
                "label": "Resync",
                "event_name": "folder.updated",
                "definition_key": "sync-folder",
                "payload_template": {"id": "{{event.nowhere}}"},
            },
            actor="test",
            tenant="acme",
        )
    keeper = Keeper(settings.database_url, settings)
    for _ in range(3):
        await app.client.emit("folder.updated", {"provider_id": "p-1"}, tenant="acme")
        await keeper.matcher.run_once()
    await keeper.stop()
    [alert] = alerts("trigger_error")
    assert (alert["tenant_id"], alert["subject"]) == ("acme", "Resync")
    assert "event.nowhere is missing" in alert["message"]

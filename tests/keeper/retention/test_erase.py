"""Erasing a subject: nothing of what its jobs held is left, and times and statuses stay."""

import asyncio
import dataclasses
import json

import psycopg
import pytest

import posthouse
from posthouse import testing
from posthouse.blobs import open_store
from posthouse.client.sync import SyncClient
from posthouse.errors import IllegalTransition, InvalidRequest
from posthouse.keeper.keeper import Keeper
from posthouse.keeper.retention import RetentionService
from posthouse.server.artifacts import Sweeper, Uploads
from posthouse.storage.actions import retry_job
from posthouse.storage.connections import ReconnectingConnection
from support.waiting import eventually
from support.workers import claim_as_other_worker, job_row, job_status, running_worker, status_counts

CANARY = "Zaphod Beeblebrox"
LARGE = CANARY + 3000 * "."
"""Too large for the row of a job: the payload is in a table of its own."""
KEPT = "select id, status, queued_at, started_at, finished_at, attempt_count from posthouse.jobs order by id"
TRIED = """select job_id, attempt, outcome, started_at, finished_at, error_type
from posthouse.attempts order by job_id, attempt"""


def tables_with(db, text):
    """The tables of the engine in which a text occurs."""
    tables = db.execute(
        "select c.relname from pg_class as c where c.relnamespace = 'posthouse'::regnamespace"
        " and c.relkind in ('r', 'p') and not c.relispartition"
    ).fetchall()
    find = "select 1 from posthouse.{} as t where t::text like %s limit 1"
    return {name for (name,) in tables if db.execute(find.format(name), (f"%{text}%",)).fetchone()}


@pytest.fixture
def settings(settings, tmp_path):
    return dataclasses.replace(settings, data_dir=tmp_path / "data")


@pytest.fixture
def handlers(app, tmp_path):
    file = tmp_path / "letter"
    file.write_text(CANARY)

    @app.job(retry=posthouse.Retry("0s"), max_attempts=2)
    async def greet(job: posthouse.Job, name: str, fails: bool = False) -> str:
        job.log.info("greeting %s", name)
        await job.progress(50, step=f"step for {name[:20]}", message=f"greeting {name[:20]}")
        await job.part(name[:20]).start(message=name[:20])
        await job.step("greet", lambda: name)
        await job.upload(file, "letter")
        if fails:
            raise ValueError(f"no greeting for {name}")
        return f"hello {name}"

    app.greet = greet
    return app


async def _filled(app):
    """Run jobs of customer-7 that leave the canary in many tables, and one of another subject."""
    for payload in ({"name": CANARY}, {"name": LARGE}, {"name": CANARY, "fails": True}):
        await app.greet.using(subject="customer-7").enqueue(**payload)
    await app.greet.using(subject="customer-8").enqueue(name="Ford")
    await app.client.emit("customer.changed", {"name": CANARY}, subject="customer-7")
    assert await testing.drain(app) == {"succeeded": 3, "dead_letter": 1}
    keeper = Keeper(app.settings.database_url, app.settings)
    for step in (keeper.grouper, keeper.matcher, keeper.alerter):
        await step.run_once()
    await keeper.stop()


async def _swept(settings):
    """The files that are left in the artifact storage after the server's clean-up."""
    connection, store = ReconnectingConnection(settings.database_url, "test"), open_store(settings)
    await Sweeper(connection, store, Uploads(store, settings)).run_once()
    await connection.close()
    return [file for file in (settings.data_dir / "artifacts").rglob("*") if file.is_file()]


async def test_of_a_subject_only_times_and_statuses_are_left(handlers, db):
    await _filled(handlers)
    assert tables_with(db, CANARY) == {
        "history", "payloads", "past_attempts", "log_lines", "parts", "steps", "events", "failure_groups",
        "alerts",
    }  # fmt: skip
    kept, tried = db.execute(KEPT).fetchall(), db.execute(TRIED).fetchall()

    erasure = await handlers.client.erase("customer-7", actor="ada")

    assert (erasure.state, erasure.jobs, erasure.events, erasure.artifacts) == ("erased", 3, 1, 3)
    assert tables_with(db, CANARY) == set()
    assert (db.execute(KEPT).fetchall(), db.execute(TRIED).fetchall()) == (kept, tried)
    of_subject = "select payload, result, erased_at is not null from posthouse.jobs where subject = %s"
    assert db.execute(of_subject, ("customer-7",)).fetchall() == [({}, None, True)] * 3
    assert db.execute(of_subject, ("customer-8",)).fetchall() == [({"name": "Ford"}, "hello Ford", False)]
    letters = await _swept(handlers.settings)
    [(other,)] = db.execute("select id from posthouse.jobs where subject = 'customer-8'").fetchall()
    assert [file.parent.name for file in letters] == [str(other)]


async def test_an_erasure_is_on_record(handlers, db):
    await _filled(handlers)
    await handlers.client.erase("customer-7", actor="ada")
    [(actor, tenant, target, after)] = db.execute(
        "select actor, tenant_id, target, after from posthouse.audit where action = 'subject.erase'"
    ).fetchall()
    assert (actor, tenant, target) == ("ada", "default", "customer-7")
    assert (after["state"], after["jobs"]) == ("erased", 3)


async def test_queued_jobs_are_canceled_and_erased_at_once(handlers, db):
    now = await handlers.greet.using(subject="customer-7").enqueue(name=CANARY)
    later = await handlers.greet.using(subject="customer-7", delay="1h").enqueue(name=CANARY)
    other = await handlers.greet.using(subject="customer-8").enqueue(name="Ford")
    erasure = await handlers.client.erase("customer-7")
    assert (erasure.state, erasure.jobs) == ("erased", 2)
    assert [job_status(db, handle.id) for handle in (now, later, other)] == ["canceled", "canceled", "queued"]
    assert tables_with(db, CANARY) == set()


async def test_a_running_job_is_stopped_and_erased_when_it_has_ended(app, db):
    started = asyncio.Event()

    @app.job()
    async def wait(job: posthouse.Job, name: str) -> None:
        job.log.info("waiting for %s", name)
        started.set()
        await asyncio.sleep(3600)

    handle = await wait.using(subject="customer-7").enqueue(name=CANARY)
    async with running_worker(app, keeper=False):
        await asyncio.wait_for(started.wait(), 20)
        erasure = await app.client.erase("customer-7")
        assert (erasure.state, erasure.jobs) == ("erasing", 0)
        late = await wait.using(subject="customer-7", delay="1h").enqueue(name=CANARY)
        await eventually(lambda: job_status(db, handle.id) == "canceled")
    keeper = Keeper(app.settings.database_url, app.settings)
    await keeper.eraser.run_once()
    await keeper.stop()
    assert db.execute("select state, jobs from posthouse.erasures").fetchall() == [("erased", 2)]
    assert status_counts(db) == {"canceled": 2}
    assert job_row(db, late.id)["erased_at"] is not None
    assert tables_with(db, CANARY) == set()


async def test_a_second_call_continues_the_erasure_that_is_under_way(app, db):
    @app.job()
    async def wait(name: str) -> None: ...

    handle = await wait.using(subject="customer-7").enqueue(name=CANARY)
    _, token = claim_as_other_worker(db, kinds=["wait"])
    first = await app.client.erase("customer-7")
    db.execute("select posthouse.succeed(%s, %s, null, null)", ([handle.id], [token]))
    second = await app.client.erase("customer-7")
    third = await app.client.erase("customer-7")
    assert (second.id, second.state, second.jobs) == (first.id, "erased", 1)
    assert (third.state, third.jobs) == ("erased", 0)
    assert third.id != first.id


async def test_more_jobs_than_one_step_takes_are_erased_by_the_keeper(app, db):
    db.execute(
        "select posthouse.enqueue('task', %s, subject => 'customer-7') from generate_series(1, 1200)",
        (json.dumps({"name": CANARY}),),
    )
    first = await app.client.erase("customer-7")
    assert (first.state, first.jobs) == ("erasing", 500)
    keeper = Keeper(app.settings.database_url, app.settings)
    for _ in range(3):
        await keeper.eraser.run_once()
    await keeper.stop()
    assert db.execute("select state, jobs from posthouse.erasures").fetchall() == [("erased", 1200)]
    assert tables_with(db, CANARY) == set()


async def test_an_erased_job_is_not_retried(handlers, db):
    await _filled(handlers)
    await handlers.client.erase("customer-7")
    (failed,) = db.execute("select id from posthouse.jobs where status = 'dead_letter'").fetchone()
    async with await psycopg.AsyncConnection.connect(handlers.settings.database_url) as connection:
        with pytest.raises(IllegalTransition, match="payload was erased"):
            await retry_job(connection, failed, actor="ada")


async def test_a_request_after_the_erasure_runs_anew(handlers, db):
    asked = handlers.greet.using(
        subject="customer-7", dedupe_key="greeting", dedupe_window="1h", on_duplicate="reuse"
    )
    await asked.enqueue(name=CANARY)
    await testing.drain(handlers)
    await handlers.client.erase("customer-7")
    again = await asked.enqueue(name="Trillian")
    await testing.drain(handlers)
    assert await again.wait("60s") == "hello Trillian"


async def test_a_tenant_erases_only_its_own_subjects(handlers, db):
    for tenant in ("acme", "globex"):
        await handlers.greet.using(subject="customer-7", tenant=tenant).enqueue(name=CANARY)
    await handlers.client.erase("customer-7", tenant="acme")
    found = db.execute("select tenant_id, status from posthouse.jobs order by tenant_id").fetchall()
    assert found == [("acme", "canceled"), ("globex", "queued")]


async def test_an_erasure_of_a_transaction_that_is_rolled_back_changes_nothing(handlers, db):
    handle = await handlers.greet.using(subject="customer-7").enqueue(name=CANARY)
    with SyncClient(settings=handlers.settings) as client, db.transaction(force_rollback=True):
        assert client.erase("customer-7", connection=db).jobs == 1
    assert job_status(db, handle.id) == "queued"


def test_the_sync_client_erases_too(handlers, db):
    with SyncClient(settings=handlers.settings) as client:
        client.enqueue("greet", {"name": CANARY}, subject="customer-7")
        assert client.erase("customer-7").state == "erased"
        with pytest.raises(InvalidRequest, match="subject"):
            client.erase("")


async def test_artifacts_can_be_kept_for_a_shorter_time_than_their_jobs(handlers, db):
    await _filled(handlers)
    shown = handlers.settings
    db.execute(
        "update posthouse.history set finished_at = finished_at - interval '3 days'"
        " where subject = 'customer-7'"
    )
    db.execute("update posthouse.artifacts set created_at = created_at - interval '4 days'")
    for days, left in ((0.0, 4), (5.0, 4), (2.0, 1)):
        kept = dataclasses.replace(shown, artifacts_retention_days=days)
        await RetentionService(ReconnectingConnection(shown.database_url, "retention"), kept).run_once()
        assert db.execute("select count(*) from posthouse.artifacts").fetchone() == (left,)
    assert db.execute("select count(*) from posthouse.jobs").fetchone() == (4,)

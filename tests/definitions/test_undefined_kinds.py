"""Jobs of kinds without a definition, and what they take from it when it arrives."""

import json

import psycopg
import pytest

from posthouse import insights, testing
from posthouse.core.limit import Limit
from posthouse.core.request import Request
from posthouse.keeper.keeper import Keeper
from support.workers import job_row


@pytest.fixture
def announce(db):
    def call(key, **fields):
        db.execute("select posthouse.announce(%s)", (json.dumps([{"key": key, **fields}]),))

    return call


def definitions(db):
    return [key for (key,) in db.execute("select key from posthouse.definitions order by key")]


def job_settings(db, kind):
    columns = "queue, priority, max_attempts, timeout_seconds"
    return db.execute(f"select {columns} from posthouse.jobs where kind = %s order by id", (kind,)).fetchall()


NEW = {"queue": "mail", "priority": 7, "max_attempts": 9, "timeout_seconds": 60}
DEFAULTS, ADOPTED = ("default", 100, 3, None), ("mail", 7, 9, 60.0)


@pytest.mark.parametrize("delay", [None, 3600])
async def test_waiting_and_ready_jobs_take_what_they_left_to_the_definition(client, db, announce, delay):
    await client.enqueue("letter", delay=delay)
    await client.enqueue("letter", delay=delay, queue="default")
    await client.enqueue("letter", delay=delay, priority=100, max_attempts=3, timeout=5)
    assert job_settings(db, "letter")[0] == DEFAULTS
    announce("letter", **NEW)
    assert job_settings(db, "letter") == [ADOPTED, ("default", 7, 9, 60.0), ("mail", 100, 3, 5.0)]
    assert db.execute("select count(*) from posthouse.undefined_jobs").fetchone() == (0,)


async def test_jobs_by_every_way_in_are_adopted(client, sync_client, db, database, announce):
    await client.enqueue("letter")
    await client.enqueue_many([Request(kind="letter")] * 600)
    sync_client.enqueue_many([Request(kind="letter")] * 600)
    await client.enqueue_many([Request(kind="letter", dedupe_key=str(number)) for number in range(3)])
    db.execute("select posthouse.enqueue('letter')")
    with psycopg.connect(database) as connection:
        sync_client.enqueue_many([Request(kind="letter")] * 2, connection=connection)
    announce("letter", **NEW)
    assert set(job_settings(db, "letter")) == {ADOPTED}
    assert len(job_settings(db, "letter")) == 1 + 600 + 600 + 3 + 1 + 2


async def test_adopted_jobs_keep_their_order_and_are_claimed(app, client, db):
    jobs = [(await client.enqueue("letter", {"number": number})).id for number in range(5)]
    ran = []

    @app.job(queue="mail", limit_by="number", limits=[Limit(running=1, per="key")])
    async def letter(number: int) -> None:
        ran.append(number)

    assert (await testing.drain(app, queues=("mail",)))["succeeded"] == 5
    assert {job_row(db, job)["queue"] for job in jobs} == {"mail"}
    assert sorted(ran) == list(range(5))
    assert {job_row(db, job)["limit_key"] for job in jobs} == {str(number) for number in range(5)}


async def test_order_survives_a_move_to_another_lane(client, db, announce):
    jobs = [(await client.enqueue("letter")).id for _ in range(50)]
    announce("letter", **NEW)
    found = db.execute("select id from posthouse.ready order by position").fetchall()
    assert [job for (job,) in found] == jobs


async def test_a_job_of_a_transaction_that_was_open_is_adopted_by_the_keeper(
    settings, database, db, announce, sync_client
):
    with psycopg.connect(database) as connection:
        job = sync_client.enqueue("letter", connection=connection)
        announce("letter", **NEW)
    assert job_settings(db, "letter") == [DEFAULTS]
    keeper = Keeper(database, settings)
    await keeper.run_once()
    await keeper.stop()
    assert job_row(db, job.id)["queue"] == "mail"


def test_notes_of_jobs_that_ended_are_deleted(sync_client, db):
    gone, stays = sync_client.enqueue("letter"), sync_client.enqueue("letter")
    db.execute("select posthouse.cancel(%s)", (gone.id,))
    db.execute("select posthouse.delete_stale_rows(posthouse.now())")
    assert db.execute("select job_id from posthouse.undefined_jobs").fetchall() == [(stays.id,)]


async def test_enqueueing_by_the_handler_announces_its_definition(app, db):
    @app.job(queue="mail", timeout=60, limits=[Limit(running=3)])
    async def letter(number: int) -> None:
        """Write a letter."""

    letter.on_schedule("0 2 * * *", {"number": 1})
    job = await letter.enqueue(number=1)
    assert definitions(db) == ["letter"]
    assert job_row(db, job.id)["timeout_seconds"] == 60
    assert db.execute("select count(*) from posthouse.undefined_jobs").fetchone() == (0,)
    assert db.execute("select kinds from posthouse.limits").fetchall() == [(["letter"],)]
    assert db.execute("select description from posthouse.definitions").fetchone() == ("Write a letter.",)
    assert db.execute("select count(*) from posthouse.triggers").fetchone() == (0,)  # announced by workers


def test_so_does_the_synchronous_client_and_a_batch(app, db):
    @app.job()
    def letter(number: int) -> None: ...

    @app.job()
    def poster() -> None: ...

    letter.enqueue_sync(number=1)
    assert definitions(db) == ["letter"]
    app.sync_client.enqueue_many([letter.request({"number": 1}), poster.request({})])
    assert definitions(db) == ["letter", "poster"]


async def test_a_definition_that_exists_is_not_announced_again_by_a_client(app, db, announce):
    @app.job(queue="old")
    async def letter() -> None: ...

    announce("letter", queue="new")
    await letter.enqueue()
    assert db.execute("select queue from posthouse.definitions").fetchone() == ("new",)


async def test_a_callers_transaction_holds_no_lock_on_definitions(app, db, database):
    @app.job(queue="mail", timeout=60)
    async def letter() -> None: ...

    async with await psycopg.AsyncConnection.connect(database) as connection:
        job = await letter.enqueue(connection=connection)
        assert definitions(db) == []
        db.execute("set lock_timeout = '5s'")
        db.execute("select posthouse.announce(%s)", (json.dumps([letter.definition.announcement()]),))
    await testing.drain(app)
    assert job_row(db, job.id)["status"] == "succeeded"


async def test_why_says_that_there_is_no_definition(client, database, announce):
    job = await client.enqueue("letter")
    later = await client.enqueue("letter", delay=60)
    connection = await psycopg.AsyncConnection.connect(database, autocommit=True)
    async with connection:
        found = await insights.why(connection, job.id)
        assert found.summary.startswith("no definition of kind 'letter'; no live worker")
        assert (await insights.why(connection, later.id)).also == ["no definition of kind 'letter'"]
        announce("letter")
        assert "no definition" not in (await insights.why(connection, job.id)).summary

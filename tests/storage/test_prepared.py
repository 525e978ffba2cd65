"""A prepared statement on a connection of its own, as a client uses it to enqueue one job."""

import asyncio
import gc

import psycopg
import pytest

from posthouse.storage import prepared
from posthouse.storage.prepared import PreparedStatements
from support.waiting import eventually, eventually_sync

NOTE = "insert into note (text) select %s::text where pg_sleep(%s::float) is not null"
PLAIN = "insert into note (text) values (%s)"


@pytest.fixture
def db(database):
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("create table note (text text)")
        yield connection


@pytest.fixture
async def statement():
    made = PreparedStatements("test", {"note": NOTE, "plain": PLAIN})
    yield made
    await made.close()


def notes(db):
    return [text for (text,) in db.execute("select text from note")]


def waiting(db):
    """The sessions whose statement sleeps or waits for a lock."""
    return db.execute(
        "select pid from pg_stat_activity where datname = current_database() "
        "and application_name = 'posthouse test' and wait_event in ('PgSleep', 'advisory')"
    ).fetchall()


def sessions(db, state):
    return db.execute(
        "select pid from pg_stat_activity where datname = current_database() "
        "and application_name = 'posthouse test' and state = %s",
        (state,),
    ).fetchall()


async def test_all_calls_use_one_connection(database, db, statement):
    for text in ("one", "two", "three"):
        await statement.run(database, "note", (text, "0"))
    assert notes(db) == ["one", "two", "three"]
    assert len(sessions(db, "idle")) == 1


async def test_statements_share_the_connection_and_take_nulls(database, db, statement):
    await statement.run(database, "note", ("one", "0"))
    await statement.run(database, "plain", (None,))
    assert notes(db) == ["one", None]
    assert len(sessions(db, "idle")) == 1


async def test_a_value_that_exceeds_the_buffer_of_the_socket_arrives_whole(database, db, statement):
    await statement.run(database, "note", ("é" * 20_000_000, "0"))
    assert db.execute("select length(text) from note").fetchone() == (20_000_000,)


async def test_an_error_of_a_statement_leaves_the_connection_usable(database, db, statement):
    await statement.run(database, "note", ("before", "0"))
    before = sessions(db, "idle")
    with pytest.raises(psycopg.errors.InvalidTextRepresentation, match="never"):
        await statement.run(database, "note", ("wrong", "never"))
    await statement.run(database, "note", ("after", "0"))
    assert notes(db) == ["before", "after"]
    assert sessions(db, "idle") == before


async def test_a_canceled_call_cancels_the_statement_in_postgres(database, db, statement):
    call = asyncio.create_task(statement.run(database, "note", ("never", "600")))
    await eventually(lambda: waiting(db))
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await eventually(lambda: not waiting(db))
    await statement.run(database, "note", ("next", "0"))
    assert notes(db) == ["next"]


async def test_a_connection_lost_during_a_call_is_an_error_and_is_opened_again_for_the_next(
    database, db, statement
):
    call = asyncio.create_task(statement.run(database, "note", ("never", "600")))
    (session,) = await eventually(lambda: waiting(db))
    db.execute("select pg_terminate_backend(%s)", session)
    with pytest.raises(psycopg.OperationalError):
        await call
    await statement.run(database, "note", ("next", "0"))
    assert notes(db) == ["next"]


async def test_closing_waits_for_the_call_under_way(database, db):
    db.execute("select pg_advisory_lock(1)")
    blocked = PreparedStatements("test", {"lock": "select pg_advisory_lock_shared(%s::bigint)"})
    call = asyncio.create_task(blocked.run(database, "lock", ("1",)))
    await eventually(lambda: waiting(db))
    await blocked.close()
    db.execute("select pg_advisory_unlock(1)")
    await call
    await eventually(lambda: not sessions(db, "idle"))


def test_a_connection_that_was_not_closed_ends_with_the_program_without_a_warning(database, db):
    async def forget():
        await PreparedStatements("test", {"plain": PLAIN}).run(database, "plain", ("one",))

    asyncio.run(forget())
    gc.collect()  # a warning would fail the test
    eventually_sync(lambda: not sessions(db, "idle"))


async def test_an_unused_connection_is_closed(database, db, statement, monkeypatch):
    monkeypatch.setattr(prepared, "IDLE_SECONDS", 0.0)
    await statement.run(database, "note", ("one", "0"))
    await eventually(lambda: not sessions(db, "idle"))
    await statement.run(database, "note", ("two", "0"))
    assert notes(db) == ["one", "two"]

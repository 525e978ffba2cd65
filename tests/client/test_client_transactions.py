"""Enqueue in the caller's own transaction: with it or not at all, whichever library the caller uses."""

import asyncio
import json
import sqlite3
from contextlib import asynccontextmanager, contextmanager, suppress
from uuid import uuid4

import asyncpg
import psycopg
import pytest
import sqlalchemy
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import dict_row
from psycopg_pool import ConnectionPool
from sqlalchemy.ext.asyncio import AsyncSession, async_scoped_session, async_sessionmaker, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from posthouse import Client, Request, SyncClient
from posthouse.errors import DuplicateJob, InvalidJob, InvalidPayload
from support.django_orm import django_database


class Rollback(Exception):
    """Raised in a transaction so that it is rolled back."""


def alchemy_url(url, driver):
    parts = conninfo_to_dict(url)
    return sqlalchemy.URL.create(
        f"postgresql+{driver}", parts["user"], parts.get("password"), parts["host"], int(parts["port"]),
        parts["dbname"],
    )  # fmt: skip


@contextmanager
def psycopg_connection(url):
    with psycopg.connect(url) as connection, connection.transaction():
        yield connection


@contextmanager
def psycopg_with_dict_rows(url):
    with psycopg.connect(url, row_factory=dict_row) as connection, connection.transaction():
        yield connection


@contextmanager
def psycopg_with_client_cursors(url):
    with psycopg.connect(url, cursor_factory=psycopg.ClientCursor) as connection, connection.transaction():
        yield connection


@contextmanager
def psycopg_with_raw_cursors(url):
    with psycopg.connect(url, cursor_factory=psycopg.RawCursor) as connection, connection.transaction():
        yield connection


@contextmanager
def psycopg_cursor(url):
    with psycopg.connect(url) as connection, connection.transaction(), connection.cursor() as cursor:
        yield cursor


@contextmanager
def alchemy(url, enter):
    engine = sqlalchemy.create_engine(alchemy_url(url, "psycopg"))
    try:
        with enter(engine) as connection:
            yield connection
    finally:
        engine.dispose()


def alchemy_core(url):
    return alchemy(url, lambda engine: engine.begin())


@contextmanager
def alchemy_session(url):
    with alchemy(url, Session) as session, session.begin():
        yield session


@contextmanager
def alchemy_scoped_session(url):
    with alchemy(url, lambda engine: engine.connect()) as connection:
        session = scoped_session(sessionmaker(connection))
        with session.begin():
            yield session
        connection.commit()
        session.remove()


@contextmanager
def django_connection(url):
    with django_database(url) as (connections, alias):
        from django.db import transaction  # noqa: PLC0415 - needs the settings

        try:
            with transaction.atomic(using=alias):
                yield connections[alias]
        finally:
            connections[alias].close()


SYNC = [
    psycopg_connection, psycopg_with_dict_rows, psycopg_with_client_cursors, psycopg_with_raw_cursors,
    psycopg_cursor, alchemy_core, alchemy_session, alchemy_scoped_session, django_connection,
]  # fmt: skip


@asynccontextmanager
async def psycopg_async(url):
    async with await psycopg.AsyncConnection.connect(url) as connection, connection.transaction():
        yield connection


@asynccontextmanager
async def psycopg_async_with_dict_rows(url):
    connecting = psycopg.AsyncConnection.connect(url, row_factory=dict_row)
    async with await connecting as connection, connection.transaction():
        yield connection


@asynccontextmanager
async def asyncpg_connection(url, **options):
    parts = conninfo_to_dict(url)
    connection = await asyncpg.connect(
        user=parts["user"], password=parts.get("password"), host=parts["host"], port=int(parts["port"]),
        database=parts["dbname"],
    )  # fmt: skip
    try:
        if options:
            await connection.set_type_codec("jsonb", schema="pg_catalog", **options)
        async with connection.transaction():
            yield connection
    finally:
        await connection.close()


def asyncpg_with_json_codec(url):
    return asyncpg_connection(url, encoder=json.dumps, decoder=json.loads)


@asynccontextmanager
async def asyncpg_pool(url):
    parts = conninfo_to_dict(url)
    pool = asyncpg.create_pool(
        user=parts["user"], password=parts.get("password"), host=parts["host"], port=int(parts["port"]),
        database=parts["dbname"], min_size=1, max_size=2,
    )  # fmt: skip
    async with pool, pool.acquire() as connection, connection.transaction():
        yield connection


@asynccontextmanager
async def alchemy_async(url, driver, enter):
    engine = create_async_engine(alchemy_url(url, driver))
    try:
        async with enter(engine) as connection:
            yield connection
    finally:
        await engine.dispose()


def alchemy_async_core_on_psycopg(url):
    return alchemy_async(url, "psycopg", lambda engine: engine.begin())


def alchemy_async_core_on_asyncpg(url):
    return alchemy_async(url, "asyncpg", lambda engine: engine.begin())


@asynccontextmanager
async def alchemy_async_session(url, driver):
    async with alchemy_async(url, driver, AsyncSession) as session, session.begin():
        yield session


def alchemy_async_session_on_psycopg(url):
    return alchemy_async_session(url, "psycopg")


def alchemy_async_session_on_asyncpg(url):
    return alchemy_async_session(url, "asyncpg")


@asynccontextmanager
async def alchemy_async_scoped_session(url):
    engine = create_async_engine(alchemy_url(url, "psycopg"))
    session = async_scoped_session(async_sessionmaker(engine), scopefunc=asyncio.current_task)
    try:
        async with session.begin():
            yield session
    finally:
        await session.remove()
        await engine.dispose()


ASYNC = [
    psycopg_async, psycopg_async_with_dict_rows, asyncpg_connection, asyncpg_with_json_codec, asyncpg_pool,
    alchemy_async_core_on_psycopg, alchemy_async_core_on_asyncpg, alchemy_async_session_on_psycopg,
    alchemy_async_session_on_asyncpg, alchemy_async_scoped_session,
]  # fmt: skip

JOBS = [
    Request(kind="task", payload={"text": 'it\'s 100 % "quoted" \\ $1 :x ünï\n'}),
    Request(kind="task", delay="1h", dedupe_key="a"),
    Request(kind="task", payload={"text": "x" * 5_000}, order_key="o"),
]


@pytest.fixture
def sync_client(url):
    with SyncClient(url) as client:
        yield client


@pytest.fixture
async def async_client(url):
    async with Client(url) as client:
        yield client


@pytest.mark.parametrize("connected", SYNC)
def test_jobs_come_with_a_commit(sync_client, engine, url, connected):
    with connected(url) as connection:
        one = sync_client.enqueue("one", {"a": 1}, connection=connection)
        many = sync_client.enqueue_many(JOBS, connection=connection)
        assert engine.count("jobs") == 0
    assert [engine.job(handle.id).payload for handle in many] == [request.payload for request in JOBS]
    assert {handle.outcome for handle in [one, *many]} == {"created"}
    assert engine.claim_one(kinds=["one"]).id == one.id


@pytest.mark.parametrize("connected", SYNC)
def test_jobs_go_with_a_rollback(sync_client, engine, url, connected):
    before = engine.dump_tables()
    with suppress(Rollback), connected(url) as connection:
        sync_client.enqueue("one", connection=connection)
        sync_client.enqueue_many(JOBS, connection=connection)
        raise Rollback
    assert engine.dump_tables() == before


@pytest.mark.parametrize("connected", ASYNC)
async def test_jobs_come_with_an_async_commit(async_client, engine, url, connected):
    async with connected(url) as connection:
        one = await async_client.enqueue("one", {"a": 1}, connection=connection)
        many = await async_client.enqueue_many(JOBS, connection=connection)
        assert engine.count("jobs") == 0
    assert [engine.job(handle.id).payload for handle in many] == [request.payload for request in JOBS]
    assert {handle.outcome for handle in [one, *many]} == {"created"}
    assert engine.claim_one(kinds=["one"]).id == one.id


@pytest.mark.parametrize("connected", ASYNC)
async def test_jobs_go_with_an_async_rollback(async_client, engine, url, connected):
    before = engine.dump_tables()
    with suppress(Rollback):
        async with connected(url) as connection:
            await async_client.enqueue("one", connection=connection)
            await async_client.enqueue_many(JOBS, connection=connection)
            raise Rollback
    assert engine.dump_tables() == before


@pytest.mark.parametrize("connected", SYNC)
def test_a_rejected_duplicate_leaves_the_callers_transaction_usable(sync_client, engine, url, connected):
    holder = engine.enqueue(dedupe_key="k")
    with connected(url) as connection:
        with pytest.raises(DuplicateJob, match=str(holder)):
            sync_client.enqueue("task", dedupe_key="k", on_duplicate="reject", connection=connection)
        kept = sync_client.enqueue("task", connection=connection)
    assert engine.status(kept.id) == "queued"


@pytest.mark.parametrize("connected", ASYNC)
async def test_a_rejected_duplicate_leaves_the_callers_async_transaction_usable(
    async_client, engine, url, connected
):
    holder = engine.enqueue(dedupe_key="k")
    async with connected(url) as connection:
        with pytest.raises(DuplicateJob, match=str(holder)):
            await async_client.enqueue("task", dedupe_key="k", on_duplicate="reject", connection=connection)
        kept = await async_client.enqueue("task", connection=connection)
    assert engine.status(kept.id) == "queued"


@pytest.mark.parametrize("connected", SYNC)
def test_what_the_engine_refuses_is_an_error_of_ours_on_any_connection(sync_client, engine, url, connected):
    with suppress(Rollback), connected(url) as connection:
        with pytest.raises(InvalidJob, match="does not exist"):
            sync_client.enqueue("task", depends_on=[uuid4()], connection=connection)
        raise Rollback
    assert engine.count("jobs") == 0


@pytest.mark.parametrize("connected", ASYNC)
async def test_what_the_engine_refuses_is_an_error_of_ours_on_any_async_connection(
    async_client, engine, url, connected
):
    with suppress(Rollback):
        async with connected(url) as connection:
            with pytest.raises(InvalidJob, match="does not exist"):
                await async_client.enqueue("task", depends_on=[uuid4()], connection=connection)
            raise Rollback
    assert engine.count("jobs") == 0


def test_a_bad_payload_is_refused_before_the_callers_connection_is_touched(sync_client, url):
    with psycopg.connect(url) as connection:
        with pytest.raises(InvalidPayload):
            sync_client.enqueue("task", {"a": "\x00"}, connection=connection)
        assert connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE


def test_an_id_of_the_callers_makes_one_job_over_transactions(sync_client, engine, url):
    job_id = uuid4()
    outcomes = []
    for _ in range(3):
        with psycopg.connect(url) as connection:
            outcomes.append(sync_client.enqueue("task", id=job_id, connection=connection).outcome)
    assert outcomes == ["created", "repeated", "repeated"]
    assert engine.count("jobs") == 1


def unrelated_connections(url):
    yield sqlite3.connect(":memory:")
    yield object()
    yield "postgresql://somewhere"
    yield ConnectionPool(url, open=False)
    yield sqlalchemy.create_engine(alchemy_url(url, "psycopg"))


def test_something_else_than_a_connection_is_refused_by_its_name(sync_client, engine, url):
    for unrelated in unrelated_connections(url):
        with pytest.raises(InvalidJob, match=type(unrelated).__name__) as caught:
            sync_client.enqueue("task", connection=unrelated)
        assert "psycopg, asyncpg, SQLAlchemy or Django" in str(caught.value)
        if hasattr(unrelated, "close"):
            unrelated.close()
    assert engine.count("jobs") == 0


async def test_something_else_than_a_connection_is_refused_by_its_name_in_a_loop_too(async_client, url):
    for unrelated in unrelated_connections(url):
        with pytest.raises(InvalidJob, match=type(unrelated).__name__):
            await async_client.enqueue("task", connection=unrelated)
        if hasattr(unrelated, "close"):
            unrelated.close()


@pytest.mark.parametrize("connected", ASYNC)
async def test_an_async_connection_is_refused_where_nothing_is_awaited(sync_client, engine, url, connected):
    async with connected(url) as connection:
        with pytest.raises(InvalidJob, match="asynchronous"):
            sync_client.enqueue("task", connection=connection)
    assert engine.count("jobs") == 0


# Django itself refuses to connect in a loop.
@pytest.mark.parametrize("connected", [connected for connected in SYNC if connected is not django_connection])
async def test_a_sync_connection_is_refused_where_it_would_block(async_client, engine, url, connected):
    with connected(url) as connection, pytest.raises(InvalidJob, match="synchronous"):
        await async_client.enqueue("task", connection=connection)
    assert engine.count("jobs") == 0

"""Faults while a process starts: those that pass are waited for, the others end it with a clear message."""

import asyncio
import logging
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import psycopg
import pytest

import posthouse
from posthouse.errors import DatabaseUnavailable, InvalidDefinition
from posthouse.settings import Settings
from posthouse.storage.connections import connect_sync
from posthouse.storage.embedded import attach_server
from posthouse.storage.migrations import migrate
from support.server import RunningServer
from support.waiting import eventually

RETRYING = "start-up failed, retrying"


def retries(caplog):
    return [record for record in caplog.records if RETRYING in record.getMessage()]


def an_app(url, **more):
    app = posthouse.App(settings=Settings(database_url=url, drain_seconds=1, **more))

    @app.job()
    async def task() -> None:
        pass

    return app


async def started(app):
    worker = await app.worker()
    await worker.start()
    return worker


async def test_a_worker_waits_for_a_database_that_is_away(proxy, caplog):
    caplog.set_level(logging.WARNING)
    proxy.refuse_connections()
    starting = asyncio.create_task(started(an_app(proxy.url)))
    await eventually(lambda: len(retries(caplog)) >= 2, what="two attempts")
    proxy.accept_connections()
    worker = await asyncio.wait_for(starting, 60)
    await worker.stop()
    assert all(record.exc_info is None for record in retries(caplog))


async def test_a_worker_waits_for_a_lock_on_the_definitions(database, db, caplog):
    caplog.set_level(logging.WARNING)
    impatient = psycopg.conninfo.make_conninfo(database, options="-c lock_timeout=100")
    with db.transaction():
        db.execute("lock table posthouse.definitions")
        starting = asyncio.create_task(started(an_app(impatient)))
        await eventually(lambda: retries(caplog), what="an attempt")
    worker = await asyncio.wait_for(starting, 60)
    await worker.stop()
    assert "lock timeout" in retries(caplog)[0].getMessage()


async def test_a_server_waits_for_a_database_that_is_away(proxy, caplog):
    caplog.set_level(logging.WARNING)
    proxy.refuse_connections()
    server = RunningServer(Settings(database_url=proxy.url))
    starting = asyncio.create_task(server.start())
    await eventually(lambda: retries(caplog), what="an attempt")
    proxy.accept_connections()
    await asyncio.wait_for(starting, 60)
    await server.stop()


async def test_a_wrong_password_and_an_unknown_database_end_the_start(database, caplog):
    for wrong in ({"password": "wrong"}, {"dbname": "posthouse_is_not_here"}):
        app = an_app(psycopg.conninfo.make_conninfo(database, **wrong))
        with pytest.raises(DatabaseUnavailable):
            await asyncio.wait_for(started(app), 60)
    assert not retries(caplog)


async def test_a_definition_that_the_database_refuses_ends_the_start(database, db, caplog):
    db.execute("select posthouse.create_definition('task', %s)", ('{"command": {"argv": ["true"]}}',))
    with pytest.raises(InvalidDefinition):
        await asyncio.wait_for(started(an_app(database)), 60)
    assert not retries(caplog)


def test_sigterm_ends_a_worker_that_waits_for_the_database(worker_processes, proxy):
    proxy.refuse_connections()
    accepted = proxy.accepted
    worker = worker_processes.start(url=proxy.url, ready=False)
    deadline = time.monotonic() + 60
    while proxy.accepted == accepted and time.monotonic() < deadline:
        time.sleep(0.05)
    worker.terminate()
    assert worker.wait(30) == 0


def test_sigterm_ends_a_worker_whose_handler_blocks_the_event_loop(worker_processes, client, files):
    worker = worker_processes.start(drain_seconds=0)
    client.enqueue("block_for_ever", {"started": files.started})
    deadline = time.monotonic() + 60
    while not files.starts() and time.monotonic() < deadline:
        time.sleep(0.05)
    worker.terminate()
    assert worker.wait(60) == 1


async def test_a_worker_stops_in_time_though_the_database_is_away(proxy):
    """Without the bound it took half a minute: each step of the shutdown waited for the database."""
    app = an_app(proxy.url)
    holding, enough = asyncio.Event(), asyncio.Event()

    @app.job()
    async def stubborn() -> None:
        holding.set()
        while not enough.is_set():
            with suppress(asyncio.CancelledError):
                await enough.wait()

    worker = await started(app)
    await app.client.enqueue("stubborn", {})
    await asyncio.wait_for(holding.wait(), 60)
    proxy.refuse_connections()
    await asyncio.wait_for(worker.stop(0), 15)
    enough.set()
    await app.close()


def test_first_migrations_of_two_databases_do_not_fail_each_other(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fresh")
    with attach_server(folder, settings={"fsync": "off", "shared_buffers": "16MB"}) as server:
        names = [f"fresh_{number}" for number in range(3)]
        with connect_sync(server.url, "test") as admin:
            for name in names:
                admin.execute(f"create database {name}")
            with ThreadPoolExecutor(len(names)) as pool:
                list(pool.map(lambda name: migrated(server.url, name), names))


def migrated(url, name):
    with connect_sync(psycopg.conninfo.make_conninfo(url, dbname=name), "test") as connection:
        migrate(connection)
        assert connection.execute("select posthouse.missing_isolation()").fetchone() == (None,)

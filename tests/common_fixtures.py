"""One Postgres for the whole run, a database of its own for every test."""

from __future__ import annotations

import os

import psycopg
import pytest

import posthouse
from databases import Databases
from enginekit import Engine, empty
from posthouse import testing
from posthouse.settings import Settings
from posthouse.storage.embedded import ensure

OUTSIDE = os.environ.get("POSTHOUSE_TEST_DATABASE_URL", "")


@pytest.fixture(autouse=True, scope="session")
def _no_settings_from_outside():
    for name in list(os.environ):
        if name.startswith("POSTHOUSE_") and name != "POSTHOUSE_TEST_DATABASE_URL":
            del os.environ[name]


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """The URL of a Postgres where databases may be made: an outside one, or the embedded one."""
    if OUTSIDE:
        yield OUTSIDE
        return
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base
    # Tests crash Postgres on purpose elsewhere; here nothing outlives the run, so it need not sync.
    with ensure(shared / "postgres", settings={"fsync": "off"}) as embedded:
        yield embedded.url


@pytest.fixture(scope="session")
def databases(server):
    databases = Databases(server)
    yield databases
    databases.close()


@pytest.fixture
def database(databases):
    """The URL of a migrated database in which nothing has happened."""
    with databases.one() as url:
        yield url


@pytest.fixture(scope="session")
def shared_database(server):
    """One that tests of the engine share, emptied before each: making one takes longer than most of them."""
    with testing.database(server) as url:
        yield url


@pytest.fixture
def engine(shared_database):
    with psycopg.connect(shared_database, autocommit=True) as connection:
        empty(connection)
        yield Engine(connection, shared_database)


@pytest.fixture
def settings(database):
    """Quick beats, so that tests need not wait for them."""
    return Settings(
        database_url=database,
        heartbeat_seconds=0.2,
        lease_seconds=2.0,
        cancel_grace_seconds=0.5,
        rescue_grace_seconds=0.0,
        drain_seconds=5.0,
    )


@pytest.fixture
async def app(settings):
    async with posthouse.App(settings=settings) as app:
        yield app


@pytest.fixture
def db(database):
    """A plain connection, for looking and for calling SQL functions."""
    with psycopg.connect(database, autocommit=True) as connection:
        yield connection

"""The SQL engine, driven directly. Its tests share one database, which is emptied before each: making a
database takes many times as long as most of these tests do."""

import psycopg
import pytest

from enginekit import Engine, empty
from posthouse import testing


@pytest.fixture(scope="session")
def shared_database(server):
    with testing.database(server) as url:
        yield url


@pytest.fixture
def engine(shared_database):
    with psycopg.connect(shared_database, autocommit=True) as connection:
        empty(connection)
        yield Engine(connection, shared_database)


@pytest.fixture
def own_engine(db, database):
    """One with a database of its own, for tests that change more than rows."""
    return Engine(db, database)

"""A database whose owner is an ordinary role, and a server for the tests of a module."""

import pytest
from accesskit import migrated, ordinary_role, owned_database, serving

from databases import define
from posthouse import testing
from posthouse.settings import Settings


@pytest.fixture(scope="module")
def plain_owner(server, shared_database):
    """The URL of a migrated database whose owner is an ordinary role, as that role. The roles are there."""
    with (
        ordinary_role(server, member_of=["posthouse_engine"]) as role,
        owned_database(server, role) as url,
    ):
        assert migrated(url) == []
        yield url


@pytest.fixture(scope="module")
def house(server):
    """A server on a database of the module's. Tests use tenants of their own."""
    with testing.database(server) as url, serving(Settings(database_url=url)) as house:
        define(url, "sync")
        yield house

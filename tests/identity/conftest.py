"""A database whose owner is an ordinary role, and a server for the tests of a module."""

import pytest

from posthouse import testing
from posthouse.settings import Settings
from support.databases import define
from support.identity import migrated, ordinary_role, owned_database
from support.server import ServerThread


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
def api_server(server):
    """A server on a database of the module's. Tests use tenants of their own."""
    with testing.database(server) as url, ServerThread(Settings(database_url=url)) as api_server:
        define(url, "sync")
        yield api_server

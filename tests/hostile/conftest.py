"""A server for the tests of a module."""

import pytest

from posthouse import testing
from posthouse.settings import Settings
from support.hostile import HostileServer


@pytest.fixture(scope="module")
def hostile_server(server):
    with (
        testing.database(server) as url,
        HostileServer(Settings(database_url=url, api_requests_per_second=0)) as hostile_server,
    ):
        yield hostile_server

"""A server for the tests of a module."""

import pytest
from hostilekit import served

from posthouse import testing
from posthouse.settings import Settings


@pytest.fixture(scope="module")
def site(server):
    with testing.database(server) as url, served(Settings(database_url=url, api_rate=0)) as site:
        yield site

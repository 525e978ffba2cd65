"""A database whose owner is an ordinary role."""

import pytest
from accesskit import migrated, ordinary_role, owned_database


@pytest.fixture(scope="module")
def plain_owner(server, shared_database):
    """The URL of a migrated database whose owner is an ordinary role, as that role. The roles are there."""
    with (
        ordinary_role(server, member_of=["posthouse_engine"]) as role,
        owned_database(server, role) as url,
    ):
        assert migrated(url) == []
        yield url

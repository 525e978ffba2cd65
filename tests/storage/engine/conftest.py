"""The SQL engine, driven directly."""

import pytest

from support.engine import Engine


@pytest.fixture
def own_engine(db, database):
    """One with a database of its own, for tests that change more than rows."""
    return Engine(db, database)

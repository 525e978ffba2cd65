"""The real command, and what it leaves on record."""

import pytest

from commandline import enqueue, fleet, posthouse

__all__ = ["enqueue", "fleet", "posthouse"]


@pytest.fixture
def entries(db):
    """What is on record, oldest first: action, target, before, after."""
    return lambda: db.execute(
        "select action, target, before, after from posthouse.audit order by id"
    ).fetchall()

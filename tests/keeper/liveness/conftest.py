"""Workers in processes of their own, and a keeper that looks when it is told."""

import pytest

import posthouse


@pytest.fixture
def client(settings):
    with posthouse.SyncClient(settings=settings) as client:
        yield client


@pytest.fixture
def changes(db):
    """What became of workers, oldest first: pid and change."""
    return lambda: db.execute(
        "select w.pid, c.change from posthouse.worker_changes c "
        "join posthouse.workers w on w.id = c.worker_id order by c.id"
    ).fetchall()

"""Real processes, and a wire between them and Postgres that can be cut."""

from pathlib import Path

import pytest

import posthouse
from support.tcp_proxy import TcpProxy


@pytest.fixture
def proxy(database):
    """A wire to Postgres that can be cut. ``proxy.url`` leads through it."""
    with TcpProxy.for_url(database) as proxy:
        proxy.url = proxy.url_for(database)
        yield proxy


@pytest.fixture
def effects(db):
    """The table that jobs write to in their own transactions; how often each did."""
    db.execute("create table effects (job_id uuid not null, attempt integer not null)")
    return lambda: dict(db.execute("select job_id, count(*) from effects group by job_id").fetchall())


@pytest.fixture
def files(tmp_path):
    """Files by which jobs say that they started, and are told to go on."""

    class Files:
        started, until, ended = (str(tmp_path / name) for name in ("started", "until", "ended"))

        def starts(self):
            """The pids of the workers that started such a job, in order."""
            path = Path(self.started)
            return [int(line) for line in path.read_text().split()] if path.exists() else []

        def endings(self):
            path = Path(self.ended)
            return len(path.read_text().split()) if path.exists() else 0

        def ended_at(self):
            """The time at which a job said last that it ended."""
            return Path(self.ended).stat().st_mtime

        def go_on(self):
            Path(self.until).touch()

    return Files()


@pytest.fixture
def client(settings):
    with posthouse.SyncClient(settings=settings) as client:
        yield client

from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import process_jobs
import psutil
import psycopg
import pytest
import pytest_asyncio

from posthouse import testing
from posthouse.app import App
from posthouse.settings import Settings
from posthouse.worker.worker import Worker
from support import forkserver
from support.waiting import eventually_sync
from support.workers import running_worker


@dataclass
class ProcessWorker:
    """The app of process_jobs.py, a worker with one process that runs its jobs, and their database."""

    app: App
    worker: Worker
    db: psycopg.Connection


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def process_worker(server):
    """One for all tests of a module: a process takes half a second to load what it runs."""
    with (
        testing.database(server) as database,
        psycopg.connect(database, autocommit=True) as db,
        no_leftover_processes(),
    ):
        db.execute("create table words (word text)")
        settings = Settings(
            database_url=database,
            heartbeat_seconds=0.2,
            lease_seconds=10.0,  # no test waits for its end, and a busy machine must not reach it
            cancel_grace_seconds=0.5,
            rescue_grace_seconds=0.0,
            process_slots=1,
        )
        async with testing.using(process_jobs.app, settings) as app, running_worker(app) as worker:
            yield ProcessWorker(app, worker, db)


@contextmanager
def no_leftover_processes():
    """Nothing that a worker started is left when the block is over."""
    forkserver.socket_path()  # what forks commands for tests stays
    before = {process.pid for process in psutil.Process().children(recursive=True)}
    yield
    eventually_sync(
        lambda: {process.pid for process in psutil.Process().children(recursive=True)} <= before,
        what="the end of all processes",
    )


@pytest.fixture
async def process_app(settings):
    """The app of process_jobs.py on this test's database, with one process by default: each loads all."""
    app = process_jobs.app
    app._given_settings = replace(settings, process_slots=1)
    app.__dict__.pop("settings", None)
    yield app
    await app.close()


class MarkerFile:
    """Where handlers leave marks, since they share nothing else with the test."""

    def __init__(self, folder: Path) -> None:
        self.folder = str(folder)
        self._folder = folder

    def __iter__(self):
        file = self._folder / "marks"
        return iter(file.read_text().splitlines() if file.exists() else [])

    def pids(self):
        """Those that the first mark names, once there is one."""
        return next(([int(word) for word in mark.split()[1:]] for mark in self if "started" in mark), None)

    def go(self):
        (self._folder / "go").touch()


@pytest.fixture
def marker_file(tmp_path):
    return MarkerFile(tmp_path)


@pytest.fixture
def leftovers():
    with no_leftover_processes():
        yield

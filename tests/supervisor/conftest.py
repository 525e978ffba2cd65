import os
import tempfile
from pathlib import Path

import psutil
import pytest

from support import forkserver
from support.waiting import WAIT_SECONDS, eventually_sync

HERE = Path(__file__).parent
QUICK = {
    "heartbeat_seconds": 0.5,
    "lease_seconds": 4,
    "cancel_grace_seconds": 0.5,
    "rescue_grace_seconds": 0,
    "drain_seconds": 1,
    "poll_seconds": 0.2,
}


class SupervisorProcess:
    """`posthouse worker` with the jobs of blocking_jobs.py."""

    def __init__(self, database, db, *options, **settings):
        values = {**QUICK, **settings, "database_url": database}
        env = {f"POSTHOUSE_{name.upper()}": str(value) for name, value in values.items()}
        words = ["-m", "posthouse", "worker", "--app", "blocking_jobs:app", *options]
        self.db = db
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed in close
        self.process = forkserver.start_python(
            words, folder=HERE, env={**os.environ, **env}, stdout=self._log
        )
        self.pid = self.process.pid

    def workers(self):
        """Return the process ids of the workers that run, by name."""
        rows = self.db.execute("select name, pid from posthouse.workers where stopped_at is null").fetchall()
        return dict(rows)

    def until_workers(self, count):
        eventually_sync(lambda: len(self.workers()) == count, what=f"{count} workers")
        return self.workers()

    def log(self):
        self._log.seek(0)
        return self._log.read()

    def family(self):
        return psutil.Process(self.pid).children(recursive=True)

    def stop(self):
        self.process.terminate()
        return self.process.wait(WAIT_SECONDS)

    def close(self):
        if self.process.poll() is None:
            family = self.family()
            self.process.kill()
            self.process.wait()
            psutil.wait_procs(family, timeout=WAIT_SECONDS)
        self._log.close()


@pytest.fixture
def supervise(database, db):
    started = []

    def start(*options, **settings):
        started.append(SupervisorProcess(database, db, *options, **settings))
        return started[-1]

    yield start
    for one in started:
        one.close()

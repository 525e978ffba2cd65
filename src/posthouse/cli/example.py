"""The files that `posthouse init` writes."""

from __future__ import annotations

JOBS = '''"""The jobs of this application.

`posthouse up` runs them, because posthouse.toml names this module.
"""

import asyncio

import posthouse

app = posthouse.App()


@app.job(timeout="30s", retry=posthouse.Retry("10s", "1m", "5m"))
async def welcome(job: posthouse.Job, name: str) -> str:
    """Return a greeting. An exception would be retried after 10 s, 1 min and 5 min."""
    await job.progress(50, step="writing the greeting")
    await asyncio.sleep(0.2)  # stands for a call to a mail service
    job.log.info("welcomed %s", name)
    job.enqueue(remind, name=name, options={"delay": "1h"})  # enqueued if, and only if, this job succeeds
    return f"Welcome, {name}!"


@app.job()
def remind(name: str) -> str:
    """A plain function runs in a thread, so it may block."""
    return f"{name}, please confirm your address."


@app.job()
async def report() -> str:
    return "nothing to report"


report.on_schedule("0 7 * * *", zone="UTC", label="Daily report")
'''

SETTINGS = """# Settings of Posthouse; `posthouse config` shows all of them.

# The application that `posthouse up` and `posthouse worker` run.
app = "jobs:app"

# Without a database, Posthouse starts an embedded Postgres. To use your own:
# database_url = "postgresql://user@localhost/shop"
"""

TESTS = '''"""Tests of jobs.py on a real Postgres, with a fresh database for each test."""

import asyncio

import jobs
import pytest
from posthouse import testing


@pytest.fixture
def database():
    with testing.database() as url:
        yield url


def test_welcome_returns_a_greeting():
    assert asyncio.run(testing.run(jobs.welcome, name="Ada")) == "Welcome, Ada!"


def test_welcome_enqueues_a_reminder(database):
    async def scenario():
        async with testing.using(jobs.app, database) as app:
            handle = await jobs.welcome.enqueue(name="Ada")
            await testing.drain(app)
            assert await handle.wait("10s") == "Welcome, Ada!"
            await testing.assert_enqueued(app, "remind", {"name": "Ada"})

    asyncio.run(scenario())
'''

FILES = {"jobs.py": JOBS, "posthouse.toml": SETTINGS, "test_jobs.py": TESTS}

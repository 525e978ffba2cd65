"""What tests of workers share: a worker for the length of a block, waiting for conditions, rows."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager

from psycopg.rows import dict_row

from posthouse.keeper.keeper import Keeper


@asynccontextmanager
async def working(app, *, queues=(), keeper=True, drain=None, **settings):
    """A worker of this app, and a keeper beside it, until the block ends."""
    worker = await app.worker(queues=queues, **settings)
    await worker.start()
    housekeeping = Keeper(app.settings.database_url, worker.settings) if keeper else None
    if housekeeping is not None:
        await housekeeping.start()
    try:
        yield worker
    finally:
        if not worker.fetcher.stopping:
            await worker.stop(drain)
        if housekeeping is not None:
            await housekeeping.stop()


async def eventually(condition, seconds=60, what="the condition"):
    """The first true value of the condition; fails if there is none in time."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, f"{what} did not come true within {seconds} s"
        await asyncio.sleep(0.01)
    return value


async def quiet(worker):
    """Returns when a worker with a long heartbeat is past the beats of its start."""
    await eventually(lambda: worker.heartbeat.beats >= 2, what="the beats of the start")


def eventually_sync(condition, seconds=60, what="the condition"):
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, f"{what} did not come true within {seconds} s"
        time.sleep(0.02)
    return value


def row(db, job_id):
    """The job's row in posthouse.jobs. There is never more than one."""
    with db.cursor(row_factory=dict_row) as cursor:
        rows = cursor.execute("select * from posthouse.jobs where id = %s", (job_id,)).fetchall()
    assert len(rows) == 1
    return rows[0]


def status(db, job_id):
    return row(db, job_id)["status"]


def attempts(db, job_id):
    """(number, outcome) of each attempt, oldest first."""
    return db.execute(
        "select attempt, outcome from posthouse.attempts where job_id = %s order by started_at, finished_at",
        (job_id,),
    ).fetchall()


def statuses(db):
    """How many jobs have each status."""
    return dict(db.execute("select status, count(*) from posthouse.jobs group by status").fetchall())


def cancel(db, job_id):
    return db.execute("select posthouse.cancel(%s)", (job_id,)).fetchone()[0]


def give_away(db, job_id):
    """Let the lease of a running job run out and the job be given back, as the keeper does.

    In one transaction: a beat in between would renew the lease, and passes over a row that is locked.
    """
    with db.transaction():
        db.execute("update posthouse.running set lease_expires_at = '-infinity' where id = %s", (job_id,))
        rescued = db.execute("select id from posthouse.rescue(p_grace => '0 s')").fetchall()
    assert (job_id,) in rescued


def take(db, queue="default", kinds=None, lease="1 hour"):
    """Claim one job as some other worker; returns its id and token."""
    kinds = kinds or [kind for (kind,) in db.execute("select distinct kind from posthouse.ready").fetchall()]
    return db.execute(
        "select id, token from posthouse.claim("
        "gen_random_uuid(), gen_random_uuid(), %s, %s, 1, %s::interval)",
        ([queue], kinds, lease),
    ).fetchone()

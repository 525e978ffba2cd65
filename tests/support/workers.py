"""Helpers of tests with workers: run a worker, read its jobs, interfere with their leases."""

from __future__ import annotations

import signal
from contextlib import asynccontextmanager, contextmanager

from psycopg.rows import dict_row

from posthouse.keeper.keeper import Keeper
from support.waiting import eventually


@asynccontextmanager
async def running_worker(app, *, queues=(), keeper=True, drain=None, **settings):
    """Run a worker of the app, and by default a keeper, until the block ends."""
    worker = await app.worker(queues=queues, **settings)
    await worker.start()
    maintenance = Keeper(app.settings.database_url, worker.settings) if keeper else None
    if maintenance is not None:
        await maintenance.start()
    try:
        yield worker
    finally:
        if not worker.fetcher.is_stopping:
            await worker.stop(drain)
        if maintenance is not None:
            await maintenance.stop()


@contextmanager
def signals_ignored():
    """Ignore and block signals in this process, as in one that a script starts with `&` or nohup."""
    numbers = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGUSR1)
    before = {number: signal.signal(number, signal.SIG_IGN) for number in numbers}
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for number, handler in before.items():
            signal.signal(number, handler)


async def wait_for_startup_heartbeats(worker):
    """Wait until a worker with a long heartbeat interval has sent the heartbeats of its start."""
    await eventually(lambda: worker.heartbeat.beats >= 2, what="the heartbeats of the start")


def job_row(db, job_id):
    """Return the job's row in posthouse.jobs; there must be exactly one."""
    with db.cursor(row_factory=dict_row) as cursor:
        rows = cursor.execute("select * from posthouse.jobs where id = %s", (job_id,)).fetchall()
    assert len(rows) == 1
    return rows[0]


def job_status(db, job_id):
    return job_row(db, job_id)["status"]


def attempt_outcomes(db, job_id):
    """Return the number and outcome of each attempt, oldest first."""
    return db.execute(
        "select attempt, outcome from posthouse.attempts where job_id = %s order by started_at, finished_at",
        (job_id,),
    ).fetchall()


def status_counts(db):
    """Return the number of jobs by status."""
    return dict(db.execute("select status, count(*) from posthouse.jobs group by status").fetchall())


def cancel(db, job_id):
    return db.execute("select posthouse.cancel(%s)", (job_id,)).fetchone()[0]


def expire_lease_and_rescue(db, job_id):
    """Expire the lease of a running job and rescue the job, as the keeper does.

    In one transaction: a heartbeat in between would renew the lease, and skips a locked row.
    """
    with db.transaction():
        db.execute("update posthouse.running set lease_expires_at = '-infinity' where id = %s", (job_id,))
        rescued = db.execute(
            "select id from posthouse.rescue(p_grace => '0 s', p_remote_grace => '0 s')"
        ).fetchall()
    assert (job_id,) in rescued


def claim_as_other_worker(db, queue="default", kinds=None, lease="1 hour"):
    """Claim one job as another worker; return its id and token."""
    kinds = kinds or [kind for (kind,) in db.execute("select distinct kind from posthouse.ready").fetchall()]
    return db.execute(
        "select id, token from posthouse.claim("
        "gen_random_uuid(), gen_random_uuid(), %s, %s, 1, %s::interval)",
        ([queue], kinds, lease),
    ).fetchone()

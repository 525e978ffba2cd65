"""What tests of workers share: a worker for the length of a block, waiting for conditions, rows."""

from __future__ import annotations

import signal
from contextlib import asynccontextmanager, contextmanager

from psycopg.rows import dict_row

from posthouse.keeper.keeper import Keeper
from waiting import eventually, eventually_sync  # noqa: F401 - tests import both from here


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
        if not worker.fetcher.is_stopping:
            await worker.stop(drain)
        if housekeeping is not None:
            await housekeeping.stop()


@contextmanager
def background():
    """Ignores and blocks signals in this process, as one that a script starts with `&` or nohup."""
    numbers = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGUSR1)
    before = {number: signal.signal(number, signal.SIG_IGN) for number in numbers}
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for number, handler in before.items():
            signal.signal(number, handler)


async def quiet(worker):
    """Returns when a worker with a long heartbeat is past the beats of its start."""
    await eventually(lambda: worker.heartbeat.beats >= 2, what="the beats of the start")


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
        rescued = db.execute(
            "select id from posthouse.rescue(p_grace => '0 s', p_remote_grace => '0 s')"
        ).fetchall()
    assert (job_id,) in rescued


def take(db, queue="default", kinds=None, lease="1 hour"):
    """Claim one job as some other worker; returns its id and token."""
    kinds = kinds or [kind for (kind,) in db.execute("select distinct kind from posthouse.ready").fetchall()]
    return db.execute(
        "select id, token from posthouse.claim("
        "gen_random_uuid(), gen_random_uuid(), %s, %s, 1, %s::interval)",
        ([queue], kinds, lease),
    ).fetchone()

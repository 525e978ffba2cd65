"""What the tests of processes share."""

import psutil

from support.waiting import eventually
from support.workers import job_status


async def stop_claiming(worker):
    """No more jobs for its processes, not even by a claim that is under way."""
    [index] = [
        i
        for i, local_worker in enumerate(worker._consumers)
        if local_worker.executor._processes is worker.processes
    ]
    local_worker = worker._consumers[index]
    local_worker.fetcher.is_stopping = True
    local_worker.fetcher.wake()
    local_worker.executor.signal_capacity()
    await eventually(worker._fetching[index].done)


async def ended(db, *handles):
    """The statuses of these jobs, when all of them have ended."""
    await eventually(lambda: not {job_status(db, handle.id) for handle in handles} & {"queued", "running"})
    return [job_status(db, handle.id) for handle in handles]


def alive(pid):
    """A zombie is not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def errors(db, job_id):
    """(type, message, exit code, traceback) of each attempt, oldest first."""
    return db.execute(
        "select error_type, error_message, exit_code, traceback from posthouse.attempts "
        "where job_id = %s order by started_at, finished_at",
        (job_id,),
    ).fetchall()

"""Workers that die, stall or are told to stop."""

import signal

import pytest

import posthouse
from posthouse.keeper.keeper import Keeper
from support.waiting import eventually
from support.worker_processes import SHORT_LEASE
from support.workers import attempt_outcomes, cancel, job_row, job_status, status_counts


def _crashes(db):
    return db.execute("select coalesce(sum(crashes), 0) from posthouse.jobs").fetchone()[0]


_seen = set()


def _beats(db):
    """The times of all beats seen so far."""
    _seen.update(db.execute("select id, heartbeat_at from posthouse.workers").fetchall())
    return set(_seen)


def _hold(client, files, kind="hold"):
    payload = {"started": files.started, "until": files.until}
    if kind == "watched_hold":
        payload["ended"] = files.ended
    return client.enqueue(kind, payload)


async def test_jobs_of_a_killed_worker_run_elsewhere_and_nothing_is_doubled(
    worker_processes, client, db, files
):
    # A lease much longer than the test: what is found, is found by the lock that died with the process.
    first = worker_processes.start(lease_seconds=600, heartbeat_seconds=1)
    handles = [_hold(client, files) for _ in range(10)]
    await eventually(lambda: len(files.starts()) == 10)
    second = worker_processes.start(lease_seconds=600, heartbeat_seconds=1)
    first.kill()
    await eventually(lambda: files.starts().count(second.pid) == 10)
    files.go_on()
    await eventually(lambda: status_counts(db) == {"succeeded": 10})
    for handle in handles:
        assert attempt_outcomes(db, handle.id) == [(1, "lost"), (2, "succeeded")]
        assert job_row(db, handle.id)["crashes"] == 1
    buried = db.execute("select pid from posthouse.workers where stopped_at is not null").fetchall()
    assert buried == [(first.pid,)]


async def test_a_stalled_worker_s_late_completion_changes_nothing(
    worker_processes, client, db, files, effects
):
    """Stopped past its lease, then let go on."""
    first = worker_processes.start(keeper=False, **SHORT_LEASE)
    handle = client.enqueue("pay_when_told", {"started": files.started, "until": files.until})
    await eventually(lambda: len(files.starts()) == 1)
    first.pause()
    second = worker_processes.start()
    await eventually(lambda: len(files.starts()) == 2)
    files.go_on()
    await eventually(lambda: job_status(db, handle.id) == "succeeded")
    first.resume()
    # It has to notice, and to be of use again.
    second.terminate()
    assert second.wait() == 0
    later = client.enqueue("quick", {"number": 7})
    assert client.wait(later.id, "20s") == 7
    assert attempt_outcomes(db, handle.id) == [(1, "lost"), (2, "succeeded")]
    assert effects() == {handle.id: 1}
    assert job_row(db, handle.id)["crashes"] == 1


async def test_a_worker_that_was_stopped_and_lost_its_job_gets_it_again_itself(
    worker_processes, client, db, files, settings
):
    """The only worker stalls; a keeper elsewhere takes the job back; the worker wakes up and claims it."""
    worker = worker_processes.start(keeper=False, **SHORT_LEASE)
    handle = _hold(client, files)
    await eventually(lambda: len(files.starts()) == 1)
    keeper = Keeper(settings.database_url, settings)
    await keeper.start()
    worker.pause()
    await eventually(lambda: job_status(db, handle.id) == "queued")
    worker.resume()
    await eventually(lambda: len(files.starts()) == 2)
    files.go_on()
    await eventually(lambda: job_status(db, handle.id) == "succeeded")
    await keeper.stop()
    assert attempt_outcomes(db, handle.id) == [(1, "lost"), (2, "succeeded")]


async def test_a_worker_stopped_for_less_than_its_lease_loses_nothing(worker_processes, client, db, files):
    worker = worker_processes.start()
    worker_processes.start()
    handles = [_hold(client, files) for _ in range(4)]
    await eventually(lambda: len(files.starts()) == 4)
    worker.pause()
    before = _beats(db)
    await eventually(lambda: len(_beats(db) - before) >= 5)  # of the other worker
    worker.resume()
    files.go_on()
    await eventually(lambda: status_counts(db) == {"succeeded": 4})
    assert {job_row(db, handle.id)["crashes"] for handle in handles} == {0}


@pytest.mark.parametrize("how", [pytest.param("exit", marks=pytest.mark.soak), "segfault"])
async def test_a_poison_job_is_a_dead_letter_and_its_neighbours_all_succeed(
    worker_processes, client, db, how
):
    poison = client.enqueue("poison", {"how": how})
    neighbours = [client.enqueue("neighbour", {"seconds": 0.3}) for _ in range(40)]
    worker_processes.start(3, ready=False, concurrency=10)

    def keep_up():
        """What a supervisor does."""
        for worker in worker_processes.workers:
            if not worker.alive:
                worker_processes.workers.remove(worker)
                worker_processes.start(ready=False, concurrency=10)
        return set(status_counts(db)) == {"succeeded", "dead_letter"}

    await eventually(keep_up)
    assert status_counts(db) == {"succeeded": 40, "dead_letter": 1}
    job = job_row(db, poison.id)
    assert (job["status"], job["crashes"], job["error"]["type"]) == ("dead_letter", 3, "Poison")
    assert job["payload"] == {"how": how}
    assert attempt_outcomes(db, poison.id) == [(1, "lost"), (2, "lost"), (3, "lost")]
    assert max(job_row(db, handle.id)["crashes"] for handle in neighbours) < 3


async def test_sigterm_with_a_hundred_running_jobs(worker_processes, client, db, files, tmp_path):
    """No new claims, half of the jobs finish in the time they get, the rest goes back without an attempt."""
    worker = worker_processes.start(drain_seconds=10, concurrency=100)
    done = tmp_path / "done"
    payload = {"started": files.started, "until": str(done)}
    ending = [client.enqueue("hold", payload) for _ in range(50)]
    staying = [_hold(client, files) for _ in range(50)]
    await eventually(lambda: status_counts(db).get("running") == 100)
    waiting = [_hold(client, files) for _ in range(20)]
    worker.terminate()
    done.touch()
    assert worker.wait() == 0
    assert {job_status(db, handle.id) for handle in ending} == {"succeeded"}
    for handle in staying:
        job = job_row(db, handle.id)
        assert (job["status"], job["attempt_count"], job["crashes"]) == ("queued", 0, 0)
        assert attempt_outcomes(db, handle.id) == [(1, "released")]
    assert {job_row(db, handle.id)["attempt_count"] for handle in waiting} == {0}
    assert status_counts(db) == {"succeeded": 50, "queued": 70}
    files.go_on()
    worker_processes.start()
    await eventually(lambda: status_counts(db) == {"succeeded": 120})
    assert _crashes(db) == 0


async def test_a_second_signal_cuts_the_drain_short(worker_processes, client, db, files):
    worker = worker_processes.start(drain_seconds=600)
    handle = _hold(client, files)
    await eventually(files.starts)
    worker.terminate()
    worker.process.send_signal(signal.SIGINT)  # another one: two of the same could arrive as one
    assert worker.wait() == 0
    assert (job_status(db, handle.id), job_row(db, handle.id)["attempt_count"]) == ("queued", 0)


async def test_a_thread_that_never_returns_does_not_keep_a_stopping_worker(
    worker_processes, client, db, files
):
    worker = worker_processes.start(drain_seconds=0.2)
    handle = client.enqueue("block_thread", {"started": files.started})
    await eventually(files.starts)
    worker.terminate()
    assert worker.wait() == 0
    assert (job_status(db, handle.id), job_row(db, handle.id)["attempt_count"]) == ("queued", 0)


async def test_a_blocked_loop_keeps_its_lease(worker_processes, client, db, files):
    """The lease of its claim would end: a second worker with its keeper stands by and would take the job."""
    worker_processes.start(2)
    handle = client.enqueue("block_until", {"started": files.started, "until": files.until})
    await eventually(files.starts)
    lease = "select lease_expires_at - attempt_started_at > interval '21 s' from posthouse.running"
    await eventually(lambda: db.execute(lease).fetchone() == (True,), what="a renewal after a second")
    files.go_on()
    assert client.wait(handle.id, "30s") == "done"
    assert attempt_outcomes(db, handle.id) == [(1, "succeeded")]
    assert _crashes(db) == 0
    assert len(files.starts()) == 1


@pytest.mark.parametrize("how", ["block", "spin"])
async def test_a_blocked_loop_is_ended_by_its_timeout(worker_processes, client, db, files, how):
    """In a real worker: uvloop where it is installed, the main thread."""
    worker_processes.start()
    payload = {"started": files.started, "seconds": 60}
    handle = client.enqueue(how, payload, timeout="500ms", max_attempts=1)
    other = client.enqueue("quick", {"number": 1})
    await eventually(lambda: job_status(db, handle.id) == "dead_letter")
    assert attempt_outcomes(db, handle.id) == [(1, "timeout")]
    assert client.wait(other.id, "20s") == 1
    assert _crashes(db) == 0


async def test_a_cancellation_reaches_the_process_that_runs_the_job(worker_processes, client, db, files):
    worker_processes.start(2, heartbeat_seconds=10, lease_seconds=60)
    handle = _hold(client, files, "watched_hold")
    await eventually(files.starts)
    assert cancel(db, handle.id) == "canceling"
    await eventually(lambda: job_status(db, handle.id) == "canceled")
    assert files.endings() == 1


async def test_workers_that_come_and_go_lose_and_double_nothing(worker_processes, client, db, effects):
    """Rolling restarts under load."""
    handles = client.enqueue_many(
        posthouse.Request(kind="pay", payload={"seconds": 0.05}) for _ in range(200)
    )
    worker_processes.start(2, concurrency=10)
    for _ in range(3):
        old = worker_processes.workers[0]
        worker_processes.start(concurrency=10)
        old.process.send_signal(signal.SIGTERM)
        assert old.wait() == 0
        worker_processes.workers.remove(old)
    await eventually(lambda: status_counts(db) == {"succeeded": 200})
    assert effects() == {handle.id: 1 for handle in handles}
    assert _crashes(db) == 0

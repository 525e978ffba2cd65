"""Real workers that are killed, stopped, let go on and told to end."""

import asyncio
import os
import signal
import time

import pytest

import posthouse
from posthouse import insights
from posthouse.storage.connections import connect_async
from support.waiting import WAIT_SECONDS, eventually
from support.worker_processes import SHORT_LEASE


async def seen(settings):
    """The status of each worker, by its process."""
    async with await connect_async(settings.database_url, "tests") as connection:
        found = await insights.workers(connection, offline_after=settings.offline_after)
    return {worker.pid: (worker.status, worker.lost) for worker in found}


async def until(keeper, key):
    """Check until it has happened; return how often."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not (count := (await keeper.worker_monitor.run_once())[key]):
        assert time.monotonic() < deadline, f"no worker {key}"
        await asyncio.sleep(0.01)
    return count


async def test_a_killed_worker_is_found_gone_once_and_one_that_ends_well_is_not(
    worker_processes, keeper, settings, changes
):
    killed, ended = worker_processes.start(2, keeper=False)
    ended.terminate()
    assert ended.wait() == 0
    killed.kill()
    assert await until(keeper, "went_offline") == 1
    assert await keeper.worker_monitor.run_once() == {"went_offline": 0, "came_back": 0}
    assert await seen(settings) == {killed.pid: ("offline", True), ended.pid: ("offline", False)}
    recorded = changes()
    assert sorted(change for pid, change in recorded if pid == killed.pid) == ["lost", "started"]
    assert sorted(change for pid, change in recorded if pid == ended.pid) == ["started", "stopped"]


async def test_a_worker_that_is_told_to_stop_while_it_starts_is_not_seen_as_running(
    settings, changes, monkeypatch
):
    async with posthouse.App(settings=settings) as app:
        app.job(kind="mail")(lambda: None)
        worker = await app.worker()
        reads = asyncio.Event()

        async def read_for_ever():
            reads.set()
            await asyncio.Event().wait()

        monkeypatch.setattr(worker.definition_watcher, "reload", read_for_ever)
        starting = asyncio.create_task(worker.start())
        await reads.wait()
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
    assert await seen(settings) == {os.getpid(): ("offline", False)}
    assert [change for _, change in changes()] == ["started", "stopped"]


async def test_a_stopped_worker_goes_offline_and_is_back_when_it_goes_on(
    worker_processes, keeper, settings, changes
):
    """Its session lives on, so that the lock says nothing: it is found by its silence."""
    worker = worker_processes.start(keeper=False, **SHORT_LEASE)
    worker.pause()
    assert await until(keeper, "went_offline") == 1
    assert (await seen(settings))[worker.pid] == ("offline", True)
    worker.resume()
    assert await until(keeper, "came_back") == 1
    assert await keeper.worker_monitor.run_once() == {"went_offline": 0, "came_back": 0}
    assert (await seen(settings))[worker.pid] == ("idle", False)
    assert [change for _, change in changes()] == ["started", "lost", "back"]


async def test_a_worker_that_was_lost_and_then_ends_well_has_ended_well(
    worker_processes, keeper, settings, changes
):
    worker = worker_processes.start(keeper=False, **SHORT_LEASE)
    worker.pause()
    await until(keeper, "went_offline")
    worker.terminate()
    worker.resume()
    assert worker.wait() == 0
    assert (await seen(settings))[worker.pid] == ("offline", False)
    assert changes()[-1] == (worker.pid, "stopped")
    assert await keeper.worker_monitor.run_once() == {"went_offline": 0, "came_back": 0}


async def test_a_keeper_that_was_suspended_does_not_declare_suspended_workers_dead(
    worker_processes, client, settings, db
):
    """All processes of a machine are stopped for longer than every lease, and go on in any order."""
    keeping = worker_processes.start(rescue_grace_seconds=6, **SHORT_LEASE)
    working = worker_processes.start(keeper=False, rescue_grace_seconds=6, **SHORT_LEASE)
    beat = "select heartbeat_at from posthouse.workers where pid = %s"
    began = db.execute(beat, (keeping.pid,)).fetchone()
    # It must have looked for longer than its grace before, or its start alone would explain its patience.
    await eventually(lambda: (db.execute(beat, (keeping.pid,)).fetchone()[0] - began[0]).total_seconds() > 7)
    for worker in (keeping, working):
        worker.pause()
    age = "select min(posthouse.now() - heartbeat_at) > interval '7 s' from posthouse.workers"
    await eventually(lambda: db.execute(age).fetchone()[0])
    keeping.resume()
    later = db.execute(beat, (keeping.pid,)).fetchone()
    await eventually(lambda: db.execute(beat, (keeping.pid,)).fetchone() > later)
    await eventually(lambda: db.execute(beat, (keeping.pid,)).fetchone()[0] > later[0])
    assert db.execute("select count(*) from posthouse.workers where stopped_at is not null").fetchone() == (
        0,
    )
    working.resume()
    silent = db.execute(beat, (working.pid,)).fetchone()
    await eventually(lambda: db.execute(beat, (working.pid,)).fetchone() > silent)
    lost = db.execute("select count(*) from posthouse.worker_changes where change = 'lost'").fetchone()
    assert lost == (0,)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
async def test_jobs_of_a_worker_that_is_gone_are_taken_back_at_once_by_a_running_keeper(
    worker_processes, client, db, tmp_path, how
):
    worker_processes.start()
    worker = worker_processes.start(keeper=False, **SHORT_LEASE)
    started, until_ = str(tmp_path / "started"), str(tmp_path / "until")
    handles = [client.enqueue("hold", {"started": started, "until": until_}) for _ in range(4)]
    held = (
        "select count(*) from posthouse.running r join posthouse.workers w on w.id = r.worker_id "
        "where w.pid = %s"
    )
    await eventually(lambda: db.execute("select count(*) from posthouse.running").fetchone() == (4,))
    worker.process.send_signal(how)
    await eventually(lambda: db.execute(held, (worker.pid,)).fetchone() == (0,))
    (tmp_path / "until").touch()
    for handle in handles:
        client.wait(handle.id, "30s")

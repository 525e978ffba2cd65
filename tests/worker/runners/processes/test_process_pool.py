"""The processes of one worker: how many there are, and what becomes of them and of their jobs."""

import os
import signal

import process_jobs as jobs
import psutil
import pytest

import posthouse
from posthouse import testing
from support.processes import alive, stop_claiming
from support.waiting import eventually
from support.workers import (
    attempt_outcomes,
    cancel,
    expire_lease_and_rescue,
    job_status,
    running_worker,
    signals_ignored,
    status_counts,
)

pytestmark = pytest.mark.usefixtures("leftovers")


async def test_as_many_processes_as_the_setting_says_load_the_application_once_and_are_replaced(process_app):
    async with running_worker(process_app, process_slots=2) as worker:
        first, second = worker.processes.pids
        handles = [await jobs.where.enqueue() for _ in range(20)]
        found = [tuple(await handle.wait("20s")) for handle in handles]
        assert {pid for pid, _ in found} <= {first, second}
        assert len({loaded for _, loaded in found}) <= 2
        assert jobs.LOADED not in {loaded for _, loaded in found}, "it ran in the worker"
        os.kill(first, signal.SIGKILL)
        await eventually(lambda: first not in worker.processes.pids and len(worker.processes.pids) == 2)
        assert second in worker.processes.pids
        assert all(psutil.pid_exists(pid) for pid in worker.processes.pids)
        handle = await jobs.double.enqueue(number=2)
        assert await handle.wait("20s") == 4


async def test_no_signal_is_ignored_because_the_worker_was_started_in_the_background(process_app):
    handle = await jobs.signals.enqueue()
    with signals_ignored():
        await testing.drain(process_app)
    assert [int(mask, 16) & 0x7FFFFFFF for mask in await handle.wait()] == [0, 0]


async def test_short_jobs_do_not_wait_behind_one_that_hangs(process_app, db, marker_file):
    """Some are handed to a process ahead of time. They are taken back, though that process cannot help."""
    requests = [posthouse.Request(kind="double", payload={"number": 1})] * 100
    async with running_worker(process_app, process_slots=2):
        await process_app.client.enqueue_many(requests)
        hanging = await jobs.hang.enqueue(marker_file=marker_file.folder)
        await process_app.client.enqueue_many(requests)
        await eventually(lambda: status_counts(db) == {"succeeded": 200, "running": 1})
        cancel(db, hanging.id)
        await eventually(lambda: job_status(db, hanging.id) == "canceled")


async def test_a_lost_lease_ends_the_process(process_app, db, marker_file):
    handle = await jobs.hang.enqueue(marker_file=marker_file.folder)
    async with running_worker(process_app, keeper=False) as worker:
        [pid] = await eventually(marker_file.pids)
        await stop_claiming(worker)
        expire_lease_and_rescue(db, handle.id)
        await eventually(lambda: not alive(pid))
        await eventually(lambda: not worker.executor.leased)
    assert attempt_outcomes(db, handle.id) == [(1, "lost")]


async def test_stopping_the_worker_gives_back_what_does_not_end(process_app, db, marker_file):
    handle = await jobs.hang.enqueue(marker_file=marker_file.folder)
    async with running_worker(process_app, keeper=False, drain=0):
        [pid] = await eventually(marker_file.pids)
    assert not alive(pid)
    assert attempt_outcomes(db, handle.id) == [(1, "released")]
    assert job_status(db, handle.id) == "queued"


async def test_progress_raises_when_the_lease_is_lost_and_the_outcome_is_dropped(
    process_app, db, marker_file
):
    handle = await jobs.report_until_lost.enqueue(marker_file=marker_file.folder)
    async with running_worker(
        process_app, keeper=False, heartbeat_seconds=30, lease_seconds=60, cancel_grace_seconds=10
    ) as worker:
        await eventually(lambda: "started" in list(marker_file))
        await stop_claiming(worker)
        expire_lease_and_rescue(db, handle.id)
        await eventually(lambda: "lost" in list(marker_file))
        await eventually(lambda: not worker.executor.leased)
    assert attempt_outcomes(db, handle.id) == [(1, "lost")]


@pytest.mark.soak
async def test_many_jobs_leave_the_processes_no_larger(process_app, db):
    """Sixty payloads and results of 500 kB would be 60 MB if they were kept."""
    async with running_worker(process_app, process_slots=1) as worker:
        await _echo(10)
        process = psutil.Process(worker.processes.pids[0])
        before = process.memory_info().rss
        await _echo(60)
        assert worker.processes.pids == [process.pid]
        assert process.memory_info().rss - before < 30e6


async def _echo(count):
    for _ in range(count):
        handle = await jobs.echo.enqueue(text="x" * 500_000)
        assert len(await handle.wait("20s")) == 500_000

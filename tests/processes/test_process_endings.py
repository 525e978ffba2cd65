"""Handlers that are ended from outside, and processes that die."""

import os
import signal

import chores as jobs
import psutil
import pytest
from processkit import alive, errors, stop_claiming

import posthouse
from posthouse import testing
from workshop import attempts, cancel, eventually, give_away, row, status, statuses, working

pytestmark = pytest.mark.usefixtures("leftovers")


async def test_a_timeout_ends_a_handler_that_never_returns_from_c_code(chores, db):
    handle = await jobs.hang_in_c.enqueue()
    async with working(chores, process_slots=1) as worker:
        first = worker.processes.pids
        assert await handle.wait("30s") == 2
        assert worker.processes.pids != first
    assert attempts(db, handle.id) == [(1, "timeout"), (2, "succeeded")]


async def test_a_handler_is_told_to_stop_before_it_is_ended(chores, db, marks):
    handle = await jobs.linger.using(timeout="200ms").enqueue(marks=marks.folder)
    async with working(chores, process_slots=1) as worker:
        pids = worker.processes.pids
        await eventually(lambda: status(db, handle.id) == "dead_letter")
        assert worker.processes.pids == pids, "it stopped in time: there was no need to end its process"
    assert list(marks)[1:] == ["told, canceled=False"]
    assert attempts(db, handle.id) == [(1, "timeout")]


async def test_an_async_handler_is_canceled_at_its_timeout(chores, db, marks):
    handle = await jobs.linger_async.using(timeout="200ms").enqueue(marks=marks.folder)
    assert await testing.drain(chores) == {"dead_letter": 1}
    assert list(marks)[1:] == ["told"]
    assert attempts(db, handle.id) == [(1, "timeout")]


async def test_the_timeout_starts_with_the_handler_not_with_the_wait_for_a_process(chores, db, marks):
    first = await jobs.report.enqueue(marks=marks.folder)
    second = await jobs.double.using(timeout="500ms").enqueue(number=1)
    async with working(chores, process_slots=1) as worker:
        await eventually(lambda: status(db, first.id) == "running")
        beats = worker.heartbeat.beats
        await eventually(lambda: worker.heartbeat.beats > beats + 4)  # longer than the timeout
        marks.go()
        assert await second.wait("20s") == 2
    assert attempts(db, second.id) == [(1, "succeeded")]


async def test_a_canceled_job_and_what_it_started_are_gone_when_it_is_reported(chores, db, marks):
    handle = await jobs.spawn_and_hang.enqueue(marks=marks.folder)
    async with working(chores):
        pids = await eventually(marks.pids)
        assert len(pids) == 2
        assert all(psutil.pid_exists(pid) for pid in pids)
        cancel(db, handle.id)
        await eventually(lambda: status(db, handle.id) == "canceled")
        await eventually(lambda: not any(alive(pid) for pid in pids))


async def test_a_timeout_kills_the_whole_tree_even_in_sessions_of_its_own(chores, db, marks):
    handle = await jobs.daemonise_and_hang.using(timeout="3s").enqueue(marks=marks.folder)
    async with working(chores):
        pids = await eventually(marks.pids)
        assert all(alive(pid) for pid in pids)
        await eventually(lambda: status(db, handle.id) == "dead_letter")
        await eventually(lambda: not any(alive(pid) for pid in pids))
    assert attempts(db, handle.id) == [(1, "timeout")]


async def test_a_handler_sees_that_it_is_canceled(chores, db, marks):
    handle = await jobs.linger.enqueue(marks=marks.folder)
    async with working(chores):
        await eventually(marks.pids)
        cancel(db, handle.id)
        await eventually(lambda: status(db, handle.id) == "canceled")
    assert list(marks)[1:] == ["told, canceled=True"]


async def test_a_lost_lease_ends_the_process(chores, db, marks):
    handle = await jobs.hang.enqueue(marks=marks.folder)
    async with working(chores, keeper=False) as worker:
        [pid] = await eventually(marks.pids)
        await stop_claiming(worker)
        give_away(db, handle.id)
        await eventually(lambda: not alive(pid))
        await eventually(lambda: not worker.executor.held)
    assert attempts(db, handle.id) == [(1, "lost")]


async def test_stopping_the_worker_gives_back_what_does_not_end(chores, db, marks):
    handle = await jobs.hang.enqueue(marks=marks.folder)
    async with working(chores, keeper=False, drain=0):
        [pid] = await eventually(marks.pids)
    assert not alive(pid)
    assert attempts(db, handle.id) == [(1, "released")]
    assert status(db, handle.id) == "queued"


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("segfault", ("Crashed", "its process was killed by SIGSEGV (signal 11)", -11)),
        ("abort", ("Crashed", "its process was killed by SIGABRT (signal 6)", -6)),
        ("kill", ("Crashed", "its process was killed by SIGKILL (signal 9): probably out of memory", -9)),
        ("exit", ("Crashed", "its process ended with exit code 3", 3)),
        ("fork", ("Crashed", "its process ended with exit code 4", 4)),
        ("close", ("Crashed", "its process closed its connection with the worker", -9)),
        ("memory", ("Crashed", "its process ran out of memory: MemoryError", None)),
    ],
)
async def test_a_crash_is_counted_and_the_job_runs_again(chores, db, how, expected):
    handle = await jobs.crash.enqueue(how=how, times=1)
    async with working(chores, process_slots=1) as worker:
        before = worker.processes.pids
        assert await handle.wait("30s") == "1 crashes"
        assert worker.processes.pids != before
    assert attempts(db, handle.id) == [(1, "crashed"), (2, "succeeded")]
    assert row(db, handle.id)["crashes"] == 1
    assert errors(db, handle.id)[0][:3] == expected


async def test_a_segfault_says_where_in_the_handler_it_was(chores, db):
    handle = await jobs.crash.enqueue(how="segfault")
    assert await testing.drain(chores) == {"dead_letter": 1}
    assert all("in crash" in trace for _, _, _, trace in errors(db, handle.id))


async def test_a_poisonous_job_is_in_the_dead_letter_after_three_crashes_and_the_others_are_done(chores, db):
    poison = await jobs.crash.enqueue(how="segfault")
    others = [await jobs.double.enqueue(number=number) for number in range(300)]
    more_poison = await jobs.crash.enqueue(how="exit")
    assert await testing.drain(chores, timeout="60s") == {"succeeded": 300, "dead_letter": 2}
    for handle in (poison, more_poison):
        assert attempts(db, handle.id) == [(1, "crashed"), (2, "crashed"), (3, "crashed")]
        assert row(db, handle.id)["crashes"] == 3
        assert row(db, handle.id)["last_error"].startswith("Poison: its process ")
    assert db.execute(
        "select count(*) from posthouse.jobs where kind = 'double' and (attempt_count, crashes) <> (1, 0)"
    ).fetchone() == (0,)
    assert [await handle.wait() for handle in others[:3]] == [0, 2, 4]


async def test_short_jobs_do_not_wait_behind_one_that_hangs(chores, db, marks):
    """Some are handed to a process ahead of time. They are taken back, though that process cannot help."""
    requests = [posthouse.Request(kind="double", payload={"number": 1})] * 300
    async with working(chores, process_slots=2):
        await chores.client.enqueue_many(requests)
        hanging = await jobs.hang.enqueue(marks=marks.folder)
        await chores.client.enqueue_many(requests)
        await eventually(lambda: statuses(db) == {"succeeded": 600, "running": 1})
        cancel(db, hanging.id)
        await eventually(lambda: status(db, hanging.id) == "canceled")


async def test_a_process_that_dies_idle_is_replaced(chores):
    async with working(chores, process_slots=2) as worker:
        first, second = worker.processes.pids
        os.kill(first, signal.SIGKILL)
        await eventually(lambda: first not in worker.processes.pids and len(worker.processes.pids) == 2)
        assert second in worker.processes.pids
        handle = await jobs.double.enqueue(number=2)
        assert await handle.wait("20s") == 4

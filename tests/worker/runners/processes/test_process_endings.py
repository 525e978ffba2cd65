"""Handlers that are ended from outside, and processes that die."""

import process_jobs as jobs
import psutil
import pytest

from support.processes import alive, ended, errors
from support.waiting import WAIT_SECONDS, eventually
from support.workers import attempt_outcomes, cancel, job_row, job_status

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture(scope="module")
def db(process_worker):
    return process_worker.db


@pytest.fixture
def processes(process_worker):
    """The pool of the worker, when it has its process."""
    return process_worker.worker.processes


@pytest.fixture
def long_grace(processes, monkeypatch):
    """Give handlers more time to clean up than a busy machine takes, before their process is killed."""
    monkeypatch.setattr(processes, "_grace", WAIT_SECONDS)


async def the_process(processes):
    """The process id of the only process, when there is one."""
    [pid] = await eventually(lambda: processes.pids)
    return pid


async def test_a_timeout_ends_a_handler_that_never_returns_from_c_code(processes, db):
    before = await the_process(processes)
    handle = await jobs.hang_in_c.enqueue()
    assert await handle.wait("60s") == 2
    assert await the_process(processes) != before
    assert attempt_outcomes(db, handle.id) == [(1, "timeout"), (2, "succeeded")]


async def test_a_handler_is_told_to_stop_before_it_is_ended(long_grace, processes, db, marker_file):
    before = await the_process(processes)
    handle = await jobs.linger.using(timeout="2s").enqueue(marker_file=marker_file.folder)
    assert await ended(db, handle) == ["dead_letter"]
    await eventually(lambda: list(marker_file)[1:] == ["told, canceled=False"])
    assert await the_process(processes) == before, "it stopped in time: no need to end its process"
    assert attempt_outcomes(db, handle.id) == [(1, "timeout")]


async def test_an_async_handler_is_canceled_at_its_timeout(long_grace, process_worker, db, marker_file):
    handle = await jobs.linger_async.using(timeout="2s").enqueue(marker_file=marker_file.folder)
    assert await ended(db, handle) == ["dead_letter"]
    await eventually(lambda: list(marker_file)[1:] == ["told"])
    assert attempt_outcomes(db, handle.id) == [(1, "timeout")]


async def test_the_timeout_starts_with_the_handler_not_with_the_wait_for_a_process(
    process_worker, db, marker_file
):
    first = await jobs.report.enqueue(marker_file=marker_file.folder)
    second = await jobs.double.using(timeout="2s").enqueue(number=1)
    await eventually(lambda: job_status(db, first.id) == "running")
    heartbeat = process_worker.worker.heartbeat
    beats = heartbeat.beats
    await eventually(lambda: heartbeat.beats > beats + 12)  # longer than the timeout
    marker_file.go()
    assert await second.wait("60s") == 2
    assert attempt_outcomes(db, second.id) == [(1, "succeeded")]


async def test_a_canceled_job_and_what_it_started_are_gone_when_it_is_reported(
    process_worker, db, marker_file
):
    handle = await jobs.spawn_and_hang.enqueue(marker_file=marker_file.folder)
    pids = await eventually(marker_file.pids)
    assert len(pids) == 2
    assert all(psutil.pid_exists(pid) for pid in pids)
    cancel(db, handle.id)
    assert await ended(db, handle) == ["canceled"]
    await eventually(lambda: not any(alive(pid) for pid in pids))


async def test_a_timeout_kills_the_whole_tree_even_in_sessions_of_its_own(process_worker, db, marker_file):
    handle = await jobs.daemonise_and_hang.using(timeout="6s").enqueue(marker_file=marker_file.folder)
    pids = await eventually(marker_file.pids)
    assert all(alive(pid) for pid in pids)
    assert await ended(db, handle) == ["dead_letter"]
    await eventually(lambda: not any(alive(pid) for pid in pids))
    assert attempt_outcomes(db, handle.id) == [(1, "timeout")]


async def test_a_handler_sees_that_it_is_canceled(long_grace, process_worker, db, marker_file):
    handle = await jobs.linger.enqueue(marker_file=marker_file.folder)
    await eventually(marker_file.pids)
    cancel(db, handle.id)
    assert await ended(db, handle) == ["canceled"]
    await eventually(lambda: list(marker_file)[1:] == ["told, canceled=True"])


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("segfault", ("Crashed", "its process was killed by SIGSEGV (signal 11)", -11)),
        pytest.param(
            "abort",
            ("Crashed", "its process was killed by SIGABRT (signal 6)", -6),
            marks=pytest.mark.soak,
        ),
        ("kill", ("Crashed", "its process was killed by SIGKILL (signal 9): probably out of memory", -9)),
        pytest.param("exit", ("Crashed", "its process ended with exit code 3", 3), marks=pytest.mark.soak),
        ("fork", ("Crashed", "its process ended with exit code 4", 4)),
        ("close", ("Crashed", "its process closed its connection with the worker", -9)),
        ("memory", ("Crashed", "its process ran out of memory: MemoryError", None)),
    ],
)
async def test_a_crash_is_counted_and_the_job_runs_again(processes, db, how, expected):
    before = await the_process(processes)
    handle = await jobs.crash.enqueue(how=how, times=1)
    assert await handle.wait("60s") == "1 crashes"
    assert await the_process(processes) != before
    assert attempt_outcomes(db, handle.id) == [(1, "crashed"), (2, "succeeded")]
    assert job_row(db, handle.id)["crashes"] == 1
    *found, trace = errors(db, handle.id)[0]
    assert tuple(found) == expected
    assert how != "segfault" or "in crash" in trace, "a segfault says where in the handler it was"


async def test_a_poisonous_job_is_in_the_dead_letter_after_three_crashes_and_the_others_are_done(
    process_worker, db
):
    others = [await jobs.double.enqueue(number=number) for number in range(30)]
    poison = await jobs.crash.enqueue(how="segfault")
    others += [await jobs.double.enqueue(number=number) for number in range(30)]
    assert await ended(db, poison, *others) == ["dead_letter", *["succeeded"] * 60]
    assert attempt_outcomes(db, poison.id) == [(1, "crashed"), (2, "crashed"), (3, "crashed")]
    assert job_row(db, poison.id)["crashes"] == 3
    assert job_row(db, poison.id)["last_error"].startswith("Poison: its process ")
    rows = [job_row(db, handle.id) for handle in others]
    assert {(other["attempt_count"], other["crashes"]) for other in rows} == {(1, 0)}
    assert [await handle.wait() for handle in others[:3]] == [0, 2, 4]

"""Timeout, cancellation, lost lease, the end of the worker: the tree is gone, the outcome is right."""

import signal

import pytest

from support.command_jobs import ESCAPE, of_attempts, python, shell
from support.commands import processes_with
from support.waiting import WAIT_SECONDS, eventually, eventually_sync
from support.workers import cancel, expire_lease_and_rescue, job_row, job_status, running_worker

# 8 lines of processes; in each, one forks the next and ends, as fast as it can. Never more than 16 live, and
# hardly one lives until it is looked at.
BOMB = """
import os, sys, time
from pathlib import Path
command = os.getpid()
for _ in range(3):
    if not os.fork(): os.setsid()
if os.getpid() == command:
    Path(sys.argv[2]).touch()
    time.sleep(1000)
while True:
    if os.fork(): os._exit(0)
    os.setsid()
"""


async def running(token, count=2):
    await eventually(lambda: len(processes_with(token)) >= count, what="the processes")


async def test_a_timeout_ends_the_tree_and_the_job_is_tried_again(app, client, db, define, token):
    fields = {"max_attempts": 2, "retry": {"ladder": [0.01]}}
    define("slow", python(ESCAPE, token), timeout=2, fields=fields)  # within which it starts
    async with running_worker(app, commands=True):
        job = await client.enqueue("slow")
        await eventually(lambda: job_status(db, job.id) == "dead_letter", what="the end")
        assert processes_with(token) == []
    found = of_attempts(db, job.id, "outcome", "error_type", "signal", "stdout_tail")
    assert found == [("timeout", "TimedOut", "SIGTERM", "ready\n")] * 2


async def test_a_command_may_clean_up_at_its_timeout(app, client, db, define):
    script = "trap 'echo cleaned; exit 7' TERM; echo on; while :; do sleep 0.01; done"
    define("slow", shell(script), timeout=2, fields={"max_attempts": 1})
    async with running_worker(app, commands=True, cancel_grace_seconds=60):
        job = await client.enqueue("slow")
        await eventually(lambda: job_status(db, job.id) == "dead_letter", what="the end")
    assert of_attempts(db, job.id, "outcome", "exit_code", "stdout_tail") == [("timeout", 7, "on\ncleaned\n")]


@pytest.mark.parametrize("code", [ESCAPE, BOMB], ids=["setsid", "bomb"])
async def test_a_canceled_command_is_gone_when_the_job_is_canceled(app, db, define, token, *, code, tmp_path):
    started = tmp_path / "started"
    define("slow", python(code, token, str(started)))
    [job] = db.execute("select posthouse.enqueue('slow')").fetchone()
    async with running_worker(app, commands=True):
        await (running(token) if code is ESCAPE else eventually(started.exists, what="the bomb"))
        cancel(db, job)
        await eventually(lambda: job_status(db, job) == "canceled", what="the cancellation")
        assert processes_with(token) == []
    assert of_attempts(db, job, "outcome") == [("canceled",)]


async def test_a_command_whose_lease_is_lost_is_ended_and_changes_nothing(app, client, db, define, token):
    define("slow", python(ESCAPE, token), fields={"queue": "once"})
    async with running_worker(app, commands=True, keeper=False) as worker:
        job = await client.enqueue("slow")
        await running(token)
        [pid] = [pid for pid in processes_with(token) if pid == min(processes_with(token))]
        worker.fetcher.is_suspended = True  # it does not get it again
        db.execute("insert into posthouse.queues (name, paused_at) values ('once', posthouse.now())")
        expire_lease_and_rescue(db, job.id)
        await eventually(lambda: pid not in processes_with(token), what="the end of the command")
        await eventually(lambda: processes_with(token) == [], what="the end of the tree")
    assert job_row(db, job.id)["status"] == "queued"
    assert of_attempts(db, job.id, "outcome") == [("lost",)]


async def test_a_worker_that_stops_lets_a_command_finish(app, client, db, define, token):
    define("short", shell("echo ready; sleep 0.5; echo done; : $1", token))
    async with running_worker(app, commands=True, drain=20):
        job = await client.enqueue("short")
        await running(token, 1)
    assert of_attempts(db, job.id, "outcome", "stdout_tail") == [("succeeded", "ready\ndone\n")]


async def test_what_is_not_finished_in_time_is_given_back_without_an_attempt(app, client, db, define, token):
    define("slow", python(ESCAPE, token))
    async with running_worker(app, commands=True, drain=0.1):
        job = await client.enqueue("slow")
        await running(token)
    assert processes_with(token) == []
    found = job_row(db, job.id)
    assert (found["status"], found["attempt_count"]) == ("queued", 0)
    assert of_attempts(db, job.id, "outcome") == [("released",)]


QUICK = {
    "POSTHOUSE_HEARTBEAT_SECONDS": "0.2",
    "POSTHOUSE_LEASE_SECONDS": "10",
    "POSTHOUSE_CANCEL_GRACE_SECONDS": "0.5",
    "POSTHOUSE_DRAIN_SECONDS": "0.2",
}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=lambda number: number.name)
def test_nothing_outlives_the_worker(db, define, program, token, number):
    define("slow", python(ESCAPE, token))
    [job] = db.execute("select posthouse.enqueue('slow')").fetchone()
    worker = program.start("worker", "--commands", **QUICK)
    eventually_sync(lambda: len(processes_with(token)) >= 2, what="the processes")
    worker.send_signal(number)
    worker.wait(WAIT_SECONDS)
    eventually_sync(lambda: processes_with(token) == [], what="the end of the tree")
    if number == signal.SIGTERM:
        assert of_attempts(db, job, "outcome") == [("released",)]
        return
    program.start("keeper", **QUICK)
    eventually_sync(lambda: of_attempts(db, job, "outcome") == [("lost",)], what="the rescue")
    assert job_status(db, job) == "queued"

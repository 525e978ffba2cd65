"""Which job blocks a process, from the times of its threads."""

import asyncio
import signal
import subprocess
import sys
from uuid import uuid4

import psutil
import pytest

from posthouse.supervisor.liveness import find_blockers
from support.waiting import eventually_sync

BUSY_THREAD = """
import re, threading
print(threading.get_native_id(), flush=True)
def hold():
    print(threading.get_native_id(), flush=True)
    re.match(r"(a+)+$", "a" * 64 + "b")
threading.Thread(target=hold, daemon=True).start()
input()
"""
IDLE = "import threading; print(threading.get_native_id(), flush=True); input()"


@pytest.fixture
def start():
    started = []

    def start(code):
        process = subprocess.Popen(
            [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


async def test_the_job_of_the_thread_that_uses_the_cpu_is_the_blocker(start):
    process = start(BUSY_THREAD)
    loop, thread = (int(process.stdout.readline()) for _ in range(2))
    innocent, blocker = [uuid4()], [uuid4()]
    assert await find_blockers(process.pid, {loop: innocent, thread: blocker}) == blocker


async def test_without_a_busy_thread_it_is_what_the_event_loop_runs(start):
    process = start(IDLE)
    loop, jobs = int(process.stdout.readline()), [uuid4()]
    running = (
        {loop: jobs, loop + 1: [uuid4()]},
        {loop: [], loop + 1: jobs},
        {loop: [], loop + 1: jobs, loop + 2: [uuid4()]},
        {},
    )
    found = await asyncio.gather(*(find_blockers(process.pid, each) for each in running))
    assert found == [jobs, jobs, None, None]


async def test_a_process_that_was_stopped_has_no_blockers(start):
    process = start(IDLE)
    loop = int(process.stdout.readline())
    process.send_signal(signal.SIGSTOP)
    eventually_sync(lambda: psutil.Process(process.pid).status() == psutil.STATUS_STOPPED)
    assert await find_blockers(process.pid, {loop: [uuid4()]}) == []

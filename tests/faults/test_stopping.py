"""SIGTERM ends every process in time, also while what it talks to is silent."""

import asyncio
import os
import socket
import subprocess
from contextlib import suppress

import pytest

from posthouse.waiting import end_tasks
from support import forkserver
from support.waiting import WAIT_SECONDS, eventually_sync

STUCK = """
import asyncio, time
from posthouse.worker import shutdown

shutdown.STOP_SECONDS = 0.1

async def main():
    stop = shutdown.ShutdownSignals(asyncio.get_running_loop())
    print("ready", flush=True)
    await stop.wait()
    time.sleep(3600)

shutdown.run_event_loop(main())
"""


def start(*words, **settings):
    env = {name: value for name, value in os.environ.items() if not name.startswith("POSTHOUSE_")}
    given = {f"POSTHOUSE_{name.upper()}": str(value) for name, value in settings.items()}
    return forkserver.start_python(
        ["-m", "posthouse", *words], env={**env, **given, "POSTHOUSE_DRAIN_SECONDS": "0"}
    )


def stopped(process):
    process.terminate()
    try:
        return process.wait(WAIT_SECONDS)
    finally:
        process.kill()


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(["worker", "--app", "posthouse.cli.demo:app"], id="worker"),
        pytest.param(["server", "--port", "0"], id="server", marks=pytest.mark.soak),
        pytest.param(["keeper"], id="keeper", marks=pytest.mark.soak),
    ],
)
def test_sigterm_ends_a_process_whose_database_is_silent(proxy, words):
    process = start(*words, database_url=proxy.url)
    eventually_sync(lambda: proxy.connections >= 3, what="the connections")
    proxy.pause()
    assert stopped(process) in {0, 1}


def test_sigterm_ends_a_remote_worker_whose_server_is_silent():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        process = start("worker", "--app", "posthouse.cli.demo:app", remote_url=url, remote_key="ph_x")
        silent.settimeout(WAIT_SECONDS)
        with silent.accept()[0]:
            assert stopped(process) in {0, 1}


def test_a_process_that_cannot_stop_in_order_ends():
    with forkserver.start_python(["-c", STUCK], stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == "ready\n"
        assert stopped(process) == 1


async def test_tasks_that_resist_a_cancellation_are_canceled_again():
    async def stubborn():
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(3600)
        await asyncio.sleep(3600)

    task = asyncio.create_task(stubborn())
    await asyncio.sleep(0)
    await end_tasks([task])
    assert task.cancelled()

"""Nothing of a command outlives it: timeouts, cancellations, crashes, hostile process trees."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from posthouse.commands import CommandRunner
from posthouse.commands.guardian_client import is_idle
from posthouse.errors import CommandInterrupted
from support.commands import NOTHING, escaped, processes_with, python, shell
from support.waiting import WAIT_SECONDS, eventually

ESCAPES = {
    "child": "sleeper()",
    "setsid": "if not os.fork(): os.setsid(); sleeper()",
    "double fork": "if not os.fork():\n  os.setsid()\n  if not os.fork(): sleeper()\n  os._exit(0)",
    "clean environment": "if not os.fork(): os.setsid(); os.execve(EXE, [EXE, '-c', SLEEP, TOKEN], {})",
    "ignores SIGTERM": "if not os.fork(): signal.signal(signal.SIGTERM, signal.SIG_IGN); sleeper()",
    "stopped": "if not os.fork(): os.kill(os.getpid(), signal.SIGSTOP)",
    "own subreaper": (
        "if not os.fork():\n"
        "  import ctypes; ctypes.CDLL(None).prctl(36, 1, 0, 0, 0); os.setsid()\n"
        "  if not os.fork(): os.setsid(); sleeper()\n"
        "  sleeper()"
    ),
    "chain": "for _ in range(30):\n  if os.fork(): break\n  os.setsid()\nsleeper()",
    "respawning": (
        "def replace():\n"
        "  while other := os.fork(): os.waitpid(other, 0)\n"
        "  os.setsid(); sleeper()\n"
        "if not os.fork(): os.setsid(); replace()"
    ),
}
PRELUDE = """
import os, signal, sys, time
EXE, TOKEN = sys.executable, sys.argv[1]
SLEEP = "import time; time.sleep(1000)"
def sleeper():
    while True: time.sleep(1000)
"""


def escape(kind, *, then="sleeper()"):
    return f"{PRELUDE}\n{ESCAPES[kind]}\nprint('ready', flush=True)\n{then}"


async def ready(token, count=2):
    await eventually(lambda: len(processes_with(token)) >= count, what="the processes")


@pytest.mark.parametrize("kind", [kind for kind in ESCAPES if kind != "child"])
async def test_no_descendant_survives_a_cancellation(runner, token, kind):
    run = asyncio.create_task(runner.run(python(escape(kind), token), NOTHING))
    await ready(token)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert processes_with(token) == []


@pytest.mark.parametrize("kind", [kind for kind in ESCAPES if kind != "child"])
async def test_no_descendant_survives_a_timeout(runner, token, kind):
    done = await runner.run(python(escape(kind), token), NOTHING, timeout=0.5)
    assert done.outcome.action == "timeout"
    assert processes_with(token) == []


@pytest.mark.parametrize(
    "kind", ["setsid", "double fork", "clean environment", "own subreaper", "respawning"]
)
async def test_no_descendant_survives_a_command_that_ends_well(runner, token, kind):
    done = await runner.run(python(escape(kind, then=""), token), NOTHING, timeout=60)
    assert done.outcome.action == "succeed"
    assert processes_with(token) == []


# 64 lines of processes; in each, one forks the next and ends, as fast as it can. Never more than 128 live.
BOMB = (
    PRELUDE
    + """
command = os.getpid()
for _ in range(6):
    if not os.fork(): os.setsid()
if os.getpid() == command: print("ready", flush=True); sleeper()
while True:
    if os.fork(): os._exit(0)
    os.setsid()
"""
)
# 256 busy processes in sessions of their own.
CROWD = (
    PRELUDE
    + """
command = os.getpid()
for _ in range(8):
    if not os.fork(): os.setsid()
if os.getpid() == command: print("ready", flush=True)
while True: pass
"""
)


@pytest.mark.parametrize(
    "code", [pytest.param(BOMB, id="bomb"), pytest.param(CROWD, id="crowd", marks=pytest.mark.soak)]
)
async def test_a_fork_bomb_is_ended(runner, token, code):
    output = []
    run = asyncio.create_task(
        runner.run(python(code, token), NOTHING, on_output=lambda _, text: output.append(text))
    )
    await eventually(lambda: output == ["ready\n"], what="the explosion")
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert processes_with(token) == []


async def test_a_canceled_command_has_its_grace_and_tells_its_end(runner):
    ends = []
    script = 'trap "echo cleaned up; exit 0" TERM; echo ready; while :; do sleep 0.01; done'
    output = []
    async with CommandRunner(grace=60) as patient:
        run = asyncio.create_task(
            patient.run(
                shell(script), NOTHING, on_end=ends.append, on_output=lambda _, text: output.append(text)
            )
        )
        await eventually(lambda: output)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
    assert [(end.outcome.action, end.stdout_tail) for end in ends] == [("canceled", "ready\ncleaned up\n")]


async def test_a_second_cancellation_does_not_wait_for_the_grace(token):
    code = (
        PRELUDE
        + "signal.signal(signal.SIGTERM, lambda *_: print('output', flush=True))\nprint('ready', flush=True)"
    )
    output = []
    async with CommandRunner(grace=1000) as patient:
        run = asyncio.create_task(
            patient.run(
                python(f"{code}\nsleeper()", token), NOTHING, on_output=lambda _, text: output.append(text)
            )
        )
        await eventually(lambda: "ready\n" in "".join(output))
        run.cancel()
        await eventually(lambda: "output\n" in "".join(output))
        assert not run.done()
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(run, 30)
        assert processes_with(token) == []


@pytest.mark.parametrize("turns", [0, 1, 2, 3, 5, 10, 50])
async def test_a_cancellation_during_the_start_leaves_nothing(runner, token, turns):
    code = PRELUDE + "sleeper()"
    for size in (1, 90_000):
        run = asyncio.create_task(
            runner.run(python(code, token, "x" * size, "x" * size, "x" * size), NOTHING)
        )
        for _ in range(turns):
            await asyncio.sleep(0)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        assert processes_with(token) == []


async def test_a_killed_guardian_takes_its_commands_along_and_is_replaced(runner, token):
    run = asyncio.create_task(runner.run(python(escape("double fork"), token), NOTHING))
    await ready(token)
    first = runner.guardian_pid
    os.kill(first, signal.SIGKILL)
    with pytest.raises(CommandInterrupted):
        await asyncio.wait_for(run, 30)
    assert processes_with(token) == []
    assert (await runner.run(shell("echo again"), NOTHING)).stdout_tail == "again\n"
    assert runner.guardian_pid != first


async def test_a_killed_monitor_is_reported_and_its_command_ended(runner, token):
    pids = []
    other = asyncio.create_task(runner.run(shell("sleep 1; echo fine"), NOTHING))
    run = asyncio.create_task(runner.run(python(escape("double fork"), token), NOTHING, on_start=pids.append))
    await ready(token)
    await eventually(lambda: pids, what="the report of the start")
    psutil.Process(psutil.Process(pids[0]).ppid()).kill()
    with pytest.raises(CommandInterrupted):
        await asyncio.wait_for(run, 30)
    assert processes_with(token) == []
    assert (await other).stdout_tail == "fine\n"


async def test_guardian_and_monitors_killed_together_are_reported(runner, token):
    run = asyncio.create_task(runner.run(python(PRELUDE + "sleeper()", token), NOTHING))
    await ready(token, 1)
    guardian = psutil.Process(runner.guardian_pid)
    for process in [guardian, *(child for child in guardian.children())]:
        process.kill()
    with pytest.raises(CommandInterrupted):
        await asyncio.wait_for(run, 30)
    await eventually(lambda: processes_with(token) == [])


WORKER = """
import asyncio, multiprocessing, sys, time
from posthouse.commands import CommandRunner, CommandSpec

async def main():
    runner = CommandRunner(grace=1000)
    spec = CommandSpec(argv=[sys.executable, "-S", "-c", sys.argv[1], "{payload.token}"])
    values = {"payload": {"token": sys.stdin.readline().strip()}}
    started = []
    runs = [asyncio.create_task(runner.run(spec, values, on_start=started.append)) for _ in range(3)]
    while len(started) < 3:
        await asyncio.sleep(0.01)
    if sys.argv[2] == "with an heir":  # a child that has every descriptor of ours, and lives on
        multiprocessing.get_context("fork").Process(target=time.sleep, args=(60,), daemon=True).start()
    print("up", flush=True)
    await asyncio.gather(*runs)

asyncio.run(main())
"""


@pytest.mark.parametrize("kind", ["alone", "with an heir"])
async def test_a_killed_worker_takes_everything_along(token, kind):
    worker = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-c", WORKER, escaped(escape("double fork")), kind),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        worker.stdin.write(f"{token}\n".encode())
        assert await worker.stdout.readline() == b"up\n"
        await ready(token, 6)
        worker.kill()
        await eventually(lambda: processes_with(token) == [], what="the end of the commands")
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(worker.pid, signal.SIGKILL)
        await worker.communicate()


async def test_a_blocked_loop_does_not_delay_the_timeout(runner, token):
    run = asyncio.create_task(runner.run(python(PRELUDE + "sleeper()", token), NOTHING, timeout=1))
    await ready(token, 1)
    deadline = time.monotonic() + WAIT_SECONDS
    while processes_with(token) and time.monotonic() < deadline:
        time.sleep(0.01)  # noqa: ASYNC251 - this is the blocked loop
    assert processes_with(token) == []
    assert (await run).outcome.action == "timeout"


async def test_closing_the_runner_ends_what_runs(token):
    runner = CommandRunner(grace=1000)
    run = asyncio.create_task(runner.run(python(escape("double fork"), token), NOTHING))
    await ready(token)
    runner.close()
    assert processes_with(token) == []
    with pytest.raises(CommandInterrupted):
        await run


async def test_many_runs_leave_no_zombies_and_need_one_monitor(runner):
    for _ in range(20):
        await runner.run(shell("sleep 0 & sleep 0 & exit 0"), NOTHING)
    children = psutil.Process(runner.guardian_pid).children(recursive=True)
    assert [child.name() for child in children] == ["posthouse-mon"]


async def test_after_many_at_a_time_few_monitors_stay(runner):
    await asyncio.gather(*(runner.run(shell("true"), NOTHING) for _ in range(40)))
    guardian = psutil.Process(runner.guardian_pid)
    await eventually(lambda: len(guardian.children()) <= 16, what="the end of the others")


async def test_a_monitor_that_dies_between_two_commands_is_replaced(runner):
    await runner.run(shell("true"), NOTHING)
    guardian = psutil.Process(runner.guardian_pid)
    for monitor in guardian.children():
        monitor.kill()
    (connection,) = runner._guardian._idle
    await eventually(lambda: not is_idle(connection), what="the news of its death")
    assert (await runner.run(shell("echo again"), NOTHING)).stdout_tail == "again\n"


async def test_a_cancellation_that_crosses_the_end_does_not_hit_the_next_command(runner):
    for turn in range(60):
        run = asyncio.create_task(runner.run(shell("true"), NOTHING))
        await asyncio.sleep(turn * 0.0002)
        run.cancel()
        await asyncio.wait([run])
        done = await runner.run(shell("echo whole"), NOTHING)
        assert (done.stdout_tail, done.exit_code) == ("whole\n", 0)

"""Handlers that run in processes of their own: they have to be where another process can import them."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import logging
import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import posthouse

app = posthouse.App()
LOADED = uuid.uuid4().hex
NOW = posthouse.Retry(0)
_kept = []


class OrderGone(LookupError):
    pass


@app.job(runner="process")
def double(number: int) -> int:
    return number * 2


@app.job(runner="process")
async def double_async(number: int) -> int:
    await asyncio.sleep(0)
    return number * 2


@app.job(runner="process", batch=5)
def double_many(jobs: list[posthouse.Job]) -> list[object]:
    return [
        job.payload["number"] * 2 if "number" in job.payload else posthouse.Cancel("none") for job in jobs
    ]


@app.job()
def double_here(number: int) -> int:
    return number * 2


@app.job(runner="process")
def signals() -> list[str]:
    """What a program that a handler starts ignores and blocks."""
    done = subprocess.run(
        ["grep", "-E", "Sig(Ign|Blk)", "/proc/self/status"], check=True, capture_output=True, text=True
    )
    return [line.split()[1] for line in done.stdout.splitlines()]


@app.job(runner="process")
def where() -> list[object]:
    return [os.getpid(), LOADED]


@app.job(runner="process")
def about(job: posthouse.Job, word: str) -> dict[str, object]:
    return {
        "id": str(job.id),
        "kind": job.kind,
        "tenant": job.tenant,
        "payload": job.payload,
        "attempt": [job.attempt, job.max_attempts],
        "correlation_id": job.correlation_id,
        "queued": job.queued_at.isoformat(),
    }


@app.job(runner="process")
def order(job: posthouse.Job, number: int) -> None:
    job.enqueue(double, number=number)
    job.enqueue("double_here", {"number": number})


@app.job(runner="process", max_attempts=1)
def order_and_fail(job: posthouse.Job) -> None:
    job.enqueue(double, number=1)
    raise ValueError("no")


@app.job(runner="process")
def report(job: posthouse.Job, marker_file: str) -> None:
    job.progress(40, step="half", message="on the way")
    _wait_for(Path(marker_file) / "go")


@app.job(runner="process")
async def report_async(job: posthouse.Job) -> list[str]:
    await job.progress(10)
    await job.step("first", lambda: 1)
    async with job.part("a") as part:
        await part.progress(50)
    return await job.steps_done()


@app.job(runner="process", retry=NOW)
def step_by_step(job: posthouse.Job, marker_file: str) -> list[object]:
    found = job.step("once", _count, marker_file)
    if job.attempt == 1:
        raise ValueError("again")
    return [found, job.steps_done()]


def _count(marker_file: str) -> int:
    with (Path(marker_file) / "steps").open("a") as file:
        return file.write("x")


@app.job(runner="process")
def report_until_lost(job: posthouse.Job, marker_file: str) -> None:
    _mark(marker_file, "started")
    try:
        while True:
            with contextlib.suppress(posthouse.Cancel):  # the worker may be quicker to end it
                job.progress(message=str(time.monotonic()))
                time.sleep(0.02)
    except posthouse.LeaseLost:
        _mark(marker_file, "lost")
        raise


@app.job(runner="process", retry=posthouse.Retry("1h"))
def end_as(job: posthouse.Job, how: str) -> object:
    match how:
        case "snooze raised":
            raise posthouse.Snooze("1h")
        case "snooze returned":
            return posthouse.Snooze("1h")
        case "snooze past its limit":
            return posthouse.Snooze("1h", limit=0)
        case "cancel":
            raise posthouse.Cancel("not wanted")
        case "fail":
            raise posthouse.Fail("never") from ValueError("bad input")
    raise RuntimeError("odd")


@app.job(runner="process", fail_on=[LookupError])
def look_up() -> None:
    raise OrderGone("order 7")


@app.job(runner="process", max_attempts=1)
def explode() -> None:
    raise OrderGone("with\x00nul and \ud800")


@app.job(runner="process")
def chat(job: posthouse.Job, secret_token: str = "") -> None:
    job.log.warning("one of %s", "mine")
    logging.getLogger("shop").error("of the application %s", secret_token)


@app.job(runner="process", retry=NOW, timeout="200ms", max_attempts=2)
def hang_in_c(job: posthouse.Job) -> int:
    if job.attempt == 1:
        ctypes.PyDLL(None).sleep(3600)  # holds the GIL: nothing in this process runs any more
    return job.attempt


@app.job(runner="process")
def hang(job: posthouse.Job, marker_file: str) -> None:
    _mark(marker_file, f"started {os.getpid()}")
    ctypes.PyDLL(None).sleep(3600)


@app.job(runner="process", max_attempts=1)
def linger(job: posthouse.Job, marker_file: str) -> None:
    _mark(marker_file, f"started {os.getpid()}")
    try:
        time.sleep(3600)
    except posthouse.Cancel:
        _mark(marker_file, f"told, canceled={job.canceled}")
        raise


@app.job(runner="process", max_attempts=1)
async def linger_async(marker_file: str) -> None:
    _mark(marker_file, f"started {os.getpid()}")
    try:
        await asyncio.sleep(3600)
    except asyncio.CancelledError:
        _mark(marker_file, "told")
        raise


@app.job(runner="process")
def spawn_and_hang(marker_file: str) -> None:
    program = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
    _mark(marker_file, f"started {os.getpid()} {program.pid}")
    ctypes.PyDLL(None).sleep(3600)


DAEMON = """
import subprocess, sys
program = subprocess.Popen(
    [sys.executable, "-c", "import time; time.sleep(3600)"], start_new_session=True, stdout=subprocess.DEVNULL
)
print(program.pid)
"""


@app.job(runner="process", max_attempts=1)
def daemonise_and_hang(marker_file: str) -> None:
    """The program has a session of its own, and its parent has ended."""
    started = subprocess.run([sys.executable, "-c", DAEMON], stdout=subprocess.PIPE, text=True, check=True)
    _mark(marker_file, f"started {os.getpid()} {started.stdout.strip()}")
    ctypes.PyDLL(None).sleep(3600)


@app.job(runner="process", max_attempts=10, memory_mb=256)
def crash(job: posthouse.Job, how: str, times: int = 1000) -> str:
    if job.crashes >= times:
        return f"{job.crashes} crashes"
    match how:
        case "segfault":
            ctypes.string_at(0)
        case "exit":
            os._exit(3)
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "abort":
            os.abort()
        case "memory":
            bytearray(2**30)
        case "close":
            os.closerange(3, 100)
            time.sleep(3600)
        case "fork":
            if os.fork():
                os._exit(4)
            return "the fork came back"  # it must not answer for the job
    raise AssertionError(how)


@app.job(runner="process")
def make_noise(lines: int) -> str:
    for number in range(lines):
        print('{"done":1,"values":["wrong"]}', number)  # noqa: T201 - the noise
        print("\x00\xff", file=sys.stderr)  # noqa: T201
    os.write(1, b'\n{"done":1}\n')
    sys.stdout.flush()
    with contextlib.suppress(OSError):
        sys.stdin.read()
    return "quiet again"


@app.job(runner="process")
def echo(text: str) -> str:
    return text


@app.job(runner="process")
def write(job: posthouse.Job, word: str) -> None:
    job.enqueue(double, number=5)
    job.result = {"wrote": word}
    with job.commit() as connection:
        connection.execute("insert into words values (%s)", (word,))


@app.job(runner="process")
async def write_async(job: posthouse.Job, word: str, marker_file: str) -> None:
    async with job.commit() as connection:
        await connection.execute("insert into words values (%s)", (word,))
    _mark(marker_file, "written")
    await asyncio.to_thread(_wait_for, Path(marker_file) / "go")
    _mark(marker_file, "done")


def _mark(marker_file: str, text: str) -> None:
    with (Path(marker_file) / "marks").open("a") as file:
        file.write(f"{text}\n")


def _wait_for(path: Path) -> None:
    while not path.exists():
        time.sleep(0.01)

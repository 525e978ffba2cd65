"""Handlers that block the process that runs them."""

import asyncio
import hashlib
import os
import re
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import posthouse

app = posthouse.App()


@app.job()
async def where() -> int:
    return os.getpid()


@app.job(max_attempts=5)
async def hold_lock(job: posthouse.Job) -> int:
    """Holds the interpreter's lock for ever, in the middle of the handler; after a crash it returns."""
    await asyncio.sleep(0.1)
    if not job.crashes:
        re.match(r"(a+)+$", "a" * 64 + "b")
    return job.crashes


@app.job(max_attempts=5)
def hold_lock_in_thread(job: posthouse.Job) -> int:
    if not job.crashes:
        re.match(r"(a+)+$", "a" * 64 + "b")
    return job.crashes


@app.job(max_attempts=5, timeout="1s")
async def stay_in_c(job: posthouse.Job) -> int:
    """Blocks the event loop in C code that releases the interpreter's lock and ignores signals."""
    if not job.crashes:
        hashlib.pbkdf2_hmac("sha256", b"password", b"salt", 2**31 - 1)
    return job.crashes


@app.job(max_attempts=5, timeout="1m")
async def wait_for(path: str) -> int:
    """Waits for a file; ends in the process where it started."""
    while not Path(path).exists():  # noqa: ASYNC240
        await asyncio.sleep(0.05)
    return os.getpid()


@app.job(max_attempts=5, timeout="10m")
def never_stop() -> None:
    while True:
        try:
            time.sleep(3600)
        except BaseException:  # noqa: BLE001
            continue


@app.job(max_attempts=5, timeout="10m")
async def ignore_cancellation() -> None:
    while True:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(3600)


@app.job(max_attempts=5, timeout="10m", runner="process")
def never_stop_in_process() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    subprocess.Popen(["setsid", "sleep", "3600"])
    never_stop()


@app.job(max_attempts=5, timeout="10m")
async def block_loop() -> None:
    """Blocks the event loop for longer than the drain time."""
    hashlib.pbkdf2_hmac("sha256", b"password", b"salt", 2**31 - 1)

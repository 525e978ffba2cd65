"""Worker processes to measure: the real worker, started as a user would start it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

import posthouse
from posthouse.settings import Settings

PAYLOAD = {"user": 7, "text": "x" * 80}
"""About 100 bytes of JSON."""

app = posthouse.App(settings=Settings(database_url=os.environ.get("POSTHOUSE_DATABASE_URL", "")))


@app.job()
async def noop(user: int, text: str) -> None:
    """Does nothing: what is left is the cost of the queue."""


@app.job()
async def stamp() -> float:
    """Says when it started."""
    return time.time()


@app.job()
async def stamp_text(text: str) -> float:  # noqa: ARG001 - the payload is what is measured
    """Says when it started."""
    return time.time()


@app.job(max_attempts=100)
async def linger(job: posthouse.Job) -> None:
    """Stays until its worker dies; the second time it ends at once."""
    if job.attempt == 1:
        import asyncio  # noqa: PLC0415 - only here

        await asyncio.sleep(60)


class WorkerProcess:
    """One worker in a process of its own."""

    def __init__(self, url: str) -> None:
        environment = {**os.environ, "POSTHOUSE_DATABASE_URL": url}
        self._process = subprocess.Popen(
            [sys.executable, "-c", "from posthouse.bench import fleet; fleet.main()"],
            env=environment,
            stdout=subprocess.PIPE,
        )
        assert self._process.stdout is not None
        self._process.stdout.readline()  # it says when it is ready

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        return self._process.pid

    def rss_mb(self) -> float | None:
        """Peak memory so far; None where the system does not tell."""
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) / 1024
        return None

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def stop(self) -> None:
        if self._process.poll() is None:
            self._process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(20)
        if self._process.poll() is None:
            self.kill()
        if self._process.stdout is not None:
            self._process.stdout.close()


@contextlib.contextmanager
def fleet(url: str, size: int) -> Iterator[list[WorkerProcess]]:
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(WorkerProcess(url)) for _ in range(size)]


def main() -> None:
    from posthouse.worker.shutdown import run_loop  # noqa: PLC0415 - only in the worker process

    run_loop(app.work(ready=lambda _: print("ready", flush=True)))  # noqa: T201 - read by WorkerProcess

"""What an idle installation costs: ``python -m bench.idle``.

Starts ``posthouse up`` with one small application on each of two servers at the same time: the embedded
Postgres and the distribution's with default settings. Counts the CPU time of all their processes, background
processes of Postgres included. Prints one JSON object: percent of one core.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psycopg

from posthouse.storage.embedded import attach_server

from .stock import BINARIES, stock_server

SETTLE_SECONDS = 20.0
"""After the start: the first rounds of the keeper, autovacuum of the new tables."""
SECONDS = 60.0
TICK = os.sysconf("SC_CLK_TCK")


def _idle(urls: dict[str, str]) -> dict[str, dict[str, float]]:
    """Measure an installation on each of these servers at once; they must have no other clients."""
    with ExitStack() as stack:
        pids = {name: stack.enter_context(_installation(url)).pid for name, url in urls.items()}
        time.sleep(SETTLE_SECONDS)
        servers = {name: postmaster(url) for name, url in urls.items()}
        started = time.monotonic()
        before = {name: (cpu_seconds(pids[name]), cpu_seconds(servers[name])) for name in urls}
        time.sleep(SECONDS)
        after = {name: (cpu_seconds(pids[name]), cpu_seconds(servers[name])) for name in urls}
        spent = time.monotonic() - started
    return {name: _percent(before[name], after[name], spent) for name in urls}


def _percent(before: tuple[float, float], after: tuple[float, float], spent: float) -> dict[str, float]:
    ours, database = ((late - early) / spent * 100 for early, late in zip(before, after, strict=True))
    return {"posthouse": round(ours, 2), "postgres": round(database, 2), "total": round(ours + database, 2)}


@contextmanager
def _installation(url: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "posthouse", "up", "--port", "0", "--no-open"]
    environment = {**os.environ, "POSTHOUSE_DATABASE_URL": url}
    process = subprocess.Popen(
        [*command, "--app", "posthouse.bench.fleet:app"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        if not process.stdout.readline():
            raise RuntimeError("posthouse up did not start")
        yield process
    finally:
        process.terminate()
        process.communicate(timeout=60)


def postmaster(url: str) -> int:
    with psycopg.connect(url) as connection:
        return int(_fields(connection.info.backend_pid)[1])


def cpu_seconds(parent: int) -> float:
    """CPU seconds of a process, of its children that ended, and of those that run."""
    own = sum(int(field) for field in _fields(parent)[11:15])
    return own / TICK + sum(cpu_seconds(child) for child in _children(parent))


def _children(parent: int) -> list[int]:
    pids = [int(folder.name) for folder in Path("/proc").iterdir() if folder.name.isdigit()]
    return [pid for pid in pids if int(_fields(pid)[1]) == parent]


def _fields(pid: int) -> list[str]:
    """The fields of /proc/pid/stat from the state on; zeros for a process that has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ["0"] * 50


def measure_idle() -> dict[str, dict[str, float]]:
    """Percent of a core, by server; without the distribution's Postgres only on the embedded one."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="posthouse-idle-"))
        urls = {"embedded": stack.enter_context(attach_server(Path(folder) / "postgres")).url}
        if BINARIES is not None:
            urls["stock"] = stack.enter_context(stock_server())
        return _idle(urls)


if __name__ == "__main__":
    print(json.dumps(measure_idle()))

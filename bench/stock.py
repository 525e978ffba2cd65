"""A Postgres server of the distribution with its default settings, JIT among them.

The embedded server is tuned: a problem that only default settings show would otherwise stay unnoticed.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

START_SECONDS = 60
MISSING = "Postgres of the distribution is not installed (/usr/lib/postgresql/*/bin)"


def _newest() -> Path | None:
    found = Path("/usr/lib/postgresql").glob("*/bin/initdb")
    return max((path.parent for path in found), key=lambda folder: int(folder.parent.name), default=None)


BINARIES = _newest()


@contextmanager
def stock_server() -> Iterator[str]:
    """Start a new cluster and yield its URL; it listens on a socket only and is removed afterwards."""
    if BINARIES is None:
        raise FileNotFoundError(MISSING)
    # Not in a private folder: the account that runs Postgres must be able to enter it.
    folder = Path(tempfile.mkdtemp(prefix="posthouse-stock-"))
    account = _account()
    if account is not None:
        shutil.chown(folder, account)
    try:
        with _running(BINARIES, folder, account) as url:
            yield url
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _running(binaries: Path, folder: Path, account: str | None) -> Iterator[str]:
    data = folder / "data"
    create = [f"{binaries}/initdb", "-D", f"{data}", "-U", "postgres", "-A", "trust", "-E", "UTF8"]
    subprocess.run(create, user=account, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    start = [f"{binaries}/postgres", "-D", f"{data}", "-k", f"{folder}", "-c", "listen_addresses="]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(start, user=account, cwd=folder, stdout=log, stderr=log)
    url = f"postgresql://postgres@/postgres?host={folder}"
    try:
        _wait_for(process, url)
        yield url
    finally:
        process.send_signal(signal.SIGQUIT)  # an immediate shutdown: its data is deleted anyway
        process.wait(START_SECONDS)


def _wait_for(process: subprocess.Popen[bytes], url: str) -> None:
    deadline = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        try:
            psycopg.connect(url).close()
        except psycopg.OperationalError:
            time.sleep(0.02)
        else:
            return
    raise TimeoutError(f"Postgres did not accept connections within {START_SECONDS} s: {url}")


def _account() -> str | None:
    """Return the account that runs Postgres, which refuses to run as root."""
    if os.geteuid() != 0:
        return None
    known = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in known else "nobody"

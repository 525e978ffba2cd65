"""The jobs of the crash demo."""

from __future__ import annotations

import asyncio
import os
from functools import cache
from importlib.resources import files
from pathlib import Path

import posthouse

app = posthouse.App()

HOLD_SECONDS = 60.0


@cache
def statement(name: str) -> str:
    """Return the SQL in sql/<name>.sql."""
    return (files("posthouse.demo.crash") / "sql" / f"{name}.sql").read_text()


@app.job("crash.effect", queue="crash", timeout="1m", retry=posthouse.Retry("100ms"), max_attempts=20)
async def effect(job: posthouse.Job, number: int, seconds: float, hold: str | None = None) -> None:
    """Write one row and complete the job in the same transaction.

    ``hold`` names a file: the first attempt writes its process id there while the transaction is open, and
    waits to be killed.
    """
    await asyncio.sleep(seconds / 2)
    async with job.commit() as connection:
        await connection.execute(statement("effect_write"), {"number": number})
        waiting = hold is not None and _announce(Path(hold))
        await asyncio.sleep(HOLD_SECONDS if waiting else seconds / 2)


def _announce(path: Path) -> bool:
    """Write this process's id into the file unless it exists; return whether it was written."""
    if path.exists():
        return False
    unfinished = path.with_suffix(".new")
    unfinished.write_text(str(os.getpid()))
    unfinished.rename(path)
    return True

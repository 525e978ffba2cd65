"""The real command, a worker that it runs, and jobs that last as long as a test wants."""

import pytest

APP = """
import asyncio
import os
import pathlib

import posthouse

app = posthouse.App()


@app.job(timeout="5m")
async def hold(gate: str = "gate") -> str:
    while not pathlib.Path(gate).exists():
        await asyncio.sleep(0.01)
    return "let go"


@app.job()
async def quick() -> None:
    pass
"""


class Gate:
    """Jobs of the kind ``hold`` run until it is opened."""

    def __init__(self, path):
        self._path = path

    def open(self):
        self._path.touch()

    def close(self):
        self._path.unlink(missing_ok=True)


@pytest.fixture
def gate(tmp_path):
    return Gate(tmp_path / "gate")


@pytest.fixture
def start_worker(posthouse):
    """Starts ``posthouse worker``; returns when it is known."""
    app = posthouse.write_app("till", APP)

    def start(*arguments, **env):
        worker = posthouse.start(
            "worker", "--app", app, "--log-text", *arguments,
            POSTHOUSE_RESCUE_GRACE_SECONDS="0", **env,
        )  # fmt: skip
        worker.line()
        return worker

    return start

from dataclasses import replace
from pathlib import Path

import chores as chores_module
import psutil
import pytest

import stable


@pytest.fixture
async def chores(settings):
    """The app of chores.py, on this test's database. One process unless a test says more: each loads all."""
    app = chores_module.app
    app._given_settings = replace(settings, process_slots=1)
    app.__dict__.pop("settings", None)
    yield app
    await app.close()


class Marks:
    """Where handlers leave marks, since they share nothing else with the test."""

    def __init__(self, folder: Path) -> None:
        self.folder = str(folder)
        self._folder = folder

    def __iter__(self):
        file = self._folder / "marks"
        return iter(file.read_text().splitlines() if file.exists() else [])

    def pids(self):
        """Those that the first mark names, once there is one."""
        return next(([int(word) for word in mark.split()[1:]] for mark in self if "started" in mark), None)

    def go(self):
        (self._folder / "go").touch()


@pytest.fixture
def marks(tmp_path):
    return Marks(tmp_path)


@pytest.fixture
def leftovers():
    """Nothing that a test's worker started is left when the test is over."""
    stable.address()  # what forks commands for tests stays
    before = {process.pid for process in psutil.Process().children(recursive=True)}
    yield
    after = [process for process in psutil.Process().children(recursive=True) if process.pid not in before]
    assert not after

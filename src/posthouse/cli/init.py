"""posthouse init: write a small application that runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from posthouse.cli.guarding import UsageError
from posthouse.cli.output import print_line

if TYPE_CHECKING:
    from collections.abc import Iterable


def init(
    *,
    folder: Path = typer.Argument(
        Path(), metavar="[DIR]", help="The folder to write to.", show_default=False
    ),
    force: bool = typer.Option(False, "--force", help="Overwrite files that exist."),
) -> None:
    """Write a runnable example: jobs.py, posthouse.toml and test_jobs.py.

    [b]Examples:[/b]

    posthouse init

    posthouse init shop
    """
    existing = [name for name in FILES if (folder / name).exists()]
    if existing and not force:
        raise UsageError(
            f"{_listed(existing)} already exist{'s' if len(existing) == 1 else ''} in {folder.resolve()}; "
            "choose another folder, or pass --force to overwrite"
        )
    _write(folder, FILES)
    print_line(f"Created {_listed(FILES)} in {folder.resolve()}.")
    print_line("")
    print_line("Next steps:")
    print_line("")
    _show_next_steps(folder)


def _write(folder: Path, files: dict[str, str]) -> None:
    from posthouse.errors import ConfigurationError

    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (folder / name).write_text(text)
    except OSError as error:
        raise ConfigurationError(f"cannot write to {folder.resolve()}: {error.strerror or error}") from None


def _listed(names: Iterable[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def _missing_packages() -> list[str]:
    """Return what pip has to install for the next steps."""
    from importlib.util import find_spec

    from posthouse.cli.startup import missing_extras
    from posthouse.settings import load_settings

    extras = (
        missing_extras("server") if load_settings().database_url else missing_extras("embedded", "server")
    )
    own = [f"'posthouse[{','.join(extras)}]'"] if extras else []
    return [*own, *(["pytest"] if find_spec("pytest") is None else [])]


def _show_next_steps(folder: Path) -> None:
    import shlex
    import sys

    from posthouse.cli.startup import absolute_command, own_command, shell_path

    moved = folder.resolve() != Path.cwd()
    command = absolute_command() if moved else own_command()
    python = shell_path(Path(sys.executable), absolute=moved)
    if moved:
        print_line(f"  cd {shlex.quote(str(folder))}")
    if needed := _missing_packages():
        print_line(f"  {python} -m pip install {' '.join(needed)}")
    print_line(f"  {python} -m pytest  # run the test")
    print_line(f"  {command} up  # start Postgres, the console and a worker")
    print_line("")
    print_line("In a second terminal, in the same folder:")
    print_line("")
    print_line(f"""  {command} enqueue welcome --payload '{{"name": "Ada"}}' --wait""")


JOBS = '''"""The jobs of this application.

`posthouse up` runs them, because posthouse.toml names this module.
"""

import asyncio

import posthouse

app = posthouse.App()


@app.job(timeout="30s", retry=posthouse.Retry("10s", "1m", "5m"))
async def welcome(job: posthouse.Job, name: str) -> str:
    """Return a greeting. An exception would be retried after 10 s, 1 min and 5 min."""
    await job.progress(50, step="writing the greeting")
    await asyncio.sleep(0.2)  # stands for a call to a mail service
    job.log.info("welcomed %s", name)
    job.enqueue(remind, name=name, options={"delay": "1h"})  # enqueued if, and only if, this job succeeds
    return f"Welcome, {name}!"


@app.job()
def remind(name: str) -> str:
    """A plain function runs in a thread, so it may block."""
    return f"{name}, please confirm your address."


@app.job()
async def report() -> str:
    return "nothing to report"


report.on_schedule("0 7 * * *", zone="UTC", label="Daily report")
'''

SETTINGS = """# Settings of Posthouse; `posthouse config` shows all of them.

# The application that `posthouse up` and `posthouse worker` run.
app = "jobs:app"

# Without a database, Posthouse starts an embedded Postgres. To use your own:
# database_url = "postgresql://user@localhost/shop"
"""

TESTS = '''"""Tests of jobs.py on a real Postgres, with a fresh database for each test."""

import asyncio

import jobs
import pytest
from posthouse import testing


@pytest.fixture
def database():
    with testing.database() as url:
        yield url


def test_welcome_returns_a_greeting():
    assert asyncio.run(testing.run(jobs.welcome, name="Ada")) == "Welcome, Ada!"


def test_welcome_enqueues_a_reminder(database):
    async def scenario():
        async with testing.using(jobs.app, database) as app:
            handle = await jobs.welcome.enqueue(name="Ada")
            await testing.drain(app)
            assert await handle.wait("10s") == "Welcome, Ada!"
            await testing.assert_enqueued(app, "remind", {"name": "Ada"})

    asyncio.run(scenario())
'''

FILES = {"jobs.py": JOBS, "posthouse.toml": SETTINGS, "test_jobs.py": TESTS}

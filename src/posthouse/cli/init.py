"""posthouse init: write a small application that runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from posthouse.cli.guarding import WrongUsage
from posthouse.cli.output import say

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
    from posthouse.cli.example import FILES

    existing = [name for name in FILES if (folder / name).exists()]
    if existing and not force:
        raise WrongUsage(
            f"{_listed(existing)} already exist{'s' if len(existing) == 1 else ''} in {folder.resolve()}; "
            "choose another folder, or pass --force to overwrite"
        )
    _write(folder, FILES)
    say(f"Created {_listed(FILES)} in {folder.resolve()}.")
    say("")
    say("Next steps:")
    say("")
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

    from posthouse.cli.extras import missing_extras
    from posthouse.settings import load_settings

    extras = (
        missing_extras("server") if load_settings().database_url else missing_extras("embedded", "server")
    )
    own = [f"'posthouse[{','.join(extras)}]'"] if extras else []
    return [*own, *(["pytest"] if find_spec("pytest") is None else [])]


def _show_next_steps(folder: Path) -> None:
    import shlex
    import sys

    from posthouse.cli.invocation import absolute_command, own_command, shell_path

    moved = folder.resolve() != Path.cwd()
    command = absolute_command() if moved else own_command()
    python = shell_path(Path(sys.executable), absolute=moved)
    if moved:
        say(f"  cd {shlex.quote(str(folder))}")
    if needed := _missing_packages():
        say(f"  {python} -m pip install {' '.join(needed)}")
    say(f"  {python} -m pytest  # run the test")
    say(f"  {command} up  # start Postgres, the console and a worker")
    say("")
    say("In a second terminal, in the same folder:")
    say("")
    say(f"""  {command} enqueue welcome --payload '{{"name": "Ada"}}' --wait""")

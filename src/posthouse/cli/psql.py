"""posthouse psql: an SQL prompt on the configured database."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from posthouse.cli.database import checked_url
from posthouse.cli.output import print_line

if TYPE_CHECKING:
    from posthouse.settings import Settings

CONTEXT = {"ignore_unknown_options": True, "help_option_names": ["--help"]}
"""Options of the command itself; all options except --help are passed to psql."""


def psql(
    arguments: list[str] = typer.Argument(None, metavar="ARGUMENT", help="Arguments for psql."),
) -> None:
    """Open psql on the configured database: your own, or the embedded one, which is started if needed.

    The tables and views are in the schema [b]posthouse[/b]. Exits with the exit code of psql.

    [b]Examples:[/b]

    posthouse psql

    posthouse psql -c "select status, count(*) from posthouse.jobs group by status"
    """
    from posthouse.settings import load_settings

    settings = load_settings()
    url = settings.direct_url or checked_url(settings, check_schema=False)
    program = _program(settings)
    if program is None:
        print_line(url)
        print_line(
            "error: psql was not found; install it (Debian: `apt install postgresql-client`), or connect "
            "another client to the URL above",
            err=True,
        )
        raise typer.Exit(1)
    raise typer.Exit(_run(program, url, arguments or []))


def _program(settings: Settings) -> str | None:
    """Return the psql to use: the embedded server brings one of its own version."""
    from shutil import which

    programs = (which("psql"), _embedded_program())
    first, second = programs if settings.database_url else reversed(programs)
    return first or second


def _embedded_program() -> str | None:
    from pathlib import Path

    from posthouse.errors import EmbeddedUnavailable
    from posthouse.storage.embedded import find_binaries

    try:
        program = find_binaries().program("psql")
    except EmbeddedUnavailable:
        return None
    return program if Path(program).is_file() else None


def _run(program: str, url: str, arguments: list[str]) -> int:
    """Run psql as a child, because this process keeps the embedded server running meanwhile."""
    import os
    import signal
    import subprocess

    from psycopg.conninfo import conninfo_to_dict, make_conninfo

    where = conninfo_to_dict(url)
    password = where.pop("password", None)
    # In the environment, because arguments can be seen by other users of the machine.
    secret = {} if password is None else {"PGPASSWORD": str(password)}
    interrupts = signal.signal(signal.SIGINT, signal.SIG_IGN)  # psql handles Ctrl-C: it cancels a query
    try:
        return subprocess.run(  # noqa: S603 - a list of arguments, no shell
            [program, "-d", make_conninfo("", **where), *arguments],
            env={**os.environ, **secret},
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
            check=False,
        ).returncode
    finally:
        signal.signal(signal.SIGINT, interrupts)

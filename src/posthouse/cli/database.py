"""Database access for commands, and posthouse psql."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from posthouse.cli.output import print_line, show_result

if TYPE_CHECKING:
    from datetime import datetime

    from posthouse.settings import Settings
    from posthouse.storage.queries import Db

T = TypeVar("T")


def read(work: Callable[[Db, Settings], Awaitable[T]], *, direct: bool = False) -> T:
    """Run the work on a connection to the configured database; ``direct`` bypasses its pooler."""
    import asyncio

    from posthouse.settings import load_settings

    settings = load_settings()
    url = checked_url(settings)
    return asyncio.run(_read(settings, (direct and settings.direct_url) or url, work))


def read_at(work: Callable[[Db, Settings], Awaitable[T]]) -> tuple[T, datetime]:
    """Run the work, and return its result with the time of the database."""

    async def read_both(db: Db, settings: Settings) -> tuple[T, datetime]:
        from posthouse.insights import database_now

        return await work(db, settings), await database_now(db)

    return read(read_both)


async def _read(settings: Settings, url: str, work: Callable[[Db, Settings], Awaitable[T]]) -> T:
    from posthouse.storage.connections import connect_async
    from posthouse.storage.errors import translate_errors

    with translate_errors():
        connection = await connect_async(url, "cli")
        async with connection:
            return await work(connection, settings)


def act(work: Callable[[Db], Awaitable[Any]], done: str, *, as_json: bool) -> None:
    """Run an action and print ``done``; with --json print its result, secrets masked."""
    from posthouse.core.redaction import PLAIN

    show_result(PLAIN.value(read(lambda db, _: work(db))), done, as_json=as_json)


def checked_url(settings: Settings, *, check_schema: bool = True, wait_for_startup: bool = False) -> str:
    """Return the URL of the database after checking that it is reachable and its schema is current.

    ``wait_for_startup``: wait for a database that is down or restarting, as processes that keep running do.
    """
    from posthouse.storage.database import database_url, retry_startup_sync

    url = database_url(settings)
    if wait_for_startup:
        retry_startup_sync("connect to Postgres", lambda: _check_connection(url, check_schema=check_schema))
    else:
        _check_connection(url, check_schema=check_schema)
    return url


def _check_connection(url: str, *, check_schema: bool) -> None:
    from posthouse.storage.migrations import check_schema as check

    with _connected(url) as connection:
        if check_schema:
            check(connection)


def _connected(url: str) -> Any:
    import psycopg

    from posthouse.errors import DatabaseUnavailable
    from posthouse.storage.connections import connect_sync

    try:
        return connect_sync(url, "cli")
    except psycopg.Error as error:
        reason = " ".join(str(error).split())
        raise DatabaseUnavailable(
            f"cannot connect to Postgres: {reason}; check that the server is running and that "
            "POSTHOUSE_DATABASE_URL is correct (see `posthouse config`)"
        ) from error


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

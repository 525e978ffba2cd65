"""Database access for commands."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

from posthouse.cli.output import show_result

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


def checked_url(settings: Settings, *, check_schema: bool = True, patient: bool = False) -> str:
    """Return the URL of the database after checking that it is reachable and its schema is current.

    ``patient``: wait for a database that is down or restarting, as processes that keep running do.
    """
    from posthouse.storage.database import database_url, patiently_sync

    url = database_url(settings)
    if patient:
        patiently_sync("connect to Postgres", lambda: _look(url, check_schema=check_schema))
    else:
        _look(url, check_schema=check_schema)
    return url


def _look(url: str, *, check_schema: bool) -> None:
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

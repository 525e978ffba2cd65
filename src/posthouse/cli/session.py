"""A command's way to the database."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from posthouse.settings import Settings
    from posthouse.storage.reading import Db

T = TypeVar("T")


def read(work: Callable[[Db, Settings], Awaitable[T]], *, direct: bool = False) -> T:
    """Does the work on a connection to the database that the settings name; ``direct``: past its pooler."""
    import asyncio

    from posthouse.settings import load_settings

    settings = load_settings()
    url = reachable(settings)
    return asyncio.run(_read(settings, (direct and settings.direct_url) or url, work))


async def _read(settings: Settings, url: str, work: Callable[[Db, Settings], Awaitable[T]]) -> T:
    from posthouse.storage.connect import connect_async
    from posthouse.storage.errors import translated

    with translated():
        connection = await connect_async(url, "cli")
        async with connection:
            return await work(connection, settings)


def act(work: Callable[[Db], Awaitable[Any]], done: str, *, as_json: bool) -> None:
    """Does what was asked for, and says so; with --json it shows the answer, secrets masked."""
    from posthouse.cli.output import say, show_json
    from posthouse.core.redaction import PLAIN

    answer = read(lambda db, _: work(db))
    if as_json:
        show_json(PLAIN.value(answer))
    else:
        say(done)


def reachable(settings: Settings, *, check_schema: bool = True) -> str:
    """The URL of a database that answers, with the schema that this version needs."""
    from posthouse.storage.migrate import check_schema as check
    from posthouse.storage.server import database_url

    url = database_url(settings)
    with _connected(url) as connection:
        if check_schema:
            check(connection)
    return url


def _connected(url: str) -> Any:
    import psycopg

    from posthouse.errors import DatabaseUnavailable
    from posthouse.storage.connect import connect_sync

    try:
        return connect_sync(url, "cli")
    except psycopg.Error as error:
        reason = " ".join(str(error).split())
        raise DatabaseUnavailable(
            f"Postgres cannot be reached: {reason} - check that it is up and that "
            "POSTHOUSE_DATABASE_URL names it (`posthouse config`)"
        ) from None

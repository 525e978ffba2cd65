"""Enqueue on the caller's own connection: psycopg, asyncpg, SQLAlchemy 2 or Django.

Only psycopg is imported here; other connections are recognised by the package of their class. Each adapter
runs the same statement with one text parameter in the transaction that the caller has open.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from psycopg import AsyncCursor, Cursor
from psycopg.rows import tuple_row

from posthouse.errors import InvalidJob
from posthouse.storage.queries import query

Rows: TypeAlias = list[Sequence[Any]]

_SUPPORTED = "pass a psycopg, asyncpg, SQLAlchemy or Django connection (or an SQLAlchemy session)"
# Cast to text first: many applications configure asyncpg to encode jsonb parameters as JSON themselves.
_AS_TEXT = "cast(cast({} as text) as jsonb)"
_REQUIRED_METHOD = {"psycopg": "execute", "asyncpg": "fetch", "sqlalchemy": "execute", "django": "cursor"}


def _family(connection: object) -> str:
    """Return the library of a connection. Base classes count, so that subclasses work too."""
    for base in type(connection).__mro__:
        package = base.__module__.partition(".")[0]
        if package in _REQUIRED_METHOD and hasattr(connection, _REQUIRED_METHOD[package]):
            return package
    raise InvalidJob(f"cannot enqueue on a {type(connection).__qualname__}: {_SUPPORTED}")


def _statement(name: str, placeholder: str) -> str:
    return query(name).replace("%s::jsonb", placeholder)


async def execute_on(connection: Any, name: str, parameter: str) -> Rows:
    """Run a statement that takes one JSON parameter on a connection of an async library."""
    family = _family(connection)
    if not _is_async(family, connection):
        raise InvalidJob(f"a {type(connection).__qualname__} is a synchronous connection; use enqueue_sync")
    if family == "asyncpg":
        return list(await connection.fetch(_statement(name, _AS_TEXT.format("$1")), parameter))
    if family == "psycopg":
        async with AsyncCursor(_raw_connection(connection), row_factory=tuple_row) as cursor:
            await cursor.execute(query(name), (parameter,))
            return list(await cursor.fetchall())
    result = await connection.execute(_sqlalchemy_statement(name), {"jobs": parameter})
    return list(result.fetchall())


def execute_on_sync(connection: Any, name: str, parameter: str) -> Rows:
    """Run a statement that takes one JSON parameter on a connection of a synchronous library."""
    family = _family(connection)
    if _is_async(family, connection):
        raise InvalidJob(
            f"a {type(connection).__qualname__} is an asynchronous connection; use await enqueue"
        )
    if family == "psycopg":
        with Cursor(_raw_connection(connection), row_factory=tuple_row) as cursor:
            return list(cursor.execute(query(name), (parameter,)).fetchall())
    if family == "sqlalchemy":
        return list(connection.execute(_sqlalchemy_statement(name), {"jobs": parameter}).fetchall())
    with connection.cursor() as cursor:
        cursor.execute(query(name), [parameter])
        return list(cursor.fetchall())


def _is_async(family: str, connection: object) -> bool:
    return family == "asyncpg" or any(
        base.__name__.lower().startswith("async") for base in type(connection).__mro__
    )


def _raw_connection(connection: Any) -> Any:
    """Return the plain psycopg connection.

    The caller's own cursors may return dicts or use other placeholders.
    """
    return getattr(connection, "connection", connection)


def _sqlalchemy_statement(name: str) -> Any:
    from sqlalchemy import text  # noqa: PLC0415 - installed if the caller uses it

    return text(_statement(name, _AS_TEXT.format(":jobs")))

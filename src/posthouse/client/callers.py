"""Enqueue on the caller's own connection: psycopg, asyncpg, SQLAlchemy 2, Django.

None of them is imported here; a connection is recognised by the package that its class comes from. Each
carries the same statement with one text parameter, inside whatever transaction the caller has open.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from posthouse.errors import InvalidJob
from posthouse.storage.queries import query

Rows: TypeAlias = list[Sequence[Any]]

_SUPPORTED = "pass a psycopg, asyncpg, SQLAlchemy or Django connection (or an SQLAlchemy session)"


def _family(connection: object) -> str:
    """Which library a connection comes from; its base classes count, so wrappers that inherit work."""
    for base in type(connection).__mro__:
        package = base.__module__.partition(".")[0]
        if package in {"psycopg", "asyncpg", "sqlalchemy", "django"}:
            return package
    raise InvalidJob(f"cannot enqueue on a {type(connection).__qualname__}: {_SUPPORTED}")


def _statement(placeholder: str) -> str:
    return query("enqueue_many").replace("%s::jsonb", placeholder)


async def enqueue_on(connection: Any, parameter: str) -> Rows:
    """On a connection of an async library."""
    family = _family(connection)
    if family == "asyncpg":
        return list(await connection.fetch(_statement("$1::jsonb"), parameter))
    if family == "psycopg" and _is_async(connection):
        cursor = await connection.execute(query("enqueue_many"), (parameter,))
        return list(await cursor.fetchall())
    if family == "sqlalchemy" and _is_async(connection):
        result = await connection.execute(_sqlalchemy_statement(), {"jobs": parameter})
        return list(result.fetchall())
    raise InvalidJob(
        f"a {type(connection).__qualname__} is a synchronous connection: use enqueue_sync with it"
    )


def enqueue_on_sync(connection: Any, parameter: str) -> Rows:
    """On a connection of a synchronous library."""
    family = _family(connection)
    if family == "asyncpg" or _is_async(connection):
        raise InvalidJob(
            f"a {type(connection).__qualname__} is an asynchronous connection: await enqueue with it"
        )
    if family == "psycopg":
        return list(connection.execute(query("enqueue_many"), (parameter,)).fetchall())
    if family == "sqlalchemy":
        return list(connection.execute(_sqlalchemy_statement(), {"jobs": parameter}).fetchall())
    with connection.cursor() as cursor:
        cursor.execute(query("enqueue_many"), [parameter])
        return list(cursor.fetchall())


def _is_async(connection: object) -> bool:
    return any(base.__name__.startswith("Async") for base in type(connection).__mro__)


def _sqlalchemy_statement() -> Any:
    from sqlalchemy import text  # noqa: PLC0415 - only there if the caller uses it

    return text(_statement("cast(:jobs as jsonb)"))

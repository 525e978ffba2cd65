"""Migrate the schema: numbered files, forward only, one migrator at a time."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

import psycopg
from psycopg import Connection, sql

from posthouse.errors import ConfigurationError, SchemaError
from posthouse.storage.queries import query

_NAME = re.compile(r"(\d{4})_(\w+)\.sql$")
_LOCK = (7704, 0)


_COMMENT = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)
_EXTENSION = re.compile(
    r"\bcreate\s+extension\s+if\s+not\s+exists\s+\"?(?P<name>[\w-]+)\"?"
    r"(?:(?:\s+with)?\s+schema\s+\"?(?P<schema>\w+)\"?)?",
    re.IGNORECASE,
)


class Extension(NamedTuple):
    name: str
    schema: str | None


@dataclass(frozen=True, slots=True)
class Migration:
    number: int
    name: str
    text: str


@cache
def migrations() -> tuple[Migration, ...]:
    folder = files("posthouse.storage") / "migrations"
    found = [
        Migration(int(match[1]), match[2], item.read_text())
        for item in folder.iterdir()
        if (match := _NAME.match(item.name))
    ]
    return tuple(sorted(found, key=lambda migration: migration.number))


def schema_version(connection: Connection[Any]) -> int:
    """Return the newest applied migration, or 0 without a schema."""
    exists = connection.execute(query("schema_exists")).fetchone()
    if not exists or not exists[0]:
        return 0
    row = connection.execute(query("schema_version")).fetchone()
    return int(row[0]) if row else 0


def check_schema(connection: Connection[Any]) -> None:
    """Raise SchemaError if this version cannot work with the schema."""
    known = migrations()[-1].number
    version = schema_version(connection)
    if version < known:
        raise SchemaError(
            f"the database schema has version {version}, but this version of Posthouse needs {known}: "
            "run `posthouse migrate`"
        )
    if version > known:
        raise SchemaError(
            f"the database schema has version {version}, newer than this version of Posthouse "
            f"supports ({known}): upgrade Posthouse"
        )


def migrate(connection: Connection[Any]) -> list[Migration]:
    """Apply the missing migrations in one transaction and return them. Waits for another migrator."""
    with connection.transaction():
        connection.execute("select pg_advisory_xact_lock(%s, %s)", _LOCK)
        version = schema_version(connection)
        missing = [migration for migration in migrations() if migration.number > version]
        if version > migrations()[-1].number:
            check_schema(connection)
        if version == 0:
            connection.execute(query("schema_ledger"))
        for migration in missing:
            connection.execute(migration.text)
            connection.execute(query("migration_record"), (migration.number, migration.name))
        if missing:
            connection.execute(query("keep_apart"))
    return missing


def apply_schema(connection: Connection[Any], name: str, text: str) -> bool:
    """Run an application's SQL if it has changed since the last run. Returns whether it has."""
    digest = hashlib.sha256(text.encode()).hexdigest()
    with connection.transaction():
        connection.execute("select pg_advisory_xact_lock(%s, %s)", _LOCK)
        known = connection.execute(query("app_schema_digest"), (name,)).fetchone()
        if known is not None and known[0] == digest:
            return False
        _run(connection, name, text)
        connection.execute(query("app_schema_record"), (name, digest))
    return True


def extensions_in(text: str) -> list[Extension]:
    """Return the extensions that an application's SQL creates."""
    return [
        Extension(match["name"], match["schema"]) for match in _EXTENSION.finditer(_COMMENT.sub("", text))
    ]


def create_extensions(connection: Connection[Any], extensions: Sequence[Extension]) -> None:
    """Create extensions as a superuser. SQL with ``if not exists`` then leaves them as they are."""
    for extension in extensions:
        statement = sql.SQL("create extension if not exists {}").format(sql.Identifier(extension.name))
        if extension.schema is not None:
            statement += sql.SQL(" with schema {}").format(sql.Identifier(extension.schema))
        connection.execute(statement)


def _run(connection: Connection[Any], name: str, text: str) -> None:
    try:
        connection.execute(text)
    except psycopg.OperationalError:
        raise
    except psycopg.Error as error:
        told = str(error).partition("\nCONTEXT:")[0]
        raise SchemaError(f"{name} failed: {told}") from error


def check_guarded(connection: Connection[Any]) -> None:
    """Raise if row-level security would not separate tenants."""
    row = connection.execute(query("unguarded")).fetchone()
    if row is not None and row[0] is not None:
        user = connection.info.user
        raise ConfigurationError(
            f"tenants would not be isolated: {row[0]}. As a Postgres administrator, run: "
            "create role posthouse_engine nologin; create role posthouse_tenant nologin; "
            f'grant posthouse_tenant to posthouse_engine; grant posthouse_engine to "{user}". '
            "Then, as the owner of the schema: select posthouse.guard_tenants()"
        )

"""Brings the schema up to date: numbered files, forward only, one migrator at a time."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import psycopg
from psycopg import Connection

from posthouse.errors import ConfigurationError, SchemaError
from posthouse.storage.queries import query

_NAME = re.compile(r"(\d{4})_(\w+)\.sql$")
_LOCK = (7704, 0)


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
    """The newest migration applied; 0 if there is no schema."""
    exists = connection.execute(query("schema_exists")).fetchone()
    if not exists or not exists[0]:
        return 0
    row = connection.execute(query("schema_version")).fetchone()
    return int(row[0]) if row else 0


def check_schema(connection: Connection[Any]) -> None:
    """Refuses a schema that this version cannot work with."""
    known = migrations()[-1].number
    version = schema_version(connection)
    if version < known:
        raise SchemaError(
            f"the database schema is at {version}, this version needs {known}: run `posthouse migrate`"
        )
    if version > known:
        raise SchemaError(
            f"the database schema is at {version}, newer than this version knows ({known}): upgrade Posthouse"
        )


def migrate(connection: Connection[Any]) -> list[Migration]:
    """Applies what is missing, in one transaction; returns it. Waits for another migrator."""
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
    """Runs an application's own SQL if it has changed since it was run; whether it has."""
    digest = hashlib.sha256(text.encode()).hexdigest()
    with connection.transaction():
        connection.execute("select pg_advisory_xact_lock(%s, %s)", _LOCK)
        known = connection.execute(query("app_schema_digest"), (name,)).fetchone()
        if known is not None and known[0] == digest:
            return False
        _run(connection, name, text)
        connection.execute(query("app_schema_record"), (name, digest))
    return True


def _run(connection: Connection[Any], name: str, text: str) -> None:
    try:
        connection.execute(text)
    except psycopg.OperationalError:
        raise
    except psycopg.Error as error:
        told = str(error).partition("\nCONTEXT:")[0]
        raise SchemaError(f"{name} cannot be run: {told}") from error


def check_guarded(connection: Connection[Any]) -> None:
    """Refuses to serve tenants who would not be kept apart."""
    row = connection.execute(query("unguarded")).fetchone()
    if row is not None and row[0] is not None:
        user = connection.info.user
        raise ConfigurationError(
            f"tenants would not be kept apart: {row[0]}. Let an administrator of Postgres run: "
            "create role posthouse_engine nologin; create role posthouse_tenant nologin; "
            f'grant posthouse_tenant to posthouse_engine; grant posthouse_engine to "{user}". '
            "Then, as the owner of the schema: select posthouse.guard_tenants()"
        )

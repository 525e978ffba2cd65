"""Migrate the schema: tables forward only, functions as a whole, one migrator at a time.

Two lines at the top of each file of tables/ say which code works with which schema:

- ``-- Works with code from: 0.1.0``: the oldest version of Posthouse that works once the migration is
  applied. The version is stored with the migration, so that older code finds it.
- ``-- Required by this code: yes``: whether the code that comes with the migration needs it. Code works with
  a schema that lacks migrations which are not required.

Functions need no such lines as long as parameters are only added, at the end and with defaults, and
functions that supported versions call are kept. A change that breaks this rule needs a migration that says
so.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any, NamedTuple

import psycopg
from psycopg import Connection, sql
from psycopg.pq import TransactionStatus

from posthouse.errors import ConfigurationError, SchemaError
from posthouse.storage.queries import calling, query
from posthouse.storage.schema import (
    Definition,
    Migration,
    base_functions,
    functions,
    functions_digest,
    migrations,
    table_comments,
)


def code_version() -> str:
    """Return the version of this code."""
    return version("posthouse")


def version_key(text: str) -> tuple[int, ...]:
    """Return the numbers of a version, for comparisons."""
    return tuple(int(number) for number in re.findall(r"\d+", text)[:3])


def required_schema() -> int:
    """Return the number of the newest migration that this code cannot work without."""
    return max(migration.number for migration in migrations() if migration.is_required)


def why_incompatible(number: int, lowest_codes: Sequence[str]) -> str | None:
    """Return why this code cannot work with a schema, and what to do about it; None if it can.

    ``number`` is that of the newest migration, ``lowest_codes`` the versions that the migrations need.
    """
    own = code_version()
    if number < required_schema():
        return (
            f"the database schema has version {number}, but Posthouse {own} needs version "
            f"{required_schema()}: run `posthouse migrate`"
        )
    lowest = max(lowest_codes, key=version_key, default=own)
    if version_key(lowest) > version_key(own):
        return (
            f"the database schema has version {number}, which needs Posthouse {lowest} or newer; "
            f"this is {own}: upgrade Posthouse"
        )
    return None


_LOCK = (7704, 0)
LOCK_TIMEOUT = "100ms"
"""How long a migration waits for a lock on a table.

Later transactions queue behind the migration for as long. Shorter than deadlock_timeout, so that a deadlock
ends the migration and not a job.
"""
LOCK_ATTEMPTS = 120
TRY_PAUSE = 0.5
_UNRELEASED = (
    "the schema posthouse was created by an unreleased version of Posthouse and cannot be migrated: "
    "use another database or --data-dir, or drop the schema and its jobs (drop schema posthouse cascade)"
)
_NOT_REPLACEABLE = (psycopg.errors.InvalidFunctionDefinition, psycopg.errors.InvalidTableDefinition)
"""Raised for a function with another return type and a view with other columns."""

_COMMENT = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)
_EXTENSION = re.compile(
    r"\bcreate\s+extension\s+if\s+not\s+exists\s+\"?(?P<name>[\w-]+)\"?"
    r"(?:(?:\s+with)?\s+schema\s+\"?(?P<schema>\w+)\"?)?",
    re.IGNORECASE,
)


class Extension(NamedTuple):
    name: str
    schema: str | None


class SchemaVersion(NamedTuple):
    """The newest applied migration, 0 without a schema, and the versions of code that the migrations need."""

    number: int
    lowest_codes: Sequence[str]


def schema_version(connection: Connection[Any]) -> SchemaVersion:
    exists = connection.execute(query("schema_exists")).fetchone()
    row = connection.execute(query("schema_version")).fetchone() if exists and exists[0] else None
    return SchemaVersion(*row) if row else SchemaVersion(0, [])


def check_schema(connection: Connection[Any]) -> None:
    """Raise SchemaError if this version cannot work with the schema."""
    reason = why_incompatible(*schema_version(connection))
    if reason is not None:
        raise SchemaError(reason)


def migrate(connection: Connection[Any]) -> list[Migration]:
    """Bring the schema up to date in one transaction and return the migrations that were applied.

    Waits for another migrator to finish. It waits for a table in use only for LOCK_TIMEOUT, because later
    transactions queue behind it: then the migration is rolled back and tried again. A schema that newer
    code has migrated is left as it is, if this code works with it.
    """
    tries = 0
    while True:
        try:
            with connection.transaction():
                return _migrate(connection)
        except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected) as error:
            tries += 1
            if connection.info.transaction_status != TransactionStatus.IDLE:  # the caller's transaction
                raise
            if tries == LOCK_ATTEMPTS:
                raise SchemaError(
                    f"the migration found a table locked in each of {LOCK_ATTEMPTS} attempts: end the "
                    "transaction that uses the table (see pg_stat_activity) and run `posthouse migrate` again"
                ) from error
        time.sleep(TRY_PAUSE)


def _migrate(connection: Connection[Any]) -> list[Migration]:
    connection.execute("select pg_advisory_xact_lock(%s, %s)", _LOCK)
    version = schema_version(connection)
    if version.number > migrations()[-1].number:
        check_schema(connection)
        return []
    if version.number:
        _check_applied(connection)
    missing = [migration for migration in migrations() if migration.number > version.number]
    if missing or _functions_are_older(connection):
        connection.execute(query("migration_settings"), {"lock_timeout": LOCK_TIMEOUT})
        if version.number == 0:
            _create_ledger(connection)
        _apply(connection, missing)
    elif version.number:
        connection.execute(calling("drop_retired_functions"))
    return missing


def _functions_are_older(connection: Connection[Any]) -> bool:
    """Whether the installed functions differ and were installed by this version or an older one."""
    row = connection.execute(query("functions_installed")).fetchone()
    if row is None:
        return True
    return row[1] != functions_digest() and version_key(row[0]) <= version_key(code_version())


def _create_ledger(connection: Connection[Any]) -> None:
    try:
        connection.execute(query("schema_create"))
    except psycopg.errors.DuplicateTable as error:
        raise SchemaError(_UNRELEASED) from error


def _check_applied(connection: Connection[Any]) -> None:
    """Raise SchemaError if a migration was applied with other statements than this code has."""
    digests = dict(connection.execute(query("migrations_applied")).fetchall())
    if any(digests.get(item.number, item.digest) != item.digest for item in migrations()):
        raise SchemaError(_UNRELEASED)


def _apply(connection: Connection[Any], missing: Sequence[Migration]) -> None:
    before = dict(connection.execute(query("functions_list")).fetchall())
    _define(connection, base_functions())
    for migration in missing:
        connection.execute(migration.text)
        record = (migration.number, migration.name, migration.lowest_code, migration.digest)
        connection.execute(query("migration_record"), record)
    _define(connection, functions())
    after = dict(connection.execute(query("functions_list")).fetchall())
    untouched = [oid for oid, row in before.items() if after.get(oid) == row]
    connection.execute(calling("retire_functions", "functions"), {"functions": untouched})
    comments = (item.comment_statement for item in (*base_functions(), *functions()))
    connection.execute("".join([*comments, table_comments()]))
    connection.execute(query("functions_record"), (code_version(), functions_digest()))
    connection.execute(calling("create_partitions"))
    connection.execute(calling("enforce_tenant_isolation"))


def _define(connection: Connection[Any], definitions: Sequence[Definition]) -> None:
    """Create or replace functions and views. Those that cannot be replaced are found by halving the list."""
    try:
        with connection.transaction():
            connection.execute("".join(item.text for item in definitions))
    except _NOT_REPLACEABLE:
        if len(definitions) > 1:
            middle = len(definitions) // 2
            _define(connection, definitions[:middle])
            _define(connection, definitions[middle:])
        else:
            _remove(connection, definitions[0])
            connection.execute(definitions[0].text)


def _remove(connection: Connection[Any], item: Definition) -> None:
    if item.kind == "view":
        _drop_view(connection, item.name)
    else:
        connection.execute(query("functions_rename"), (item.name.removeprefix("posthouse."),))


def _drop_view(connection: Connection[Any], name: str) -> None:
    try:
        connection.execute(sql.SQL("drop view {}").format(sql.Identifier(*name.split("."))))
    except psycopg.errors.DependentObjectsStillExist as error:
        raise SchemaError(
            f"the view {name} has other columns in this version, but {error.diag.message_detail}: drop what "
            "depends on it, run `posthouse migrate`, and create it again"
        ) from error


def apply_app_schema(connection: Connection[Any], name: str, text: str) -> bool:
    """Run an application's SQL if it has changed since the last run. Returns whether it was run."""
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
        message = str(error).partition("\nCONTEXT:")[0]
        raise SchemaError(f"{name} failed: {message}") from error


def check_tenant_isolation(connection: Connection[Any]) -> None:
    """Raise if row-level security would not separate tenants."""
    row = connection.execute(calling("missing_isolation")).fetchone()
    if row is not None and row[0] is not None:
        user = connection.info.user
        raise ConfigurationError(
            f"tenants would not be isolated: {row[0]}. As a Postgres administrator, run: "
            "create role posthouse_engine nologin; create role posthouse_tenant nologin; "
            f'grant posthouse_tenant to posthouse_engine; grant posthouse_engine to "{user}". '
            "Then, as the owner of the schema: select posthouse.enable_tenant_isolation()"
        )

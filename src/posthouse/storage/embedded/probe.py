"""Checking whether the process that listens on our port is our server."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import sql

from posthouse.storage.embedded import state
from posthouse.storage.embedded.state import ADMIN, DATABASE, HOST, USER, State

if TYPE_CHECKING:
    from posthouse.storage.embedded.layout import Layout

CONNECT_SECONDS = 5
LIBPQ_WITH_REQUIRE_AUTH = 160_000
WHO_ARE_YOU = """
    select current_setting('data_directory'),
           current_setting('server_version'),
           pg_read_file('postmaster.pid'),
           exists (select from pg_database where datname = %s)
"""


@dataclass(frozen=True, slots=True)
class Answer:
    state: State
    server_version: str
    postmaster_pid: int


def ask(layout: Layout) -> Answer | None:
    """Return what our server answers, or None if it does not answer.

    The process id comes from the running server, not from a file that may be out of date.
    """
    known = state.load(layout.state_file)
    if known is None:
        return None
    try:
        with _connect(known) as connection:
            return _identify(connection, layout, known)
    except psycopg.Error:
        return None


def _connect(known: State) -> psycopg.Connection[tuple[str, str, str, bool]]:
    # All parameters are given, so that PG* variables have no effect.
    return psycopg.connect(
        host=HOST,
        hostaddr=HOST,
        port=known.port,
        user=ADMIN,
        password=known.admin_password,
        dbname="postgres",
        sslmode="disable",
        gssencmode="disable",
        options="",
        connect_timeout=CONNECT_SECONDS,
        autocommit=True,
        **_only_scram(),
    )


def _only_scram() -> dict[str, Any]:
    """Never send the password in plain text: another program may have taken our port."""
    known_to_libpq = psycopg.pq.version() >= LIBPQ_WITH_REQUIRE_AUTH
    return {"require_auth": "scram-sha-256"} if known_to_libpq else {}


def _identify(
    connection: psycopg.Connection[tuple[str, str, str, bool]], layout: Layout, known: State
) -> Answer | None:
    row = connection.execute(WHO_ARE_YOU, [DATABASE]).fetchone()
    assert row is not None
    cluster, version, pid_file, has_database = row
    if Path(cluster).resolve() != layout.cluster:
        return None
    if not has_database:
        _create_database(connection, known)
    return Answer(known, version, int(pid_file.split()[0]))


def _create_database(connection: psycopg.Connection[Any], known: State) -> None:
    """Create the role of the applications and its database. The database last: it says that both exist.

    The role may create databases and roles, and look after the server. It bypasses row-level security
    because its policies permit all rows anyway, and COPY is not possible with it.
    """
    user, database = sql.Identifier(USER), sql.Identifier(DATABASE)
    if connection.execute("select from pg_roles where rolname = %s", [USER]).fetchone() is None:
        connection.execute(
            sql.SQL("create role {} login createdb createrole bypassrls password {}").format(
                user, sql.Literal(known.password)
            )
        )
    connection.execute(sql.SQL("grant pg_monitor, pg_signal_backend, pg_checkpoint to {}").format(user))
    connection.execute(sql.SQL("create database {} owner {}").format(database, user))

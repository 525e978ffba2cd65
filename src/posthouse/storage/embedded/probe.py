"""Asking whoever listens on our port whether it is our server."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import sql

from posthouse.storage.embedded import state
from posthouse.storage.embedded.state import DATABASE, HOST, USER, State

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
    """Return what our server says, or nothing if it does not answer.

    The process id comes from the living server itself, not from a file that may be stale.
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
    # Given in full, so that PG* variables do not steer us elsewhere.
    return psycopg.connect(
        host=HOST,
        hostaddr=HOST,
        port=known.port,
        user=USER,
        password=known.password,
        dbname="postgres",
        sslmode="disable",
        gssencmode="disable",
        options="",
        connect_timeout=CONNECT_SECONDS,
        autocommit=True,
        **_only_scram(),
    )


def _only_scram() -> dict[str, Any]:
    """Refuse to send the password in clear to a stranger who has taken our port."""
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
        connection.execute(sql.SQL("create database {}").format(sql.Identifier(DATABASE)))
    return Answer(known, version, int(pid_file.split()[0]))

"""Choose the Postgres server, configured or embedded, and wait until it accepts connections."""

from __future__ import annotations

import asyncio
import atexit
import logging
import re
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import psycopg

from posthouse.errors import DatabaseUnavailable, ServerUnavailable
from posthouse.settings import Settings
from posthouse.storage.connections import connect_sync
from posthouse.storage.errors import translate_errors
from posthouse.storage.migrations import check_schema, check_tenant_isolation, migrate

if TYPE_CHECKING:
    from posthouse.storage.embedded import EmbeddedPostgres


_lock = threading.Lock()
_servers: dict[Path, EmbeddedPostgres] = {}


def database_url(settings: Settings) -> str:
    """Return the URL to connect to.

    Without a URL in the settings, the embedded server is started and migrated. This process stays attached to
    it until close_embedded(), or until it ends.
    """
    if settings.database_url:
        return settings.database_url
    return embedded_server(settings.data_dir).url


def checked_database_url(settings: Settings) -> str:
    """Return the URL after checking that this version can work with the schema."""
    url = database_url(settings)
    with translate_errors(), connect_sync(url, "check") as connection:
        check_schema(connection)
    return url


def isolated_database_url(settings: Settings) -> str:
    """Return the URL after checking that row-level security separates tenants."""
    url = checked_database_url(settings)
    with translate_errors(), connect_sync(url, "check") as connection:
        check_tenant_isolation(connection)
    return url


async def awaited_database_url(settings: Settings) -> str:
    """Return the URL as isolated_database_url does; wait for a database that is down or restarting."""
    return await retry_startup(
        "connect to Postgres", lambda: asyncio.to_thread(isolated_database_url, settings)
    )


def embedded_server(data_dir: Path, report: Callable[[str], None] | None = None) -> EmbeddedPostgres:
    """Return the embedded server of this directory, migrated. ``report`` receives the progress."""
    from posthouse.storage.embedded import attach_server  # noqa: PLC0415 - an optional dependency

    with _lock:
        server = _servers.get(data_dir)
        if server is None:
            server = _servers[data_dir] = attach_server(data_dir, report=report)
            atexit.register(close_embedded)  # a script must not leave a server behind
            if report is not None:
                report("migrating")
            with connect_sync(server.url, "migrate") as connection:
                migrate(connection)
        return server


def admin_url(settings: Settings, url: str) -> str | None:
    """Return the superuser's URL for the database at ``url`` if an embedded server runs it; else None."""
    with _lock:
        for server in _servers.values():
            if server.url == url:
                return server.admin_url_for()
    try:
        from posthouse.storage.embedded import admin_url_of  # noqa: PLC0415 - an extra
    except ImportError:
        return None
    return admin_url_of(settings.data_dir, url)


def close_embedded() -> None:
    """Detach from every embedded server; the last process to do so stops it."""
    with _lock:
        while _servers:
            _, server = _servers.popitem()
            server.close()


_log = logging.getLogger("posthouse")

T = TypeVar("T")
FIRST_PAUSE, MAX_PAUSE = 0.5, 5.0
_PERMANENT_SQLSTATES = {"28000", "28P01", "3D000"}
"""invalid_authorization_specification, invalid_password, invalid_catalog_name."""
_READ_ONLY = "25006"
"""read_only_sql_transaction: the server is a standby, as during a failover."""
_PERMANENT_MESSAGE = re.compile(
    r"authentication failed|no pg_hba\.conf entry|no password supplied"
    r"|(database|role) \"[^\"]*\" does not exist|is not permitted to log in"
    r"|invalid .*(option|value|port)|certificate"
)
"""A failed connection has no SQLSTATE, only a message of the server or of libpq."""


def is_temporary(error: BaseException) -> bool:
    """Return whether a retry can succeed: a restart, a lock timeout, a server that is not up yet.

    A wrong password, an unknown database or an invalid definition is a permanent error.
    """
    if isinstance(error, DatabaseUnavailable):
        return error.__cause__ is None or is_temporary(error.__cause__)
    if isinstance(error, ServerUnavailable):
        return True
    if not isinstance(error, psycopg.Error):
        return False
    if error.sqlstate is not None:
        temporary = isinstance(error, psycopg.OperationalError) and error.sqlstate not in _PERMANENT_SQLSTATES
        return temporary or error.sqlstate == _READ_ONLY
    return isinstance(error, psycopg.OperationalError) and not _PERMANENT_MESSAGE.search(str(error))


async def retry_startup(step: str, attempt: Callable[[], Awaitable[T]]) -> T:
    """Run a start-up step until it succeeds. Raises permanent errors (see is_temporary)."""
    failures = 0
    while True:
        try:
            return await attempt()
        except (psycopg.Error, DatabaseUnavailable, ServerUnavailable) as error:
            pause = _pause(step, error, failures)
        failures += 1
        await asyncio.sleep(pause)


def retry_startup_sync(step: str, attempt: Callable[[], T]) -> T:
    """Run a start-up step as retry_startup does, without an event loop."""
    failures = 0
    while True:
        try:
            return attempt()
        except (psycopg.Error, DatabaseUnavailable, ServerUnavailable) as error:
            pause = _pause(step, error, failures)
        failures += 1
        time.sleep(pause)


def _pause(step: str, error: Exception, failures: int) -> float:
    """Log the failure and return the seconds until the next attempt, or raise the error."""
    if not is_temporary(error):
        raise error
    pause = min(MAX_PAUSE, FIRST_PAUSE * 2.0 ** min(failures, 16))
    _log.warning("start-up failed, retrying in %g s step=%r: %s", pause, step, " ".join(str(error).split()))
    return pause

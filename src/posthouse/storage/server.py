"""Choose the Postgres server: the one in the settings, or the embedded one."""

from __future__ import annotations

import asyncio
import atexit
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from posthouse.settings import Settings
from posthouse.storage.connect import connect_sync
from posthouse.storage.errors import translated
from posthouse.storage.migrate import check_guarded, check_schema, migrate
from posthouse.storage.startup import patiently

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


def ready_database_url(settings: Settings) -> str:
    """Return the URL after checking that this version can work with the schema."""
    url = database_url(settings)
    with translated(), connect_sync(url, "check") as connection:
        check_schema(connection)
    return url


def guarded_database_url(settings: Settings) -> str:
    """Return the URL after checking that row-level security separates tenants."""
    url = ready_database_url(settings)
    with translated(), connect_sync(url, "check") as connection:
        check_guarded(connection)
    return url


async def awaited_database_url(settings: Settings) -> str:
    """The same; waits for a database that is down or restarting."""
    return await patiently("connect to Postgres", lambda: asyncio.to_thread(guarded_database_url, settings))


def embedded_server(data_dir: Path, report: Callable[[str], None] | None = None) -> EmbeddedPostgres:
    """Return the embedded server of this directory, migrated. ``report`` receives the progress."""
    from posthouse.storage.embedded import ensure  # noqa: PLC0415 - an optional dependency

    with _lock:
        server = _servers.get(data_dir)
        if server is None:
            server = _servers[data_dir] = ensure(data_dir, report=report)
            atexit.register(close_embedded)  # a script must not leave a server behind
            if report is not None:
                report("migrating")
            with connect_sync(server.url, "migrate") as connection:
                migrate(connection)
        return server


def admin_url(settings: Settings, url: str) -> str | None:
    """Return the superuser's URL of a database, if it is that of an embedded server; else None."""
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

"""Which Postgres to use: the one that the settings name, else the embedded one."""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from posthouse.settings import Settings
from posthouse.storage.connect import connect_sync
from posthouse.storage.errors import translated
from posthouse.storage.migrate import check_guarded, check_schema, migrate

if TYPE_CHECKING:
    from posthouse.storage.embedded import EmbeddedPostgres

_lock = threading.Lock()
_servers: dict[Path, EmbeddedPostgres] = {}


def database_url(settings: Settings) -> str:
    """The URL to connect to. Without one in the settings the embedded server is started and migrated;
    this process stays attached to it until close_embedded(), or until it ends.
    """
    if settings.database_url:
        return settings.database_url
    return embedded_server(settings.data_dir).url


def ready_database_url(settings: Settings) -> str:
    """The same, once it is certain that the schema there is the one that this version works with."""
    url = database_url(settings)
    with translated(), connect_sync(url, "check") as connection:
        check_schema(connection)
    return url


def guarded_database_url(settings: Settings) -> str:
    """The same, once it is certain that tenants are kept apart there."""
    url = ready_database_url(settings)
    with translated(), connect_sync(url, "check") as connection:
        check_guarded(connection)
    return url


def embedded_server(data_dir: Path, report: Callable[[str], None] | None = None) -> EmbeddedPostgres:
    """The embedded server of this directory, migrated. ``report`` is told what is being done."""
    from posthouse.storage.embedded import ensure  # noqa: PLC0415 - an extra

    with _lock:
        server = _servers.get(data_dir)
        if server is None:
            server = _servers[data_dir] = ensure(data_dir, report=report)
            atexit.register(close_embedded)  # a script that ends must not leave a server behind
            if report is not None:
                report("migrating")
            with connect_sync(server.url, "migrate") as connection:
                migrate(connection)
        return server


def close_embedded() -> None:
    """Detach from every embedded server; the last process to do so stops it."""
    with _lock:
        while _servers:
            _, server = _servers.popitem()
            server.close()

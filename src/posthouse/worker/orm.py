"""Django's database connections in handlers.

Django closes stale connections around each request. A worker has no requests, so each thread that ran a
handler would keep its connection for good, and after a restart of the database every query on it would fail.
So the same is done around each handler, where Django is loaded and configured; it is never imported here.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

_log = logging.getLogger("posthouse.worker")


@contextmanager
def fresh_connections() -> Iterator[None]:
    """Close stale connections of Django before and after a handler, in the thread that runs it."""
    _close_stale()
    try:
        yield
    finally:
        _close_stale()


@contextmanager
def fresh_async_connections() -> Iterator[None]:
    """Do the same for an async handler, whose queries Django runs in the thread of ``sync_to_async``."""
    _close_stale_of_async()
    try:
        yield
    finally:
        _close_stale_of_async()


def uses_django() -> bool:
    """Return whether Django is loaded and configured, so that handlers may have connections of it."""
    return "django.db" in sys.modules and _configured_django() is not None


def _close_stale() -> None:
    """What django.db.close_old_connections does: close what is broken, or older than CONN_MAX_AGE."""
    django_db = _configured_django()
    if django_db is None:
        return
    try:
        django_db.close_old_connections()
    except Exception as error:  # noqa: BLE001 - of any database driver; the handler's outcome stands
        _log.warning("stale Django connections could not be closed: %s: %s", type(error).__name__, error)


def _close_stale_of_async() -> None:
    """Queue it in that thread, which runs one call after the other: nothing needs to wait for it."""
    asgiref = sys.modules.get("asgiref.sync")
    if asgiref is None or _configured_django() is None:
        return
    executor = asgiref.SyncToAsync.single_thread_executor
    if getattr(executor, "_threads", True):  # no thread: no query was made yet
        with suppress(RuntimeError):  # the interpreter is shutting down
            executor.submit(_close_stale)


def _configured_django() -> Any:
    """Return the module django.db if it is loaded and the settings are configured."""
    django_db, conf = sys.modules.get("django.db"), sys.modules.get("django.conf")
    if django_db is None or conf is None or not conf.settings.configured:
        return None
    return django_db

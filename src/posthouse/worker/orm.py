"""Django's database connections in handlers.

Django closes stale connections around each request. A worker has no requests, so each thread that ran a
handler would keep its connection, and after a restart of the database every query on it would fail. This
module therefore closes stale connections around each handler, if the application has loaded and configured
Django. It never imports Django.
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
    """Close stale connections before and after an async handler.

    Django runs the queries of async code in the thread of ``sync_to_async``.
    """
    _close_stale_of_async()
    try:
        yield
    finally:
        _close_stale_of_async()


def uses_django() -> bool:
    """Return whether Django is loaded and configured, so that handlers may use its connections."""
    return "django.db" in sys.modules and _configured_django() is not None


def _close_stale() -> None:
    """Close this thread's Django connections that are broken or older than CONN_MAX_AGE."""
    django_db = _configured_django()
    if django_db is None:
        return
    try:
        django_db.close_old_connections()
    except Exception as error:  # noqa: BLE001 - of any database driver; the handler's outcome stands
        _log.warning("stale Django connections could not be closed: %s: %s", type(error).__name__, error)


def _close_stale_of_async() -> None:
    """Queue ``_close_stale`` in the thread of ``sync_to_async``, which runs its calls in order."""
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

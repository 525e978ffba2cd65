"""Faults during start-up: what passes by itself is retried, with a log line each time."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

import psycopg

from posthouse.errors import DatabaseUnavailable, ServerUnavailable

_log = logging.getLogger("posthouse")

T = TypeVar("T")
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 5.0
_REFUSED = {"28000", "28P01", "3D000"}
"""invalid_authorization_specification, invalid_password, invalid_catalog_name."""
_READ_ONLY = "25006"
"""read_only_sql_transaction: the server is a standby, as during a failover."""
_REFUSAL = re.compile(
    r"authentication failed|no pg_hba\.conf entry|no password supplied"
    r"|(database|role) \"[^\"]*\" does not exist|is not permitted to log in"
    r"|invalid .*(option|value|port)|certificate"
)
"""A failed connection has no SQLSTATE, only the text of the server or of libpq."""


def passes_by_itself(error: BaseException) -> bool:
    """Return whether it makes sense to try again: a restart, a lock timeout, a server that is not there yet.

    A wrong password, an unknown database or an invalid definition stays wrong.
    """
    if isinstance(error, DatabaseUnavailable):
        return error.__cause__ is None or passes_by_itself(error.__cause__)
    if isinstance(error, ServerUnavailable):
        return True
    if not isinstance(error, psycopg.Error):
        return False
    if error.sqlstate is not None:
        temporary = isinstance(error, psycopg.OperationalError) and error.sqlstate not in _REFUSED
        return temporary or error.sqlstate == _READ_ONLY
    return isinstance(error, psycopg.OperationalError) and not _REFUSAL.search(str(error))


async def patiently(step: str, attempt: Callable[[], Awaitable[T]]) -> T:
    """Run a step of the start until it succeeds. Raise the errors that do not pass by themselves."""
    failures = 0
    while True:
        try:
            return await attempt()
        except (psycopg.Error, DatabaseUnavailable, ServerUnavailable) as error:
            pause = _pause(step, error, failures)
        failures += 1
        await asyncio.sleep(pause)


def patiently_sync(step: str, attempt: Callable[[], T]) -> T:
    """Do the same where no event loop runs."""
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
    if not passes_by_itself(error):
        raise error
    pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(failures, 16))
    _log.warning("start-up failed, retrying in %g s step=%r: %s", pause, step, " ".join(str(error).split()))
    return pause

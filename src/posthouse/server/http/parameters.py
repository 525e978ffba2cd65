"""Parameters that many routes have: permissions, texts of queries, and times."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from fastapi import Query
from pydantic import AfterValidator

from posthouse.identity import Permission
from posthouse.server.http.auth import Access, allow

JobReader = Annotated[Access, allow(Permission.JOBS_READ, tenant_scoped=True)]
JobWriter = Annotated[Access, allow(Permission.JOBS_WRITE, tenant_scoped=True)]
QueryText = Annotated[str | None, Query(min_length=1, max_length=512)]

_LAST_YEAR = 9000


def _validate_datetime(moment: datetime) -> datetime:
    """Return the time in UTC.

    A time without a zone is taken as UTC, because queries are often typed by hand. The ends of the calendar
    are rejected, because Postgres does not accept every time that Python does.
    """
    if not 1 < moment.year < _LAST_YEAR:
        raise ValueError(f"the year must be between 2 and {_LAST_YEAR - 1}")
    return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)


ApiDatetime = Annotated[datetime, AfterValidator(_validate_datetime)]

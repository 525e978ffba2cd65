"""Times that requests name."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from pydantic import AfterValidator

_LAST_YEAR = 9000


def _usable(moment: datetime) -> datetime:
    """One without a zone is UTC: a query is often written by hand. Neither end of the calendar is of use, and
    Postgres does not take every zone that Python does.
    """
    if not 1 < moment.year < _LAST_YEAR:
        raise ValueError(f"a time is between the years 2 and {_LAST_YEAR}")
    return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)


Moment = Annotated[datetime, AfterValidator(_usable)]

"""Response models of the filter language."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from fastapi import Query
from pydantic import BaseModel, Field

from posthouse.core.filters.reading import LONGEST
from posthouse.insights import FoundJobs, JobSummary, Suggestion
from posthouse.server.paging import cursor_of

Line = Annotated[
    str | None,
    Query(
        max_length=LONGEST,
        description="Filter query, for example `status:failed kind:ocr created:<2h`.",
    ),
]


@dataclass(frozen=True, slots=True)
class JobPage:
    """A page of jobs. ``next_cursor`` is null on the last page.

    ``partial``: the search stopped before the page was full, because few jobs match. Jobs created since
    ``looked_back_to`` were searched; `next_cursor` continues from there.
    """

    items: list[JobSummary]
    next_cursor: str | None
    partial: bool = False
    looked_back_to: datetime | None = None


def page_of(found: FoundJobs) -> JobPage:
    following = None if found.after is None else cursor_of(found.after)
    return JobPage(found.jobs, following, found.partial, found.looked_back_to)


class Suggestions(BaseModel):
    """Completions for the query text between ``from`` and ``to``, most likely first."""

    start: int = Field(alias="from")
    to: int
    items: list[Suggestion]

"""What the filter language is answered with."""

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
        description="A line of the filter language: `status:failed kind:ocr created:<2h`.",
    ),
]


@dataclass(frozen=True, slots=True)
class JobPage:
    """``next_cursor`` is null on the last page. ``partial``: the page was given up before it was full, since
    few jobs fit; those made since ``looked_back_to`` were looked at, and `next_cursor` goes on from there.
    """

    items: list[JobSummary]
    next_cursor: str | None
    partial: bool = False
    looked_back_to: datetime | None = None


def page_of(found: FoundJobs) -> JobPage:
    following = None if found.after is None else cursor_of(found.after)
    return JobPage(found.jobs, following, found.partial, found.looked_back_to)


class Suggestions(BaseModel):
    """What may stand in the line from ``from`` up to ``to``, the likeliest first."""

    start: int = Field(alias="from")
    to: int
    items: list[Suggestion]

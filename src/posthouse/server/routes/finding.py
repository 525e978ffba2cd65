"""Counts and completions for filter queries."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Response

from posthouse import insights
from posthouse.core.filters import asked_at, read_filter
from posthouse.core.filters.reading import LONGEST
from posthouse.identity import Permission
from posthouse.insights import JobCount
from posthouse.server.access import Access, allow
from posthouse.server.answers import answer
from posthouse.server.bodies import api_router
from posthouse.server.schemas_filters import Line, Suggestions

router = api_router("/jobs", "jobs")
Reader = Annotated[Access, allow(Permission.JOBS_READ, of_tenants=True)]
At = Annotated[
    int | None, Query(ge=0, le=LONGEST, description="Position of the text cursor in `q`; default: its end.")
]


@router.get("/count", response_model=JobCount)
async def count_jobs(access: Reader, q: Line = None) -> Response:
    """Count the jobs that match a filter query.

    The count is exact or a lower bound; see `exact`. The search is limited and never reads all of history.
    """
    chosen = read_filter(q or "")
    async with access.session() as db:
        return answer(await insights.count_found(db, chosen, tenant=access.whose))


@router.get("/suggest", response_model=Suggestions)
async def suggest(access: Reader, q: Line = None, at: At = None) -> Response:
    """Suggest completions for a filter query.

    Returns field names, and values that occur.
    """
    asked = asked_at(q or "", at)
    async with access.session() as db:
        items = await insights.suggest(db, asked, tenant=access.whose)
    return answer(Suggestions(**{"from": asked.start}, to=asked.end, items=items))

"""Jobs by the filter language, each time with a bounded effort."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any, Literal
from uuid import UUID

from posthouse.core.filters import UNSUCCESSFUL, Filter, Term, Text, Times, Wanted, wanted
from posthouse.core.filters.query import Known
from posthouse.core.redaction import redactor_for
from posthouse.core.states import Status
from posthouse.errors import InvalidRequest
from posthouse.insights.jobs import FoundJobs, JobFilter, JobSummary
from posthouse.insights.masking import WITHOUT_JOB
from posthouse.insights.overview import database_now
from posthouse.storage.queries import Db, call_row, fetch_by_kept_plan, fetch_rows

COUNTED = 10_000
_PROBE = "a text that is no secret by itself"


@dataclass(frozen=True, slots=True)
class Effort:
    """How many jobs a search reads, and for how long, before it returns a partial result."""

    jobs: int
    seconds: float


PAGE = Effort(500_000, 1.0)
COUNT = Effort(200_000, 0.4)
GLANCE = Effort(2000, 0.25)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCount:
    """A count; if not ``exact`` it is a lower bound."""

    count: int
    exact: bool
    counted_up_to: int = COUNTED


@dataclass(frozen=True, slots=True)
class _Found:
    ids: list[UUID]
    looked_to: UUID | None


def filter_of(chosen: JobFilter) -> Filter:
    """What such a choice says of jobs, as terms; whose they are is said elsewhere."""
    texts = {
        "kind": chosen.kind,
        "queue": chosen.queue,
        "source": chosen.source,
        "subject": chosen.subject,
        "correlation": chosen.correlation,
    }
    terms = [Term(name, (Text(text),)) for name, text in texts.items() if text is not None]
    if chosen.statuses:
        terms.append(Term("status", tuple(Text(status) for status in chosen.statuses)))
    since, until = chosen.created_after, chosen.created_before
    if since or until:
        terms.append(Term("created", (Times("", since=since, until=until),)))
    return Filter(tuple(terms))


async def search_for(
    connection: Db, chosen: Filter, *, tenant: str | None, among: frozenset[Status] | None = None
) -> Wanted:
    """How the jobs of a filter are found from here: with the database's time, and what it knows of words and
    of secrets. In a transaction, as all of this.
    """
    now = await database_now(connection)
    known = await _known(connection, chosen.words)
    options: dict[str, Any] = {} if among is None else {"among": among}
    found = wanted(chosen, now, tenant=tenant, known=known, **options)
    if any(term.path for term in chosen.terms):
        await _keep_secrets(connection, chosen, found)
    return found


async def search_to_change(
    connection: Db, action: Literal["retry", "cancel"], chosen: Filter, *, tenant: str | None
) -> Wanted:
    """How the jobs of a filter are found that can be retried or canceled; raises InvalidRequest if it cannot
    find any such one.
    """
    if not chosen.terms:
        raise InvalidRequest("no jobs selected: pass a filter with at least one term")
    found = await search_for(connection, chosen, tenant=tenant, among=_changeable(action, chosen))
    if not found.statuses:
        raise InvalidRequest(_NONE_TO_CHANGE[action])
    return found


def _changeable(action: str, chosen: Filter) -> frozenset[Status]:
    """Canceled jobs were ended on purpose: they are retried only if the filter names them."""
    if action == "cancel":
        return _ACTIVE
    if chosen.asks_for("status", Status.CANCELED):
        return UNSUCCESSFUL
    return UNSUCCESSFUL - {Status.CANCELED}


_ACTIVE = frozenset({Status.QUEUED, Status.RUNNING})
_NONE_TO_CHANGE = {
    "retry": "only failed, dead-letter and canceled jobs can be retried, but the filter selects other states",
    "cancel": "only queued and running jobs can be canceled, but the filter selects other states",
}


@dataclass(frozen=True, slots=True)
class _Word:
    word: str
    kind: bool
    subject: bool


async def _known(connection: Db, words: list[str]) -> Known:
    if not words:
        return {}
    found = await fetch_by_kept_plan(connection, "filter_words", _Word, words=words)
    return {
        item.word: frozenset(field for field in ("kind", "subject") if getattr(item, field)) for item in found
    }


async def find_jobs(
    connection: Db, chosen: Filter, within: JobFilter | None = None, *, effort: Effort = PAGE
) -> FoundJobs:
    """Newest first: those that also fit ``within``, which says where to go on and how many are wanted."""
    within = within or JobFilter()
    search = await search_for(connection, chosen + filter_of(within), tenant=within.tenant)
    most = within.limit + within.offset
    found = await sift(connection, search, most, effort, after=within.after)
    jobs = await jobs_of(connection, found.ids[within.offset :])
    return FoundJobs.of(jobs, found.looked_to, full=len(found.ids) == most)


async def count_found(connection: Db, chosen: Filter, *, tenant: str | None = None) -> JobCount:
    search = await search_for(connection, chosen, tenant=tenant)
    return await count_of(connection, search)


async def count_of(connection: Db, search: Wanted, *, most: int = COUNTED) -> JobCount:
    found = await sift(connection, search, most, COUNT)
    return JobCount(count=len(found.ids), exact=found.looked_to is None, counted_up_to=most)


async def count_to_change(connection: Db, search: Wanted, limit: int | None) -> JobCount:
    """How many jobs a change would be about that stops at a limit."""
    found = await count_of(connection, search, most=min(limit or COUNTED, COUNTED))
    return replace(found, exact=found.exact or found.count == limit)


async def first_of(connection: Db, search: Wanted, limit: int) -> list[JobSummary]:
    found = await sift(connection, search, limit, PAGE)
    return await jobs_of(connection, found.ids)


async def sift(
    connection: Db, search: Wanted, limit: int, effort: Effort, *, after: UUID | None = None
) -> _Found:
    if search.nothing:
        return _Found([], None)
    row = await call_row(
        connection, "sift_jobs", wanted=json.dumps(search.as_json()), below=after,
        limit=limit, most=effort.jobs, seconds=effort.seconds,
    )  # fmt: skip
    return _Found(row["ids"], row["looked_to"])


async def jobs_of(connection: Db, ids: list[UUID]) -> list[JobSummary]:
    if not ids:
        return []
    found = await fetch_by_kept_plan(connection, "jobs_by_ids", JobSummary, ids=ids)
    return [WITHOUT_JOB.of(job) for job in found]


async def _keep_secrets(connection: Db, chosen: Filter, found: Wanted) -> None:
    """A filter that finds a job by what is masked would tell what that is: it does not look there."""
    marked = await fetch_rows(connection, "definitions_with_secrets")
    for term, condition in zip(chosen.terms, found.conditions, strict=True):
        if term.path:
            condition["secret_in"] = [row["key"] for row in marked if _is_masked(row, term.path)]


def _is_masked(marks: dict[str, Any], path: tuple[str, ...]) -> bool:
    redactor = redactor_for(marks["schema"], tuple(marks["redact"]))
    probes: list[Any] = [_PROBE, [_PROBE]]
    for step in reversed(path):
        probes = [{step: probe} for probe in probes] + [[{step: probe}] for probe in probes[:1]]
    return any(redactor.value(probe) != probe for probe in probes)

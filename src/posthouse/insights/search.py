"""Search for jobs by a filter, and suggestions for completing the filter."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal
from uuid import UUID

from posthouse.core.filters import (
    FIELDS,
    UNSUCCESSFUL,
    CompletionTarget,
    Filter,
    JobQuery,
    Term,
    Text,
    Times,
    plan_search,
    written,
)
from posthouse.core.filters.query import Known
from posthouse.core.redaction import PLAIN, redactor_for
from posthouse.core.redaction.patterns import MASK, is_secret_name
from posthouse.core.request import PRIORITY_NAMES
from posthouse.core.states import Status
from posthouse.errors import InvalidRequest
from posthouse.insights.jobs import JobFilter, JobSearchPage, JobSummary
from posthouse.insights.masking import DEFAULT_MASK
from posthouse.storage.queries import Db, call_row, database_now, fetch, fetch_rows, fetch_with_generic_plan

COUNTED = 10_000
_PROBE = "a text that is no secret by itself"


@dataclass(frozen=True, slots=True)
class SearchBudget:
    """The number of jobs and the time after which a search returns a partial result."""

    jobs: int
    seconds: float


PAGE = SearchBudget(500_000, 1.0)
COUNT = SearchBudget(200_000, 0.4)
SUGGEST_BUDGET = SearchBudget(2000, 0.25)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCount:
    """A count. If it is not ``exact``, it is a lower bound."""

    count: int
    exact: bool
    count_limit: int = COUNTED


@dataclass(frozen=True, slots=True)
class _FoundIds:
    ids: list[UUID]
    looked_to: UUID | None


def to_filter(chosen: JobFilter) -> Filter:
    """Return the terms of a ``JobFilter``. Its tenant is left out, because callers pass it separately."""
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
) -> JobQuery:
    """Return the query for the jobs of a filter, resolved with data of the database.

    This is the time, the words that are kinds or subjects, and the payload fields that are secret. Must run
    in a transaction, like all functions here.
    """
    now = await database_now(connection)
    known = await _known(connection, chosen.words)
    options: dict[str, Any] = {} if among is None else {"among": among}
    found = plan_search(chosen, now, tenant=tenant, known=known, **options)
    if any(term.path for term in chosen.terms):
        await _exclude_redacted_paths(connection, chosen, found)
    return found


async def search_changeable_jobs(
    connection: Db, action: Literal["retry", "cancel"], chosen: Filter, *, tenant: str | None
) -> JobQuery:
    """Return the query for the jobs of a filter that can be retried or canceled.

    Raises InvalidRequest if the filter selects no such jobs.
    """
    if not chosen.terms:
        raise InvalidRequest("no jobs selected: pass a filter with at least one term")
    found = await search_for(connection, chosen, tenant=tenant, among=_changeable(action, chosen))
    if not found.statuses:
        raise InvalidRequest(_NONE_TO_CHANGE[action])
    return found


def _changeable(action: str, chosen: Filter) -> frozenset[Status]:
    """Return the statuses of jobs that the action changes.

    Canceled jobs were ended on purpose, so they are retried only if the filter names their status.
    """
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
    found = await fetch_with_generic_plan(connection, "search_known_words", _Word, words=words)
    return {
        item.word: frozenset(field for field in ("kind", "subject") if getattr(item, field)) for item in found
    }


async def find_jobs(
    connection: Db, chosen: Filter, within: JobFilter | None = None, *, budget: SearchBudget = PAGE
) -> JobSearchPage:
    """Return jobs, newest first, that also match ``within``.

    ``within`` also has the cursor and the limit of the page.
    """
    within = within or JobFilter()
    search = await search_for(connection, chosen + to_filter(within), tenant=within.tenant)
    most = within.limit + within.offset
    found = await search_ids(connection, search, most, budget, after=within.after)
    jobs = await jobs_of(connection, found.ids[within.offset :])
    return JobSearchPage.of(jobs, found.looked_to, full=len(found.ids) == most)


async def count_found(connection: Db, chosen: Filter, *, tenant: str | None = None) -> JobCount:
    search = await search_for(connection, chosen, tenant=tenant)
    return await count_of(connection, search)


async def count_of(connection: Db, search: JobQuery, *, most: int = COUNTED) -> JobCount:
    found = await search_ids(connection, search, most, COUNT)
    return JobCount(count=len(found.ids), exact=found.looked_to is None, count_limit=most)


async def count_to_change(connection: Db, search: JobQuery, limit: int | None) -> JobCount:
    """Count the jobs that a change with this limit would include."""
    found = await count_of(connection, search, most=min(limit or COUNTED, COUNTED))
    return replace(found, exact=found.exact or found.count == limit)


async def sample_jobs(connection: Db, search: JobQuery, limit: int) -> list[JobSummary]:
    found = await search_ids(connection, search, limit, PAGE)
    return await jobs_of(connection, found.ids)


async def search_ids(
    connection: Db, search: JobQuery, limit: int, budget: SearchBudget, *, after: UUID | None = None
) -> _FoundIds:
    if search.nothing:
        return _FoundIds([], None)
    row = await call_row(
        connection, "search_jobs", query=json.dumps(search.as_json()), below=after,
        limit=limit, max_scanned=budget.jobs, seconds=budget.seconds,
    )  # fmt: skip
    return _FoundIds(row["ids"], row["looked_to"])


async def jobs_of(connection: Db, ids: list[UUID]) -> list[JobSummary]:
    if not ids:
        return []
    found = await fetch_with_generic_plan(connection, "jobs_by_ids", JobSummary, ids=ids)
    return [DEFAULT_MASK.of(job) for job in found]


async def _exclude_redacted_paths(connection: Db, chosen: Filter, found: JobQuery) -> None:
    """Exclude masked payload fields from the search.

    A filter that matched a masked value would reveal the value.
    """
    marked = await fetch_rows(connection, "definitions_redaction_rules")
    for term, condition in zip(chosen.terms, found.conditions, strict=True):
        if term.path:
            condition["secret_in"] = [row["key"] for row in marked if _is_masked(row, term.path)]


def _is_masked(rules: dict[str, Any], path: tuple[str, ...]) -> bool:
    redactor = redactor_for(rules["schema"], tuple(rules["redact"]))
    probes: list[Any] = [_PROBE, [_PROBE]]
    for step in reversed(path):
        probes = [{step: probe} for probe in probes] + [[{step: probe}] for probe in probes[:1]]
    return any(redactor.value(probe) != probe for probe in probes)


MAX_SHOWN = 20
SAMPLED = 300
MAX_SHOWN_CHARS = 200
_NAMED = {"kind", "queue", "worker", "tenant", "fingerprint", "error"}
"""Fields whose values are names that the database knows."""
_SAMPLED = {"subject", "correlation", "worker", "kind", "queue"}
"""Fields whose values are taken from a sample of jobs if no name is known."""
_AGES = (
    ("<1h", "in the last hour"),
    ("<24h", "in the last day"),
    ("<7d", "in the last week"),
    (">1h", "longer ago than an hour"),
)
_USUAL = {
    "created": _AGES,
    "finished": _AGES,
    "attempts": ((">1", "more than one"), (">2", "more than two"), ("0", "not started yet")),
    "priority": tuple((name, str(number)) for name, number in PRIORITY_NAMES.items()),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A suggestion. ``insert`` is the text to insert, ``label`` the text to show, ``detail`` explains it."""

    insert: str
    label: str
    detail: str = ""


async def suggest(connection: Db, asked: CompletionTarget, *, tenant: str | None = None) -> list[Suggestion]:
    """Return suggestions, the likeliest first. Only callers without a ``tenant`` see tenants."""
    if asked.what == "value":
        return await _values(connection, asked, tenant)
    if asked.typed.lower().startswith("payload."):
        return await _keys(connection, asked, tenant)
    names = [
        Suggestion(_start(field.name), _start(field.name), field.meaning)
        for field in FIELDS.values()
        if field.name.startswith(asked.typed.lower()) and (field.name != "tenant" or tenant is None)
    ]
    return (names + await _whole_terms(connection, asked))[:MAX_SHOWN]


def _start(name: str) -> str:
    return "payload." if name == "payload" else f"{name}:"


async def _whole_terms(connection: Db, asked: CompletionTarget) -> list[Suggestion]:
    """Suggest statuses and kinds with this prefix, so that a value can be typed without its field."""
    if not asked.typed:
        return []
    typed = asked.typed.lower()
    terms = [f"status:{status}" for status in FIELDS["status"].choices if status.startswith(typed)]
    kinds = await fetch(
        connection, "search_suggest_names", _Name, field="kind", typed=asked.typed, limit=MAX_SHOWN
    )
    return [Suggestion(term, term) for term in terms] + [
        Suggestion(f"kind:{written(kind.value)}", f"kind:{kind.value}", kind.detail) for kind in kinds
    ]


@dataclass(frozen=True, slots=True)
class _Name:
    value: str
    detail: str


@dataclass(frozen=True, slots=True)
class _Sample:
    """A job and its redaction rules."""

    subject: str | None
    correlation: str | None
    worker: str | None
    kind: str
    queue: str
    payload: Any
    schema: str | None
    redact: list[str]

    def shown(self) -> Any:
        return redactor_for(self.schema, tuple(self.redact)).value(self.payload)


async def _values(connection: Db, asked: CompletionTarget, tenant: str | None) -> list[Suggestion]:
    if asked.field is None or (asked.field.name == "tenant" and tenant is not None):
        return []
    name, typed = asked.field.name, asked.typed.lower()
    if asked.path:
        return await _payload_values(connection, asked, tenant)
    fixed = [(choice, "") for choice in asked.field.choices] + list(_USUAL.get(name, ()))
    found = [Suggestion(value, value, detail) for value, detail in fixed if value.startswith(typed)]
    if name in _NAMED:
        known = await fetch(
            connection, "search_suggest_names", _Name, field=name, typed=asked.typed, limit=MAX_SHOWN
        )
        found += [_value(item.value, item.detail) for item in known]
    if name in _SAMPLED and not found:
        samples = await _samples(connection, asked.others, tenant, payloads=False)
        texts = (getattr(sample, name) for sample in samples)
        seen = [text for text in texts if text is not None and PLAIN.text(text) == text]
        found = _counted(seen, typed, len(samples))
    return found[:MAX_SHOWN]


def _value(text: str, detail: str) -> Suggestion:
    return Suggestion(written(text), text, PLAIN.text(detail)[:MAX_SHOWN_CHARS])


def _counted(values: Iterable[str], typed: str, of: int) -> list[Suggestion]:
    """Return the most frequent values first; among equals, the most recent."""
    counts = Counter(value for value in values if 0 < len(value) <= MAX_SHOWN_CHARS)
    fitting = [(value, count) for value, count in counts.most_common() if value.lower().startswith(typed)]
    return [_value(value, f"{count} of the newest {of}") for value, count in fitting[:MAX_SHOWN]]


async def _payload_values(connection: Db, asked: CompletionTarget, tenant: str | None) -> list[Suggestion]:
    samples = await _samples(connection, asked.others, tenant, payloads=True)
    found = (_written(leaf) for sample in samples for leaf in _leaves(sample.shown(), asked.path))
    return _counted((text for text in found if MASK not in text), asked.typed.lower(), len(samples))


def _written(leaf: Any) -> str:
    return leaf if isinstance(leaf, str) else json.dumps(leaf)


async def _keys(connection: Db, asked: CompletionTarget, tenant: str | None) -> list[Suggestion]:
    *path, begun = asked.typed.split(".")[1:]
    samples = await _samples(connection, asked.others, tenant, payloads=True)
    values = (item for sample in samples for item in _all_at(sample.shown(), tuple(path)))
    objects = (item for item in values if isinstance(item, dict))
    keys = Counter(key for item in objects for key, value in item.items() if value != MASK)
    above = ".".join(("payload", *path))
    fitting = [
        (key, count)
        for key, count in keys.most_common()
        if key.lower().startswith(begun.lower()) and not is_secret_name(key) and _is_plain(key)
    ]
    return [
        Suggestion(f"{above}.{key}:", f"{above}.{key}", f"in {count} of the newest {len(samples)}")
        for key, count in fitting[:MAX_SHOWN]
    ]


def _is_plain(key: str) -> bool:
    """Return whether a filter can name the key."""
    return bool(key) and not any(letter.isspace() or letter in '.:,"' for letter in key)


def _all_at(value: Any, path: tuple[str, ...]) -> Iterator[Any]:
    """Yield the values at a path, also inside lists."""
    if isinstance(value, list):
        for item in value:
            yield from _all_at(item, path)
    elif not path:
        yield value
    elif isinstance(value, dict) and path[0] in value:
        yield from _all_at(value[path[0]], path[1:])


def _leaves(value: Any, path: tuple[str, ...]) -> Iterator[Any]:
    return (item for item in _all_at(value, path) if not isinstance(item, dict))


async def _samples(connection: Db, others: Filter, tenant: str | None, *, payloads: bool) -> list[_Sample]:
    """Return the newest jobs that match the other terms."""
    found = await search_ids(
        connection, await search_for(connection, others, tenant=tenant), SAMPLED, SUGGEST_BUDGET
    )
    if not found.ids:
        return []
    return await fetch_with_generic_plan(
        connection, "search_sample_jobs", _Sample, ids=found.ids, payloads=payloads
    )

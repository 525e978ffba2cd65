"""Suggestions for completing a filter expression."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from posthouse.core.filters import FIELDS, Asked, Filter, written
from posthouse.core.redaction import PLAIN, redactor_for
from posthouse.core.redaction.patterns import MASK, is_secret_name
from posthouse.core.request import PRIORITY_NAMES
from posthouse.insights.finding import GLANCE, search_for, sift
from posthouse.storage.queries import Db, fetch, fetch_by_kept_plan

MOST = 20
SAMPLED = 300
LONGEST_SHOWN = 200
_NAMED = {"kind", "queue", "worker", "tenant", "fingerprint", "error"}
"""Fields whose values the database knows by name."""
_SAMPLED = {"subject", "correlation", "worker", "kind", "queue"}
"""Fields whose values are seen in jobs, if no name is known."""
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


async def suggest(connection: Db, asked: Asked, *, tenant: str | None = None) -> list[Suggestion]:
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
    return (names + await _whole_terms(connection, asked))[:MOST]


def _start(name: str) -> str:
    return "payload." if name == "payload" else f"{name}:"


async def _whole_terms(connection: Db, asked: Asked) -> list[Suggestion]:
    """Suggest statuses and kinds with this prefix, so that a value can be typed without its field."""
    if not asked.typed:
        return []
    typed = asked.typed.lower()
    terms = [f"status:{status}" for status in FIELDS["status"].choices if status.startswith(typed)]
    kinds = await fetch(connection, "filter_names", _Name, field="kind", typed=asked.typed, limit=MOST)
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


async def _values(connection: Db, asked: Asked, tenant: str | None) -> list[Suggestion]:
    if asked.field is None or (asked.field.name == "tenant" and tenant is not None):
        return []
    name, typed = asked.field.name, asked.typed.lower()
    if asked.path:
        return await _payload_values(connection, asked, tenant)
    fixed = [(choice, "") for choice in asked.field.choices] + list(_USUAL.get(name, ()))
    found = [Suggestion(value, value, detail) for value, detail in fixed if value.startswith(typed)]
    if name in _NAMED:
        known = await fetch(connection, "filter_names", _Name, field=name, typed=asked.typed, limit=MOST)
        found += [_value(item.value, item.detail) for item in known]
    if name in _SAMPLED and not found:
        samples = await _samples(connection, asked.others, tenant, payloads=False)
        texts = (getattr(sample, name) for sample in samples)
        seen = [text for text in texts if text is not None and PLAIN.text(text) == text]
        found = _counted(seen, typed, len(samples))
    return found[:MOST]


def _value(text: str, detail: str) -> Suggestion:
    return Suggestion(written(text), text, PLAIN.text(detail)[:LONGEST_SHOWN])


def _counted(values: Iterable[str], typed: str, of: int) -> list[Suggestion]:
    """Return the most frequent values first; among equals, the most recent."""
    counts = Counter(value for value in values if 0 < len(value) <= LONGEST_SHOWN)
    fitting = [(value, count) for value, count in counts.most_common() if value.lower().startswith(typed)]
    return [_value(value, f"{count} of the newest {of}") for value, count in fitting[:MOST]]


async def _payload_values(connection: Db, asked: Asked, tenant: str | None) -> list[Suggestion]:
    samples = await _samples(connection, asked.others, tenant, payloads=True)
    found = (_written(leaf) for sample in samples for leaf in _leaves(sample.shown(), asked.path))
    return _counted((text for text in found if MASK not in text), asked.typed.lower(), len(samples))


def _written(leaf: Any) -> str:
    return leaf if isinstance(leaf, str) else json.dumps(leaf)


async def _keys(connection: Db, asked: Asked, tenant: str | None) -> list[Suggestion]:
    *path, begun = asked.typed.split(".")[1:]
    samples = await _samples(connection, asked.others, tenant, payloads=True)
    places = (item for sample in samples for item in _all_at(sample.shown(), tuple(path)))
    objects = (item for item in places if isinstance(item, dict))
    keys = Counter(key for item in objects for key, value in item.items() if value != MASK)
    above = ".".join(("payload", *path))
    fitting = [
        (key, count)
        for key, count in keys.most_common()
        if key.lower().startswith(begun.lower()) and not is_secret_name(key) and _is_plain(key)
    ]
    return [
        Suggestion(f"{above}.{key}:", f"{above}.{key}", f"in {count} of the newest {len(samples)}")
        for key, count in fitting[:MOST]
    ]


def _is_plain(key: str) -> bool:
    """Whether a filter can name the key."""
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
    found = await sift(connection, await search_for(connection, others, tenant=tenant), SAMPLED, GLANCE)
    if not found.ids:
        return []
    return await fetch_by_kept_plan(connection, "filter_samples", _Sample, ids=found.ids, payloads=payloads)

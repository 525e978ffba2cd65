"""docs/reference/python.md, from the public names and their docstrings."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any, get_type_hints

import posthouse
from docpages.markdown import opening, table, text
from posthouse import testing
from posthouse.app import JobType
from posthouse.client.options import Options
from posthouse.core.retry import DEFAULT_RETRY
from posthouse.worker.parts import Part

INTRODUCTION = """\
All names that an application needs can be imported from `posthouse`. What is not on this page may change
between versions. The [tutorial](../tutorial.md) shows most of it in use. Durations are numbers of seconds,
`timedelta` objects, or texts: `"500ms"`, `"30s"`, `"5m"`, `"1h30m"`, `"2d"`.
"""

OPTIONS = """\
## Options of an enqueue

`welcome.using(...)` takes them, `Client.enqueue` and `Request` too, and so does `job.enqueue(options={...})`.
All are optional.
"""

MEANINGS = {
    "id": "the job's id, a UUID made by the caller; enqueueing the same id again makes no second job",
    "tenant": "on whose behalf; `default` unless given",
    "queue": "the queue; what the definition says unless given",
    "priority": "an integer, lower first, or `urgent` (10), `high` (50), `normal` (100), `low` (200)",
    "at": "do not start before this time, a datetime with a time zone",
    "delay": "do not start before so long from now",
    "dedupe_key": "no second job with this key while one is active",
    "dedupe_content": "the same with a key made from the kind and the payload",
    "dedupe_window": "the key also counts for so long after the enqueue",
    "on_duplicate": "`existing` returns the job that has the key, `reject` raises DuplicateJob, `replace` "
    "cancels it if it is still queued, `reuse` also returns one that has succeeded",
    "order_key": "jobs with the same key run one after the other, in the order of their enqueue",
    "depends_on": "ids of jobs that must succeed first",
    "on_dependency_failure": "if one of them does not succeed: `cancel` this job, `run` it anyway, or `wait` "
    "until somebody retries the other",
    "limit_key": 'what limits `per="key"` count it by; what the definition\'s `limit_by` names unless given',
    "requires": "capabilities that a worker must have to run it; the definition's unless given",
    "prefers": "capabilities that an idle worker should have; others leave it to such a one for a while",
    "max_attempts": "how often it is tried",
    "timeout": "how long an attempt may run",
    "retry": "a `Retry` policy for this job alone",
    "correlation_id": "what it belongs to: a request, a run of a pipeline; follow-ups inherit it",
    "subject": "what it is about: a video, a call, a customer",
    "source": "`manual`, `event`, `schedule` or `system`",
    "source_ref": "what exactly caused it",
    "created_by": "who enqueued it",
}

ATTRIBUTES = {
    "id": "",
    "kind": "The name of the definition.",
    "queue": "",
    "tenant": "On whose behalf it runs.",
    "payload": "The arguments as they were enqueued.",
    "attempt": "The number of this attempt; the first is 1.",
    "max_attempts": "",
    "priority": "",
    "snoozes": "How often it has snoozed.",
    "generation": "1, and one more each time that a person ran it again.",
    "correlation_id": "",
    "subject": "",
    "parent_id": "The job that enqueued it as a follow-up.",
    "queued_at": "",
    "scheduled_for": "When it was to start at the earliest.",
    "last_error": "What the attempt before this one ended with.",
}

WIDTH = 100

# Members that the engine uses itself.
INSIDE = {
    "about", "age", "ask", "changed", "claimed_at", "deadline", "declaration", "delay", "expires", "finished",
    "followup_texts", "followups", "from_json", "hex_id", "hex_token", "land", "lane", "lost", "lost_error",
    "note_canceling", "note_lost", "noted", "payload_text", "position", "reason", "recall", "refuse_if_lost",
    "report_part", "retry_json", "row", "steps", "take_followups", "task", "timeout_seconds", "to_json",
    "token",
}  # fmt: skip

# What an application is given and does not make itself.
GIVEN = {posthouse.Job, posthouse.Handle, JobType, Part}


def page() -> str:
    names = [name for name in posthouse.__all__ if not _is_error(getattr(posthouse, name))]
    lines = [*opening("Python", "the docstrings of the public names"), INTRODUCTION]
    for name in names:
        lines += _section(f"posthouse.{name}", getattr(posthouse, name))
    lines += _section("A part of a job", Part)
    lines += _section("A decorated function", JobType, "What `@app.job()` makes of a function.")
    lines += [OPTIONS, *table(["option", "meaning"], _options())]
    lines += ["## posthouse.testing", "", _prose(testing.__doc__), ""]
    for name in testing.__all__:
        if name == "Clock":  # what clock() gives
            continue
        lines += _member(name, getattr(testing, name), level=3)
    lines += ["## Errors", "", _errors(), ""]
    return text(lines)


def _errors() -> str:
    names = [f"`{name}`" for name in posthouse.__all__ if _is_error(getattr(posthouse, name))]
    return f"{', '.join(names)}: see [errors](errors.md)."


def _is_error(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, posthouse.PosthouseError)


def _options() -> list[tuple[str, str]]:
    return [(f"`{name}`", MEANINGS[name]) for name in get_type_hints(Options)]


def _section(title: str, kind: type[Any], doc: str = "") -> Iterator[str]:
    yield f"## {title}"
    yield ""
    if "__init__" in vars(kind) and kind not in GIVEN:
        yield from _call(kind.__name__, kind)
    yield doc or _prose(kind.__doc__)
    yield ""
    if kind is posthouse.Job:
        yield from table(["attribute", "meaning"], _attributes(kind))
    for name, member in vars(kind).items():
        if not name.startswith("_") and name not in INSIDE and _is_method(member):
            yield from _member(name, getattr(kind, name), level=3, owner=title)


def _attributes(kind: type[Any]) -> list[tuple[str, str]]:
    found = []
    for name, member in vars(kind).items():
        if isinstance(member, property) and name not in INSIDE and not name.startswith("_"):
            hint = str(member.fget.__annotations__.get("return", ""))
            found.append((f"`{name}`: {hint.replace('|', 'or')}", _prose(member.__doc__) or ATTRIBUTES[name]))
    return [*found, ("`result`: Any", "Stored with the completion if the handler commits by itself.")]


def _is_method(member: Any) -> bool:
    return inspect.isfunction(member) or isinstance(member, classmethod)


def _member(name: str, member: Any, level: int, owner: str = "") -> Iterator[str]:
    short = owner.rpartition(".")[2] if owner.startswith("posthouse.") else ""
    yield f"{'#' * level} {f'{short}.' if short else ''}{name}"
    yield ""
    yield from _call(f"{'async ' if inspect.iscoroutinefunction(member) else ''}{name}", member)
    doc = _prose(member.__doc__)
    if doc:
        yield doc
        yield ""


def _signature(member: Any) -> tuple[list[str], str]:
    """Its parameters, and what it returns."""
    signature = inspect.signature(member)
    parts: list[str] = []
    for item in signature.parameters.values():
        if item.name == "self":
            continue
        if item.kind is item.KEYWORD_ONLY and not any(part.startswith("*") for part in parts):
            parts.append("*")
        parts.append(_parameter(item))
    returns = signature.return_annotation
    return parts, "" if returns in {inspect.Signature.empty, "None", None} else f" -> {returns}"


def _parameter(item: inspect.Parameter) -> str:
    stars = {item.VAR_POSITIONAL: "*", item.VAR_KEYWORD: "**"}.get(item.kind, "")
    named = f"{stars}{item.name}: {item.annotation}"
    return named if item.default is item.empty else f"{named} = {_default(item.default)}"


def _default(value: Any) -> str:
    if value == DEFAULT_RETRY:
        return "Retry.exponential()"
    return "{}" if repr(value) == "<factory>" else repr(value)


def _call(name: str, member: Any) -> list[str]:
    parts, returns = _signature(member)
    line = f"{name}({', '.join(parts)}){returns}"
    if len(line) > WIDTH:
        line = "\n".join([f"{name}(", *(f"    {part}," for part in parts), f"){returns}"])
    return ["```text", line, "```", ""]


def _prose(doc: str | None) -> str:
    return inspect.cleandoc(doc or "").replace("``", "`")

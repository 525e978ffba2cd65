"""docs/reference/python.md, generated from the public names and their docstrings."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any, get_type_hints

import posthouse
from docpages.markdown import opening, table, text
from posthouse import server, testing
from posthouse.app import JobType
from posthouse.core.request import EnqueueOptions
from posthouse.core.retry import DEFAULT_RETRY
from posthouse.worker.progress import Part

INTRODUCTION = """\
All names that an application needs can be imported from `posthouse`; its tests import `posthouse.testing`,
and its HTTP routes `posthouse.server`. Names that are not on this page may change between versions. The
[tutorial](../tutorial.md) shows most of them in use. Durations are numbers of seconds, `timedelta` objects,
or texts: `"500ms"`, `"30s"`, `"5m"`, `"1h30m"`, `"2d"`.
"""

OPTIONS = """\
## Enqueue options

`welcome.using(...)`, `Client.enqueue`, `Request` and `job.enqueue(options={...})` accept these options. All
are optional.
"""

MEANINGS = {
    "id": "the job's id, a UUID created by the caller; a second enqueue with it creates no second job",
    "tenant": "the tenant; default: `default`",
    "queue": "the queue; default: the definition's",
    "priority": "an integer, lower first, or `urgent` (10), `high` (50), `normal` (100), `low` (200)",
    "at": "the earliest start, a datetime with a time zone",
    "delay": "the earliest start, as a duration from now",
    "dedupe_key": "no second job with this key while one is active",
    "dedupe_content": "derive the dedupe key from the kind and the payload",
    "dedupe_window": "the key stays taken for this long after the enqueue, even if the job ends sooner",
    "on_duplicate": "`existing` returns the existing job, `reject` raises DuplicateJob, `replace` cancels "
    "the existing job if it is still queued, `reuse` also returns a job that has succeeded",
    "order_key": "jobs with the same key run one at a time, in the order of their enqueue",
    "depends_on": "ids of jobs that must succeed first",
    "on_dependency_failure": "if a dependency does not succeed: `cancel` this job, `run` it anyway, or "
    "`wait` until the dependency is retried",
    "limit_key": 'the key for limits `per="key"`; default: the payload field that `limit_by` names',
    "requires": "capabilities that a worker must have; default: the definition's",
    "prefers": "capabilities that a worker should have; other workers leave the job to it for a short time",
    "max_attempts": "the maximum number of attempts",
    "timeout": "the longest time of an attempt",
    "retry": "a `Retry` policy for this job",
    "correlation_id": "the id of a request or pipeline that the job belongs to; follow-ups inherit it",
    "subject": "what the job is about: a video, a call, a customer",
    "source": "`manual`, `event`, `schedule` or `system`",
    "source_ref": "the id of the cause, such as an event",
    "created_by": "the name of the caller",
}

WIDTH = 100

# Members for internal use.
INSIDE = {
    "announcement", "changed", "declaration", "delay", "from_json", "offline_after", "recall", "texts",
    "to_json",
}  # fmt: skip

# Types that applications receive and do not construct.
GIVEN = {posthouse.Job, posthouse.Handle, JobType, Part, server.Access}


def page() -> str:
    names = [name for name in posthouse.__all__ if not _is_error(getattr(posthouse, name))]
    lines = [*opening("Python", "the docstrings of the public names"), INTRODUCTION]
    for name in names:
        lines += _section(f"posthouse.{name}", getattr(posthouse, name))
    lines += _section("A part of a job", Part)
    lines += _section("A decorated function", JobType, "The object that `@app.job()` returns.")
    lines += [OPTIONS, *table(["option", "meaning"], _options())]
    lines += ["## posthouse.testing", "", _prose(testing.__doc__), ""]
    for name in testing.__all__:
        if name == "Clock":  # returned by clock()
            continue
        lines += _member(name, getattr(testing, name), level=3)
    lines += _server()
    lines += ["## Errors", "", _errors(), ""]
    return text(lines)


def _server() -> Iterator[str]:
    yield from ("## posthouse.server", "", _prose(server.__doc__), "")
    for name in server.__all__:
        member = getattr(server, name)
        if member is server.Permission:
            values = ", ".join(f"`{item.value}`" for item in server.Permission)
            yield from (f"### {name}", "", _prose(member.__doc__), "", f"Values: {values}.", "")
        elif inspect.isclass(member):
            yield from _class(name, member)
        else:
            yield from _member(name, member, level=3)


def _class(name: str, kind: type[Any]) -> Iterator[str]:
    """The type that routes receive: attributes in a table, then methods."""
    yield from (f"### {name}", "", _prose(kind.__doc__), "")
    tenant = (
        "`tenant`: str or None",
        "The tenant of the request: that of the principal, or the one a super-admin named; None means all.",
    )
    yield from table(["attribute", "meaning"], [*_attributes(kind), tenant])
    for method, member in vars(kind).items():
        if not method.startswith("_") and method not in INSIDE and _is_method(member):
            yield from _member(f"{name}.{method}", member, level=4)


def _errors() -> str:
    names = [f"`{name}`" for name in posthouse.__all__ if _is_error(getattr(posthouse, name))]
    return f"{', '.join(names)}: see [errors](errors.md)."


def _is_error(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, posthouse.PosthouseError)


def _options() -> list[tuple[str, str]]:
    return [(f"`{name}`", MEANINGS[name]) for name in get_type_hints(EnqueueOptions)]


def _section(title: str, kind: type[Any], doc: str = "") -> Iterator[str]:
    yield f"## {title}"
    yield ""
    if "__init__" in vars(kind) and kind not in GIVEN:
        yield from _call(kind.__name__, kind)
    yield doc or _prose(kind.__doc__)
    yield ""
    if kind is posthouse.Job:
        result = ("`result`: Any", "The result to store if the handler uses `commit()`.")
        yield from table(["attribute", "meaning"], [*_attributes(kind), result])
    for name, member in vars(kind).items():
        if not name.startswith("_") and name not in INSIDE and _is_method(member):
            yield from _member(name, getattr(kind, name), level=3, owner=title)


def _attributes(kind: type[Any]) -> list[tuple[str, str]]:
    found = []
    for name, member in vars(kind).items():
        if isinstance(member, property) and name not in INSIDE and not name.startswith("_"):
            hint = str(member.fget.__annotations__.get("return", ""))
            found.append((f"`{name}`: {hint.replace('|', 'or')}", _summary(member.__doc__)))
    return found


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
    """Return the parameters and the return type."""
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


def _summary(doc: str | None) -> str:
    """Return the first paragraph on one line, for a table cell."""
    return " ".join(_prose(doc).partition("\n\n")[0].split())


def _prose(doc: str | None) -> str:
    return inspect.cleandoc(doc or "").replace("``", "`")

"""The schema as files.

- tables/NNNN_name.sql: tables, types and their rows. Applied once, in order, forward only. Two lines at the
  top say which code works with the migration, see migrations.py.
- functions/*.sql: functions and views, replaced as a whole by every migration. base.sql has those that tables
  need for defaults and triggers. The comment above a definition becomes its COMMENT in the database; one that
  starts with "Public." is part of the stable interface, all others are internal.

The columns of a job are listed once, here. ``@job@`` in a file of functions/ or sql/ is replaced by the
list of columns. An alias qualifies the columns, ``-name`` leaves a column out, and lines with ``:=``
replace columns by expressions::

    insert into posthouse.running (@job@, lane, position)
    select
      @job r -trace
        attempt_count := r.attempt_count + 1
      @, r.lane, r.position
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

JOB = (
    "id", "parent_id", "queued_at", "scheduled_for", "started_at", "priority", "attempt_count",
    "max_attempts", "generation", "crashes", "snoozes", "timeout_seconds", "progress_percent",
    "tenant_id", "kind", "queue", "source", "payload", "dedupe_key", "order_key", "correlation_id",
    "subject", "source_ref", "created_by", "retry", "depends_on", "limit_key", "requires",
    "prefers", "current_step", "progress_message", "last_error", "trace",
)  # fmt: skip
"""Columns that a job has in every table: those of the table posthouse.job."""

_SET_BY_THE_ENGINE = {
    "started_at", "attempt_count", "generation", "crashes", "snoozes", "progress_percent",
    "current_step", "progress_message", "last_error",
}  # fmt: skip

LISTS = {
    "job": JOB,
    # The columns that a request for a job sets.
    "request": tuple(name for name in JOB if name not in _SET_BY_THE_ENGINE),
    # The additional columns of a running job, which it keeps when it has ended.
    "attempt": (
        "lane", "position", "token", "worker_id", "attempt_started_at", "lease_expires_at",
        "cancel_requested_at",
    ),
    # The columns of jobs that a client copies into ready.
    "plain": (
        "id", "queued_at", "scheduled_for", "priority", "max_attempts", "timeout_seconds",
        "tenant_id", "kind", "queue", "source", "payload", "correlation_id", "subject",
        "source_ref", "created_by", "retry", "parent_id", "requires", "prefers", "lane",
    ),
    # The columns that lists of jobs show.
    "listed": (
        "id", "tenant_id", "kind", "queue", "status", "job_table", "priority", "correlation_id",
        "subject", "source", "scheduled_for", "queued_at", "started_at", "attempt_started_at",
        "finished_at", "attempt_count", "max_attempts", "worker_id", "progress_percent",
        "current_step", "blockers", "last_error",
    ),
    # The columns of the view posthouse.jobs. Add new ones at the end: a view on which views of users depend
    # cannot be dropped and created again.
    "view": (
        "id", "tenant_id", "kind", "queue", "status", "job_table", "priority", "payload", "dedupe_key",
        "order_key", "correlation_id", "subject", "source", "source_ref", "parent_id", "depends_on",
        "limit_key", "requires", "prefers", "scheduled_for", "queued_at", "started_at",
        "attempt_started_at", "finished_at", "attempt_count", "max_attempts", "generation",
        "crashes", "snoozes", "timeout_seconds", "lease_expires_at", "worker_id",
        "cancel_requested_at", "progress_percent", "current_step", "progress_message", "result",
        "last_error", "error", "created_by", "blockers", "erased_at",
    ),
}  # fmt: skip

_LIST = re.compile(r"@(\w+)((?: -?\w+)*)((?:\n[^@]*)?)@")
_REPLACED = re.compile(r"^\s*(\w+) :=\s+(.*?)(?=^\s*\w+ :=\s|\Z)", re.MULTILINE | re.DOTALL)


def expand_columns(text: str) -> str:
    """Replace the lists of columns in the SQL by the names of the columns."""
    return _LIST.sub(_expand, text)


def _expand(match: re.Match[str]) -> str:
    columns, words = LISTS[match[1]], match[2].split()
    left_out = {word[1:] for word in words if word.startswith("-")}
    prefix = "".join(f"{word}." for word in words if not word.startswith("-"))
    replaced = {name: expression.strip() for name, expression in _REPLACED.findall(match[3])}
    unknown = (left_out | replaced.keys()) - set(columns)
    if unknown:
        raise ValueError(f"@{match[1]}@ has no column {', '.join(sorted(unknown))}")
    return ", ".join(
        f"{replaced[name]} as {name}" if name in replaced else prefix + name
        for name in columns
        if name not in left_out
    )


_FILE = re.compile(r"(\d{4})_(\w+)\.sql$")
_LOWEST_CODE = re.compile(r"^-- Works with code from: (\d+\.\d+\.\d+)$", re.MULTILINE)
_REQUIRED = re.compile(r"^-- Required by this code: (yes|no)$", re.MULTILINE)
_LINE_COMMENT = re.compile(r"--[^\n]*")
_STATEMENT = re.compile(
    r"(?P<comment>(?:^--[^\n]*\n)*)"
    r"(?P<text>^create or replace (?P<kind>function|view) (?P<name>posthouse\.\w+).*?;\n)(?=\n|\Z)",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Migration:
    """A file of tables/: ``lowest_code`` is the oldest version of Posthouse that works with it."""

    number: int
    name: str
    text: str
    lowest_code: str
    is_required: bool

    @property
    def digest(self) -> str:
        """A hash of the statements; comments and white space do not count."""
        return hashlib.sha256(" ".join(_LINE_COMMENT.sub("", self.text).split()).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Definition:
    """A function or a view."""

    kind: str
    name: str
    text: str
    comment: str

    @property
    def comment_statement(self) -> str:
        quoted = self.comment.replace("'", "''")
        return f"comment on {self.kind} {self.name} is '{quoted}';\n"


@cache
def migrations() -> tuple[Migration, ...]:
    """Return the migrations of tables, in order."""
    items = (files("posthouse.storage") / "tables").iterdir()
    found = [_migration(match, item.read_text()) for item in items if (match := _FILE.match(item.name))]
    return tuple(sorted(found, key=lambda migration: migration.number))


def _migration(match: re.Match[str], text: str) -> Migration:
    lowest, required = _LOWEST_CODE.search(text), _REQUIRED.search(text)
    if lowest is None or required is None:
        raise ValueError(f"{match[0]} does not say which code works with it; see migrations.py")
    return Migration(int(match[1]), match[2], text, lowest[1], required[1] == "yes")


@cache
def base_functions() -> tuple[Definition, ...]:
    """Return the functions that must exist before the tables."""
    return tuple(_definitions("base.sql"))


@cache
def functions() -> tuple[Definition, ...]:
    """Return all other functions and views; views last, because they call functions."""
    names = sorted(item.name for item in (files("posthouse.storage") / "functions").iterdir())
    found = [item for name in names if name != "base.sql" for item in _definitions(name)]
    return tuple(sorted(found, key=lambda item: item.kind))


def _definitions(name: str) -> Iterator[Definition]:
    text = expand_columns((files("posthouse.storage") / "functions" / name).read_text())
    for match in _STATEMENT.finditer(text):
        yield Definition(match["kind"], match["name"], match["text"], _comment(match["comment"]))


def _comment(lines: str) -> str:
    text = " ".join(line.removeprefix("--").strip() for line in lines.splitlines())
    return text.removeprefix("Public. ") if text.startswith("Public. ") else f"Internal. {text}".strip()


@cache
def table_comments() -> str:
    """Return the COMMENT statements of the tables."""
    return (files("posthouse.storage") / "functions" / "table_comments.sql").read_text()


@cache
def functions_digest() -> str:
    """Return a hash of everything that a migration replaces as a whole."""
    texts = [item.text + item.comment for item in (*base_functions(), *functions())]
    return hashlib.sha256("".join([*texts, table_comments()]).encode()).hexdigest()


@cache
def schema_digest() -> str:
    """Return a hash of the whole schema."""
    texts = [migration.text for migration in migrations()]
    return hashlib.sha256("".join([*texts, functions_digest()]).encode()).hexdigest()

"""The columns of a job, written once, and their expansion in SQL.

``@job@`` in a file of functions/ or sql/ becomes the list of the columns. An alias qualifies them, ``-name``
leaves a column out, and lines with ``:=`` replace columns by expressions::

    insert into posthouse.running (@job@, lane, position)
    select
      @job r -trace
        attempt_count := r.attempt_count + 1
      @, r.lane, r.position
"""

from __future__ import annotations

import re

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
    # What a request for a job sets.
    "request": tuple(name for name in JOB if name not in _SET_BY_THE_ENGINE),
    # What a job has beside these while it runs, and keeps when it has ended.
    "attempt": (
        "lane", "position", "token", "worker_id", "attempt_started_at", "lease_expires_at",
        "cancel_requested_at", "slots", "progress_at",
    ),
    # What the client sets of jobs that it copies into ready.
    "plain": (
        "id", "queued_at", "scheduled_for", "priority", "max_attempts", "timeout_seconds",
        "tenant_id", "kind", "queue", "source", "payload", "correlation_id", "subject",
        "source_ref", "created_by", "retry", "parent_id", "requires", "prefers", "lane",
    ),
    # What lists of jobs show.
    "listed": (
        "id", "tenant_id", "kind", "queue", "status", "place", "priority", "correlation_id",
        "subject", "source", "scheduled_for", "queued_at", "started_at", "attempt_started_at",
        "finished_at", "attempt_count", "max_attempts", "worker_id", "progress_percent",
        "current_step", "blockers", "last_error",
    ),
    # The columns of the view posthouse.jobs.
    "view": (
        "id", "tenant_id", "kind", "queue", "status", "place", "priority", "payload", "dedupe_key",
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

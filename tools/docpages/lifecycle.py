"""docs/lifecycle.md, generated from the transition table."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from docpages.markdown import opening, table, text
from posthouse.core.states import TRANSITIONS, Status

MEANINGS = {
    Status.QUEUED: "The job waits for its first or next attempt: it is ready, due later, or blocked.",
    Status.RUNNING: "A worker holds the lease and runs the handler.",
    Status.SUCCEEDED: "The handler returned. Final: a succeeded job never changes.",
    Status.FAILED: "The job ended with an error that must not be retried.",
    Status.CANCELED: "A caller or the handler canceled the job, or a dependency did not succeed.",
    Status.DEAD_LETTER: "It used up its attempts, snoozes or crashes, or no handler accepts its payload.",
}

INTRODUCTION = """\
A job has one of six statuses, and changes only by the moves on this page. The table of moves is in the code
(`posthouse.core.states`) and in the database (`posthouse.transitions`); a test compares the two.
"""

PLACES = """\
## Statuses and tables

A job is one row, and its status follows from the table that contains it. A queued job is in `posthouse.ready`
if it may start now, and in `posthouse.waiting` if it is due later or blocked by other jobs. A running job is
in `posthouse.running`, an ended job in `posthouse.history`. A move deletes the row from one table and inserts
it into another, in one statement. The view [posthouse.jobs](sql.md#the-view-posthousejobs) shows all tables
as one, with the columns `status` and `job_table` (the table).
"""

MOVES = """\
## Transitions

A move from `running` needs the token of the lease. A report with another token is rejected: see
[leases](leases.md#fencing).
"""

ATTEMPTS = """\
## Attempts

A claim starts an attempt and increments `attempt_count`. Snooze and release do not spend the attempt: the
next claim has the same number. Each attempt has a record in
[posthouse.attempts](sql.md#the-view-posthouseattempts) with its outcome:

| outcome | meaning |
| --- | --- |
| `running` | the attempt is running |
| `succeeded` | the handler returned |
| `failed` | the handler raised an error |
| `timeout` | the handler exceeded the job's timeout |
| `canceled` | a caller or the handler canceled the job |
| `snoozed` | the handler asked to run again later |
| `released` | a worker that was stopping released the job |
| `lost` | the worker died or lost the lease |
| `crashed` | the handler's process died (see [where handlers run](running.md)) |

`attempt_count` never exceeds `max_attempts`. A retry after the last attempt is an `exhaust`.
"""

GENERATIONS = """\
## Generations

An ended job can be reopened with `posthouse jobs retry ID` or `select posthouse.reopen(...)`. The job keeps
its id and its payload. Its attempts, snoozes and crashes start from zero, and `generation` is incremented, so
that the attempts of each generation can be told apart. The actor is recorded in `posthouse.audit`. A
succeeded job cannot be reopened: enqueue a new one.

## Cancellation

A queued job that is canceled ends at once. For a running job, `cancel_requested_at` is set and the worker
stops the handler. From then on the job can only end as `canceled`, also if the handler returns a result, asks
for a retry or a snooze, or if its worker dies.
"""


def page() -> str:
    return text(
        [
            *opening("The life of a job", "posthouse.core.states"),
            INTRODUCTION,
            "```mermaid",
            *_diagram(),
            "```",
            "",
            *table(["status", "meaning"], [(f"`{status}`", MEANINGS[status]) for status in Status]),
            PLACES,
            MOVES,
            *table(
                ["transition", "from", "to", "cause"],
                [
                    (f"`{move.event}`", f"`{move.source}`", f"`{move.target}`", move.meaning)
                    for move in TRANSITIONS
                ],
            ),
            ATTEMPTS,
            GENERATIONS,
        ]
    )


def _diagram() -> Iterator[str]:
    """Yield one arrow per pair of statuses, labelled with all transitions, to keep the diagram readable."""
    yield "stateDiagram-v2"
    yield "    [*] --> queued: enqueue"
    ends = sorted(TRANSITIONS, key=lambda move: (_place(move.source), _place(move.target)))
    for (source, target), moves in groupby(ends, key=lambda move: (move.source, move.target)):
        yield f"    {source} --> {target}: {', '.join(move.event for move in moves)}"
    for status in Status:
        if not any(move.source is status for move in TRANSITIONS):
            yield f"    {status} --> [*]"


def _place(status: Status) -> int:
    return list(Status).index(status)

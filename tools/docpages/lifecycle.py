"""docs/lifecycle.md, from the table of legal moves."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from docpages.markdown import opening, table, text
from posthouse.core.states import TRANSITIONS, Status

MEANINGS = {
    Status.QUEUED: "It has not started, or it will run again. It may be ready, due later, or blocked.",
    Status.RUNNING: "A worker holds its lease and runs the handler.",
    Status.SUCCEEDED: "The handler returned. Final: nothing changes a succeeded job.",
    Status.FAILED: "It ended with an error that must not be retried.",
    Status.CANCELED: "Somebody or its handler canceled it, or a job that it depended on did not succeed.",
    Status.DEAD_LETTER: "It has used up its attempts, snoozes or crashes, or its payload fits no handler.",
}

INTRODUCTION = """\
A job has one of six statuses. It changes only by the moves on this page. The table stands in the code
(`posthouse.core.states`) and in the database (`posthouse.transitions`); a test compares the two.
"""

PLACES = """\
## Statuses and places

In the database a job is a row, and the status follows from the table that the row is in. A queued job is in
`posthouse.ready` if it may start now, and in `posthouse.waiting` if it is due later or blocked by other jobs.
A running job is in `posthouse.running`, an ended one in `posthouse.history`. A move deletes the row in one
place and inserts it in the other, in one statement. The view [posthouse.jobs](sql.md#the-view-posthousejobs)
shows all places as one table, with the columns `status` and `place`.
"""

MOVES = """\
## Moves

A move out of `running` needs the token of the lease. A report with another token changes nothing: see
[leases](leases.md#fencing).
"""

ATTEMPTS = """\
## Attempts

A claim starts an attempt and counts it in `attempt_count`. Snooze and release give the attempt back: the
next claim has the same number. Each attempt has a record in
[posthouse.attempts](sql.md#the-view-posthouseattempts) with its outcome:

| outcome | the attempt |
| --- | --- |
| `running` | is under way |
| `succeeded` | returned |
| `failed` | raised an error |
| `timeout` | ran longer than the job's timeout |
| `canceled` | was canceled, or canceled itself |
| `snoozed` | asked to run again later |
| `released` | was given back by a worker that stopped |
| `lost` | ended with its worker, or with its lease |
| `crashed` | ended with its process (see [Where handlers run](running.md)) |

`attempt_count` never passes `max_attempts`. A retry after the last attempt is an `exhaust`.
"""

GENERATIONS = """\
## Generations

A person may run an ended job again: `posthouse jobs retry ID`, or `select posthouse.reopen(...)`. The job
keeps its id and its payload. Its attempts, snoozes and crashes start from zero, and `generation` grows by
one, so that the attempts of both lives stay apart. Who did it stands in `posthouse.audit`. A succeeded job
cannot be reopened: enqueue a new one.

## Cancellation wins

A queued job that is canceled ends at once. For a running job the wish is noted in `cancel_requested_at` and
its worker is told. From then on the job can only end as `canceled`: if the handler returns a result, asks for
a retry or a snooze, or if its worker dies, the move that is made is `cancel`.
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
                ["move", "from", "to", "what happened"],
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
    """One arrow for each pair of statuses, with all its moves: thirteen arrows would be hard to read."""
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

"""Progress of a job: a bar, its parts and its finished steps."""

from __future__ import annotations

import sys
from dataclasses import dataclass, fields
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

import typer

from posthouse.cli.output import Cell, dim, first_line, plain, say, show_table, span, status

if TYPE_CHECKING:
    from posthouse.insights import AttemptInfo, JobDetail, PartInfo, StepInfo

BAR = 20
WATCH_SECONDS = 0.5
_CLEAR = "\x1b[H\x1b[2J"


@dataclass(frozen=True, slots=True)
class Whole:
    """A job with everything that is shown of it."""

    job: JobDetail
    parts: list[PartInfo]
    steps: list[StepInfo]
    attempts: list[AttemptInfo]
    now: datetime

    @property
    def last(self) -> AttemptInfo | None:
        """The last attempt."""
        return self.attempts[-1] if self.attempts else None

    def document(self) -> dict[str, Any]:
        job = {item.name: getattr(self.job, item.name) for item in fields(self.job)}
        return {**job, "parts": self.parts, "steps": self.steps}

    @property
    def news(self) -> tuple[Any, ...]:
        """What is compared to decide whether the job changed."""
        return self.job, self.parts, [step.name for step in self.steps]


async def look_at(db: Any, job_id: UUID) -> Whole:
    from posthouse import insights

    return Whole(
        await insights.get_job(db, job_id),
        await insights.parts_of(db, job_id),
        await insights.steps_of(db, job_id),
        await insights.attempts_of(db, job_id),
        await insights.database_now(db),
    )


def bar(percent: float | None) -> str:
    if percent is None:
        return ""
    full = int(percent * BAR / 100)
    return f"{'█' * full}{'░' * (BAR - full)} {percent:.0f} %"


def show_parts(whole: Whole) -> None:
    if not whole.parts:
        return
    rows = [
        (
            Cell(part.name, "bold"),
            status(part.status),
            bar(part.percent),
            _count(part),
            _took(part, whole.now),
            first_line(part.error or part.message, 60),
        )
        for part in whole.parts
    ]
    say("")
    show_table(("part", "status", "progress", "done", "took", "note"), rows, empty="")


def show_steps(whole: Whole) -> None:
    if not whole.steps:
        return
    rows = [
        (
            Cell(step.name, "bold"),
            f"{step.generation}.{step.attempt}",
            span(step.seconds),
            dim(first_line(plain(step.result), 60)),
        )
        for step in whole.steps
    ]
    say("")
    show_table(("step", "attempt", "took", "result"), rows, empty="")


def _count(part: PartInfo) -> str:
    if part.total is None:
        return "" if part.done is None else str(part.done)
    return f"{part.done or 0}/{part.total}"


def _took(part: PartInfo, now: datetime) -> str:
    if part.started_at is None or part.status == "skipped":
        return ""
    return span(((part.finished_at or now) - part.started_at).total_seconds())


async def watch(db: Any, job_id: UUID, show: Any) -> None:
    """Show the job after every change until it finishes."""
    import asyncio

    from posthouse.core.states import Status

    seen: Any = None
    while True:
        whole = await look_at(db, job_id)
        if whole.news != seen:
            seen = whole.news
            if sys.stdout.isatty():
                typer.echo(_CLEAR, nl=False)
            show(whole)
        if whole.job.status not in {Status.QUEUED, Status.RUNNING}:
            return
        await asyncio.sleep(WATCH_SECONDS)

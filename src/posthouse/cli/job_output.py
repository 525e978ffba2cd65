"""The progress of a job: a bar, its parts and its finished steps."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, fields
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

import typer

from posthouse.cli.database import read
from posthouse.cli.guarding import UsageError
from posthouse.cli.job_actions import HELP, find_job, job_reference
from posthouse.cli.output import (
    Cell,
    dim,
    first_line,
    one_line_json,
    plain,
    print_line,
    show_json,
    show_table,
    span,
    status,
)

if TYPE_CHECKING:
    from posthouse.insights import AttemptInfo, JobDetail, PartInfo, StepInfo

BAR = 20
WATCH_SECONDS = 0.5
_CLEAR = "\x1b[H\x1b[2J"


@dataclass(frozen=True, slots=True)
class JobView:
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
    def change_key(self) -> tuple[Any, ...]:
        """What is compared to decide whether the job changed."""
        return self.job, self.parts, [step.name for step in self.steps]


async def load_job_view(db: Any, job_id: UUID) -> JobView:
    from posthouse import insights

    return JobView(
        await insights.get_job(db, job_id),
        await insights.parts_of(db, job_id),
        await insights.steps_of(db, job_id),
        await insights.list_attempts(db, job_id),
        await insights.database_now(db),
    )


def bar(percent: float | None) -> str:
    if percent is None:
        return ""
    full = int(percent * BAR / 100)
    return f"{'█' * full}{'░' * (BAR - full)} {percent:.0f} %"


def show_parts(whole: JobView) -> None:
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
    print_line("")
    show_table(("part", "status", "progress", "done", "took", "note"), rows, empty="")


def show_steps(whole: JobView) -> None:
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
    print_line("")
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
        whole = await load_job_view(db, job_id)
        if whole.change_key != seen:
            seen = whole.change_key
            if sys.stdout.isatty():
                typer.echo(_CLEAR, nl=False)
            show(whole)
        if whole.job.status not in {Status.QUEUED, Status.RUNNING}:
            return
        await asyncio.sleep(WATCH_SECONDS)


if TYPE_CHECKING:
    from posthouse.insights import AttemptFilter, LogLine

_STYLES = {"warning": "yellow", "error": "red", "critical": "bold red", "debug": "dim"}


def logs(
    job: str = typer.Argument(..., metavar="ID", help=HELP),
    *,
    follow: bool = typer.Option(False, "--follow", "-f", help="Print new lines until the job finishes."),
    attempt: str | None = typer.Option(
        None, metavar="N", help="Only this attempt, e.g. 2, or 1.2 for the second attempt of the first run."
    ),
    as_json: bool = typer.Option(
        False, "--json", help="Print one JSON document to stdout; with --follow one per log line."
    ),
) -> None:
    """Show the log, stdout and stderr of a job.

    [b]Example:[/b]  posthouse jobs logs --follow "$(posthouse enqueue report)"
    """
    from posthouse import insights

    wanted, which = job_reference(job), _which(attempt)
    found: list[LogLine] = []

    async def load(db: Any, _: Any) -> None:
        pages = insights.follow_log(db, await find_job(db, wanted), which=which, to_the_end=follow)
        async for lines in pages:
            if as_json and not follow:
                found.extend(lines)
                continue
            for line in lines:
                _show(line, as_json=as_json)
            sys.stdout.flush()

    read(load, direct=True)
    if as_json and not follow:
        show_json(found)


def _show(line: LogLine, *, as_json: bool) -> None:
    if as_json:
        typer.echo(one_line_json(line))
        return
    print_line(f"{line.at.astimezone():%H:%M:%S}  ", style="dim", end="")
    mark = "" if line.stream == "log" else f"{line.stream}: "
    style = _STYLES.get(line.level or "", "magenta" if line.stream == "stderr" else "")
    print_line(f"{mark}{line.text}", style=style)


def _which(text: str | None) -> AttemptFilter:
    from posthouse.insights import AttemptFilter

    if text is None:
        return AttemptFilter()
    match = re.fullmatch(r"(?:(\d{1,9})\.)?(\d{1,9})", text)
    if match is None:
        raise UsageError(f"invalid --attempt {text!r}: expected a number like 2, or 1.2 with its run")
    return AttemptFilter(int(match[2]), None if match[1] is None else int(match[1]))

"""posthouse jobs: list, show, retry and cancel jobs."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

import typer

from posthouse.cli.database import read
from posthouse.cli.job_actions import HELP, cancel, find_job, job_reference, retry
from posthouse.cli.job_output import logs
from posthouse.cli.options import ListGroup, as_usage_error, json_option
from posthouse.cli.output import (
    Cell,
    dim,
    escape_terminal,
    first_line,
    format_age,
    format_time,
    job_cell,
    last_lines,
    one_line_json,
    print_line,
    show_fields,
    show_json,
    show_table,
    span,
    status,
)

if TYPE_CHECKING:
    from posthouse.cli.job_output import JobView
    from posthouse.insights import AttemptInfo, JobDetail, JobSearchPage, JobSummary, Why

jobs = typer.Typer(cls=ListGroup, help="List, show, explain, retry and cancel jobs.")

_ID = typer.Argument(..., metavar="ID", help=HELP)


@jobs.command("list")
def list_(
    *,
    statuses: list[str] = typer.Option(
        [],
        "--status",
        metavar="STATUS",
        help="Only this status: queued, running, succeeded, failed, canceled, dead_letter; repeatable.",
    ),
    kind: str | None = typer.Option(None, help="Only this kind."),
    queue: str | None = typer.Option(None, help="Only this queue."),
    tenant: str | None = typer.Option(None, help="Only this tenant."),
    correlation: str | None = typer.Option(
        None, help="Only jobs with this correlation id, e.g. one run of a pipeline."
    ),
    subject: str | None = typer.Option(None, help="Only jobs with this subject."),
    line: str | None = typer.Option(
        None,
        "--filter",
        metavar="QUERY",
        help="Filter query, e.g. 'kind:ocr payload.video_id:42 created:<2h -queue:slow'.",
    ),
    limit: int = typer.Option(50, help="Maximum number of rows (up to 1000).", show_default=True),
    after: str | None = typer.Option(None, metavar="ID", help="Last job of the previous page."),
    as_json: bool = json_option(),
) -> None:
    """List jobs, newest first.

    [b]Examples:[/b]

    posthouse jobs list --status failed --status dead_letter

    posthouse jobs list --kind welcome --limit 5 --json | jq -r '.[].id'

    posthouse jobs list --filter 'status:failed error:timeout finished:<2h'
    """
    from posthouse import insights
    from posthouse.core.filters import parse_filter

    with as_usage_error():
        chosen = insights.JobFilter(
            statuses=statuses or None,
            kind=kind,
            queue=queue,
            tenant=tenant,
            correlation=correlation,
            subject=subject,
            limit=limit,
        )
        behind = None if after is None else job_reference(after)
        wanted = None if line is None else parse_filter(line)

    async def load(db: Any, _: Any) -> tuple[JobSearchPage, datetime]:
        page = chosen if behind is None else replace(chosen, after=await find_job(db, behind))
        if wanted is not None:
            return await insights.find_jobs(db, wanted, page), await insights.database_now(db)
        listed = await insights.list_jobs(db, page)
        last = listed[-1].id if len(listed) == limit else None
        return insights.JobSearchPage.of(listed, last, full=True), await insights.database_now(db)

    page, now = read(load)
    show_json(page.jobs) if as_json else _show_list(page.jobs, now)
    if page.partial and page.scanned_back_to is not None:
        print_line(
            f"searched jobs of the last {span((now - page.scanned_back_to).total_seconds())} only", err=True
        )
    if page.after is not None and not as_json:
        print_line(f"next page: --after {page.after}", style="dim", err=True)


def _show_list(found: list[JobSummary], now: datetime) -> None:
    several_tenants = any(job.tenant_id != "default" for job in found)
    heads = ["id", "kind", "status", "queue", "attempt", "when", "note"]
    rows = []
    for job in found:
        row: list[str | Cell] = [
            job_cell(job.id),
            Cell(job.kind, "bold"),
            status(job.status),
            job.queue,
            f"{job.attempt_count}/{job.max_attempts}",
            _when(job, now),
            dim(_note(job)),
        ]
        rows.append([*row[:4], job.tenant_id, *row[4:]] if several_tenants else row)
    if several_tenants:
        heads.insert(4, "tenant")
    show_table(heads, rows, empty="no jobs match")


def _when(job: JobSummary, now: datetime) -> str:
    if job.finished_at is not None:
        return format_age(job.finished_at, now)
    if job.status == "running":
        return f"for {span((now - (job.attempt_started_at or now)).total_seconds())}"
    return format_age(job.scheduled_for if job.scheduled_for > now else job.queued_at, now)


def _note(job: JobSummary) -> str:
    if job.status == "running" and job.progress_percent is not None:
        return f"{job.progress_percent:.0f} % {job.current_step or ''}".strip()
    if job.blockers:
        return f"waiting for {job.blockers} job(s)"
    return first_line(job.last_error, 60) if job.status != "succeeded" else ""


@jobs.command()
def show(
    job: str = _ID,
    watch: bool = typer.Option(False, "--watch", help="Print it after every change until the job finishes."),
    as_json: bool = typer.Option(
        False, "--json", help="Print one JSON document to stdout; with --watch one line per change."
    ),
) -> None:
    """Show a job: payload, result, progress, parts, steps and error."""
    from posthouse.cli import job_output

    wanted = job_reference(job)

    async def load(db: Any, _: Any) -> None:
        found = await find_job(db, wanted)
        if watch:
            await job_output.watch(db, found, _show_line if as_json else _show_whole)
            return
        whole = await job_output.load_job_view(db, found)
        show_json(whole.document()) if as_json else _show_whole(whole)

    read(load)


def _show_line(whole: JobView) -> None:
    typer.echo(one_line_json(whole.document()))


def _show_whole(whole: JobView) -> None:
    from posthouse.cli.job_output import show_parts, show_steps

    show_fields([*_fields(whole.job, whole.now), *_output(whole.last)])
    show_parts(whole)
    show_steps(whole)


def _fields(job: JobDetail, now: datetime) -> list[tuple[str, str | Cell]]:
    from posthouse.cli.job_output import bar

    state = job.status if job.status != "queued" else f"queued ({job.job_table})"
    generation = f", run {job.generation}" if job.generation > 1 else ""
    progress = bar(job.progress_percent)
    return [
        ("id", str(job.id)),
        ("kind", Cell(job.kind, "bold")),
        ("status", Cell(state, status(job.status).style)),
        ("queue", f"{job.queue}, priority {job.priority}"),
        ("tenant", job.tenant_id),
        ("attempt", f"{job.attempt_count} of {job.max_attempts}{generation}"),
        ("progress", " ".join(filter(None, (progress, job.current_step, job.progress_message)))),
        ("queued", format_time(job.queued_at, now)),
        ("scheduled", format_time(job.scheduled_for, now) if job.scheduled_for != job.queued_at else ""),
        ("started", format_time(job.started_at, now)),
        ("finished", format_time(job.finished_at, now)),
        ("erased", format_time(job.erased_at, now)),
        ("lease expires", format_time(job.lease_expires_at, now)),
        ("worker", str(job.worker_id or "")),
        ("timeout", span(job.timeout_seconds)),
        ("dedupe key", job.dedupe_key or ""),
        ("order key", job.order_key or ""),
        ("correlation", job.correlation_id or ""),
        ("subject", job.subject or ""),
        ("parent", str(job.parent_id or "")),
        ("depends on", ", ".join(str(item) for item in job.depends_on or ())),
        ("source", " ".join(filter(None, (job.source, job.source_ref)))),
        ("created by", job.created_by or ""),
        ("payload", _json(job.payload)),
        ("result", _json(job.result)),
        ("last error", Cell(job.last_error or "", "red")),
    ]


def _output(attempt: AttemptInfo | None) -> list[tuple[str, str | Cell]]:
    """Return the output of the last attempt of a command job."""
    if attempt is None or attempt.stdout_tail is None:
        return []
    return [
        ("exit", _exit(attempt)),
        ("pid", str(attempt.pid or "")),
        ("stdout", last_lines(attempt.stdout_tail)),
        ("stderr", last_lines(attempt.stderr_tail or "")),
    ]


def _json(value: Any) -> str:
    import json

    return "" if value is None else json.dumps(value, indent=2, ensure_ascii=False)


@jobs.command()
def attempts(
    job: str = _ID,
    traceback: bool = typer.Option(False, "--traceback", help="Also print tracebacks."),
    output: bool = typer.Option(
        False, "--output", help="Also print the end of stdout and stderr of commands."
    ),
    as_json: bool = json_option(),
) -> None:
    """List the attempts of a job: start, duration, worker, outcome."""
    from posthouse import insights

    wanted = job_reference(job)

    async def load(db: Any, _: Any) -> tuple[list[AttemptInfo], datetime]:
        return await insights.list_attempts(db, await find_job(db, wanted)), await insights.database_now(db)

    found, now = read(load)
    if as_json:
        show_json(found)
        return
    rows = [
        (
            f"{item.generation}.{item.attempt}",
            Cell(item.outcome, _outcome_style(item.outcome)),
            format_age(item.started_at, now),
            span(((item.finished_at or now) - item.started_at).total_seconds()),
            dim(str(item.worker_id or "")),
            _exit(item),
            first_line(": ".join(filter(None, (item.error_type, item.error_message)))),
        )
        for item in found
    ]
    heads = ("attempt", "outcome", "started", "took", "worker", "exit", "error")
    show_table(heads, rows, empty="the job has not started yet; see `posthouse jobs why`")
    for item in found:
        texts = {
            "": item.traceback if traceback else None,
            " stdout": item.stdout_tail if output else None,
            " stderr": item.stderr_tail if output else None,
        }
        for name, text in texts.items():
            if text:
                print_line(f"\nattempt {item.generation}.{item.attempt}{name}", style="bold")
                print_line(escape_terminal(text.rstrip()))


def _exit(item: AttemptInfo) -> str:
    return item.signal or ("" if item.exit_code is None else str(item.exit_code))


def _outcome_style(outcome: str) -> str:
    styles = {"succeeded": "green", "running": "blue", "snoozed": "cyan", "released": "cyan"}
    return styles.get(outcome, "yellow" if outcome == "canceled" else "red")


@jobs.command()
def why(job: str = _ID, as_json: bool = json_option()) -> None:
    """Explain why a job has its status, and what to do about it.

    Reasons for a queued job: it is scheduled for later, blocked by other jobs, held by a limit, in a paused
    queue, without a suitable worker, reserved for a preferred worker, or waiting for its turn.
    """
    from posthouse import insights

    wanted = job_reference(job)

    async def load(db: Any, known: Any) -> tuple[Why, datetime]:
        job_id = await find_job(db, wanted)
        found = await insights.why(
            db,
            job_id,
            offline_after=known.offline_after,
            preference_wait=2 * known.heartbeat_seconds,
            mismatch_seconds=known.mismatch_seconds,
        )
        return found, await insights.database_now(db)

    found, now = read(load)
    if as_json:
        show_json(found)
        return
    print_line(found.summary, style=status(found.status).style)
    blocked_by = [f"{item.id}  {item.kind or ''}  {item.status or 'deleted'}" for item in found.blocked_by]
    servers = [f"{item.name}  {item.running}/{item.concurrency}" for item in found.workers]
    holders = [
        f"{item.id}  {item.kind}  on {item.worker or 'a disconnected worker'}, "
        f"started {format_age(item.since, now)}"
        for limit in found.limits
        for item in limit.holders
    ]
    show_fields(
        [
            ("also", "\n".join(found.also)),
            ("until", format_time(found.until, now)),
            ("since", format_time(found.since, now)),
            ("lease expires", format_time(found.lease_expires_at, now)),
            ("blocked by", "\n".join(blocked_by)),
            ("held by", "\n".join(holders)),
            ("workers", "\n".join(servers)),
            ("last error", Cell(found.last_error or "", "red")),
            ("next step", Cell(found.advice, "bold")),
        ]
    )


for _command in (logs, retry, cancel):
    jobs.command()(_command)

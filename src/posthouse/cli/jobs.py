"""posthouse jobs: look at jobs, retry and cancel them."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import typer

from posthouse.cli.job_changes import cancel, retry
from posthouse.cli.job_logs import logs
from posthouse.cli.options import checked_usage, job_id, json_option
from posthouse.cli.output import (
    Cell,
    ago,
    at,
    dim,
    first_line,
    last_lines,
    one_line_json,
    say,
    show_fields,
    show_json,
    show_table,
    shown_text,
    span,
    status,
)

if TYPE_CHECKING:
    from posthouse.cli.job_progress import Whole
    from posthouse.insights import AttemptInfo, FoundJobs, JobDetail, JobSummary, Why

jobs = typer.Typer(no_args_is_help=True, help="Look at jobs; retry and cancel them.")

jobs.command()(logs)

_ID = typer.Argument(..., metavar="ID", help="The job's id.")


@jobs.command("list")
def list_(
    *,
    statuses: list[str] = typer.Option(
        [],
        "--status",
        metavar="STATUS",
        help="queued, running, succeeded, failed, canceled, dead_letter; several times for any of them.",
    ),
    kind: str | None = typer.Option(None, help="Only this kind."),
    queue: str | None = typer.Option(None, help="Only this queue."),
    tenant: str | None = typer.Option(None, help="Only this tenant."),
    correlation: str | None = typer.Option(
        None, help="Only jobs with this correlation id: one run of a pipeline."
    ),
    subject: str | None = typer.Option(None, help="Only jobs about this."),
    line: str | None = typer.Option(
        None,
        "--filter",
        metavar="LINE",
        help="A line of the filter language: 'kind:ocr payload.video_id:42 created:<2h -queue:slow'.",
    ),
    limit: int = typer.Option(50, help="At most so many, up to 1000.", show_default=True),
    after: str | None = typer.Option(None, metavar="ID", help="Go on behind this job, the last one seen."),
    as_json: bool = json_option(),
) -> None:
    """List jobs, newest first.

    [b]Examples:[/b]

    posthouse jobs list --status failed --status dead_letter

    posthouse jobs list --kind welcome --limit 5 --json | jq -r '.[].id'

    posthouse jobs list --filter 'status:failed error:timeout finished:<2h'
    """
    from posthouse import insights
    from posthouse.cli.session import read
    from posthouse.core.filters import read_filter

    with checked_usage():
        chosen = insights.JobFilter(
            statuses=statuses or None,
            kind=kind,
            queue=queue,
            tenant=tenant,
            correlation=correlation,
            subject=subject,
            limit=limit,
            after=job_id(after) if after else None,
        )
        wanted = None if line is None else read_filter(line)

    async def look(db: Any, _: Any) -> tuple[FoundJobs, datetime]:
        if wanted is not None:
            return await insights.find_jobs(db, wanted, chosen), await insights.database_now(db)
        listed = await insights.list_jobs(db, chosen)
        last = listed[-1].id if len(listed) == limit else None
        return insights.FoundJobs.of(listed, last, full=True), await insights.database_now(db)

    page, now = read(look)
    show_json(page.jobs) if as_json else _show_list(page.jobs, now)
    if page.partial and page.looked_back_to is not None:
        say(f"looked at jobs of the last {span((now - page.looked_back_to).total_seconds())}", err=True)
    if page.after is not None and not as_json:
        say(f"more: --after {page.after}", style="dim", err=True)


def _show_list(found: list[JobSummary], now: datetime) -> None:
    several_tenants = any(job.tenant_id != "default" for job in found)
    heads = ["id", "kind", "status", "queue", "attempt", "when", "note"]
    rows = []
    for job in found:
        row: list[str | Cell] = [
            dim(str(job.id)),
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
    show_table(heads, rows, empty="no job matches")


def _when(job: JobSummary, now: datetime) -> str:
    if job.finished_at is not None:
        return ago(job.finished_at, now)
    if job.status == "running":
        return f"for {span((now - (job.attempt_started_at or now)).total_seconds())}"
    return ago(job.scheduled_for if job.scheduled_for > now else job.queued_at, now)


def _note(job: JobSummary) -> str:
    if job.status == "running" and job.progress_percent is not None:
        return f"{job.progress_percent:.0f} % {job.current_step or ''}".strip()
    if job.blockers:
        return f"waits for {job.blockers} job(s)"
    return first_line(job.last_error, 60) if job.status != "succeeded" else ""


@jobs.command()
def show(
    job: str = _ID,
    watch: bool = typer.Option(False, "--watch", help="Show it whenever it changed, until it has ended."),
    as_json: bool = typer.Option(
        False, "--json", help="One JSON document on stdout; with --watch one line for each change."
    ),
) -> None:
    """Show all of one job: payload, result, progress, parts, steps, error."""
    from posthouse.cli import job_progress
    from posthouse.cli.session import read

    wanted = job_id(job)

    async def look(db: Any, _: Any) -> None:
        if watch:
            await job_progress.watch(db, wanted, _show_line if as_json else _show_whole)
            return
        whole = await job_progress.look_at(db, wanted)
        show_json(whole.document()) if as_json else _show_whole(whole)

    read(look)


def _show_line(whole: Whole) -> None:
    typer.echo(one_line_json(whole.document()))


def _show_whole(whole: Whole) -> None:
    from posthouse.cli.job_progress import show_parts, show_steps

    show_fields([*_fields(whole.job, whole.now), *_output(whole.last)])
    show_parts(whole)
    show_steps(whole)


def _fields(job: JobDetail, now: datetime) -> list[tuple[str, str | Cell]]:
    from posthouse.cli.job_progress import bar

    state = job.status if job.status != "queued" else f"queued ({job.place})"
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
        ("queued", at(job.queued_at, now)),
        ("scheduled", at(job.scheduled_for, now) if job.scheduled_for != job.queued_at else ""),
        ("started", at(job.started_at, now)),
        ("finished", at(job.finished_at, now)),
        ("lease until", at(job.lease_expires_at, now)),
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
    """Of the last attempt, if a command ran."""
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
    traceback: bool = typer.Option(False, "--traceback", help="Also print the tracebacks."),
    output: bool = typer.Option(False, "--output", help="Also print what commands wrote last."),
    as_json: bool = json_option(),
) -> None:
    """Show every attempt at a job: when, on which worker, how it ended."""
    from posthouse import insights
    from posthouse.cli.session import read

    wanted = job_id(job)

    async def look(db: Any, _: Any) -> tuple[list[AttemptInfo], datetime]:
        return await insights.attempts_of(db, wanted), await insights.database_now(db)

    found, now = read(look)
    if as_json:
        show_json(found)
        return
    rows = [
        (
            f"{item.generation}.{item.attempt}",
            Cell(item.outcome, _outcome_style(item.outcome)),
            ago(item.started_at, now),
            span(((item.finished_at or now) - item.started_at).total_seconds()),
            dim(str(item.worker_id or "")),
            _exit(item),
            first_line(": ".join(filter(None, (item.error_type, item.error_message)))),
        )
        for item in found
    ]
    heads = ("attempt", "outcome", "started", "took", "worker", "exit", "error")
    show_table(heads, rows, empty="it has not started yet: `posthouse jobs why` says why")
    for item in found:
        texts = {
            "": item.traceback if traceback else None,
            " stdout": item.stdout_tail if output else None,
            " stderr": item.stderr_tail if output else None,
        }
        for name, text in texts.items():
            if text:
                say(f"\nattempt {item.generation}.{item.attempt}{name}", style="bold")
                say(shown_text(text.rstrip()))


def _exit(item: AttemptInfo) -> str:
    return item.signal or ("" if item.exit_code is None else str(item.exit_code))


def _outcome_style(outcome: str) -> str:
    styles = {"succeeded": "green", "running": "blue", "snoozed": "cyan", "released": "cyan"}
    return styles.get(outcome, "yellow" if outcome == "canceled" else "red")


@jobs.command()
def why(job: str = _ID, as_json: bool = json_option()) -> None:
    """Say why a job is where it is, and what to do about it.

    Scheduled until when, blocked by which jobs, at which limit and who holds it, in a paused queue, without a
    worker that can run it, left to a better one, in line and about when it starts, running, or ended.
    """
    from posthouse import insights
    from posthouse.cli.session import read

    wanted = job_id(job)

    async def look(db: Any, known: Any) -> tuple[Why, datetime]:
        found = await insights.why(
            db, wanted, offline_after=known.lease_seconds, patience=2 * known.heartbeat_seconds
        )
        return found, await insights.database_now(db)

    found, now = read(look)
    if as_json:
        show_json(found)
        return
    say(found.summary, style=status(found.status).style)
    blocked_by = [f"{item.id}  {item.kind or ''}  {item.status or 'dropped'}" for item in found.blocked_by]
    servers = [f"{item.name}  {item.running}/{item.concurrency}" for item in found.workers]
    holders = [
        f"{item.id}  {item.kind}  on {item.worker or 'a worker that is gone'}, since {ago(item.since, now)}"
        for limit in found.limits
        for item in limit.holders
    ]
    show_fields(
        [
            ("also", "\n".join(found.also)),
            ("until", at(found.until, now)),
            ("since", at(found.since, now)),
            ("lease until", at(found.lease_expires_at, now)),
            ("blocked by", "\n".join(blocked_by)),
            ("held by", "\n".join(holders)),
            ("workers", "\n".join(servers)),
            ("last error", Cell(found.last_error or "", "red")),
            ("do", Cell(found.advice, "bold")),
        ]
    )


for _command in (retry, cancel):
    jobs.command()(_command)

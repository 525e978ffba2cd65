"""posthouse failures: failures grouped by error, and bulk retries of their jobs."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

import typer

from posthouse.cli.database import read, read_at
from posthouse.cli.guarding import UsageError
from posthouse.cli.job_actions import parse_ratio, watch_bulk_change
from posthouse.cli.options import ListGroup, as_usage_error, current_actor, id_of, json_option
from posthouse.cli.output import (
    Cell,
    count,
    dim,
    escape_terminal,
    first_line,
    format_age,
    format_time,
    job_cell,
    last_lines,
    print_line,
    show_fields,
    show_json,
    show_result,
    show_table,
    sparkline,
    status,
)

if TYPE_CHECKING:
    from datetime import datetime


STATE_STYLES = {
    "running": "blue",
    "gathering": "blue",
    "done": "green",
    "stopped": "yellow",
    "halted": "bold red",
}


def retry(
    fingerprint: str | None = typer.Argument(
        None, metavar="FAILURE", help="Only this failure group: its fingerprint or a unique prefix."
    ),
    *,
    kind: str | None = typer.Option(None, help="Only this kind."),
    queue: str | None = typer.Option(None, help="Only this queue."),
    tenant: str | None = typer.Option(None, help="Only this tenant."),
    since: str | None = typer.Option(
        None, metavar="SPAN", help="Only jobs finished within this time, e.g. 2h."
    ),
    until: str | None = typer.Option(
        None, metavar="SPAN", help="Only jobs finished longer ago than this, e.g. 30m."
    ),
    limit: int | None = typer.Option(None, min=1, metavar="N", help="Maximum number of jobs, oldest first."),
    rate: str = typer.Option(
        "10/s", metavar="N/SPAN", help="Jobs retried per time, e.g. 10/s, 100/m.", show_default=True
    ),
    stop_at: str = typer.Option(
        "50%",
        metavar="RATIO",
        help="Ratio of jobs failing again at which to stop; 100% never stops.",
        show_default=True,
    ),
    stop_after: int = typer.Option(
        20,
        min=1,
        metavar="N",
        help="Minimum number of finished jobs before --stop-at applies.",
        show_default=True,
    ),
    detach: bool = typer.Option(
        False, "--detach", help="Return immediately; the keeper continues in the background."
    ),
    dry_run: bool = typer.Option(False, "--dry-run", help="Only print the number of matching jobs."),
    as_json: bool = json_option(),
) -> None:
    """Retry failed and dead-letter jobs at a controlled rate; stop if too many fail again. Audited.

    The keeper does the work and continues if this command is interrupted. Exits with 1 if the bulk retry was
    stopped or halted.

    [b]Examples:[/b]

    posthouse failures retry 3f2a9c01d2e4b687 --rate 50/s

    posthouse failures retry --kind welcome --since 2h --stop-at 20% --detach
    """
    from posthouse.core.limit import rate_per_second
    from posthouse.errors import InvalidBulkChange
    from posthouse.storage.actions import start_bulk_retry

    with as_usage_error():
        speed, share = rate_per_second(rate), parse_ratio(stop_at)
        ago_from, ago_to = _span(since), _span(until)

    async def work(db: Any, _: Any) -> UUID | int:
        criteria = await _criteria(
            db, fingerprint=fingerprint, kind=kind, queue=queue, tenant=tenant, since=ago_from, until=ago_to,
            limit=limit,
        )  # fmt: skip
        if dry_run:
            from posthouse import insights

            return await insights.count_retriable(db, criteria)
        try:
            return await start_bulk_retry(
                db, criteria, rate=speed, stop_share=share, stop_after=stop_after, actor=current_actor()
            )
        except InvalidBulkChange as error:
            raise UsageError(str(error)) from None

    answer = read(work)
    if isinstance(answer, int):
        show_json({"jobs": answer}) if as_json else print_line(f"{answer:,} jobs would be retried")
        return
    watch_bulk_change(answer, detach=detach, as_json=as_json)


async def _criteria(db: Any, *, fingerprint: str | None, **choice: Any) -> dict[str, Any]:
    """Resolve ages to times of the database clock, and a prefix to the full fingerprint."""
    from datetime import timedelta

    from posthouse import insights

    now = await insights.database_now(db)
    for name in ("since", "until"):
        if choice[name] is not None:
            choice[name] = now - timedelta(seconds=choice[name])
    if fingerprint is not None:
        detail = await insights.get_failure(
            db, fingerprint, kind=choice["kind"], tenant=choice["tenant"], jobs=0
        )
        fingerprint = detail.group.fingerprint
    wanted = {"fingerprint": fingerprint, **choice}
    return {name: value for name, value in wanted.items() if value is not None}


def retries(
    limit: int = typer.Option(
        20, min=1, max=1000, help="Maximum number of rows (up to 1000).", show_default=True
    ),
    as_json: bool = json_option(),
) -> None:
    """List bulk retries with their progress, newest first."""
    from posthouse import insights

    found, now = read_at(lambda db, _: insights.bulk_changes(db, action="retry", limit=limit))
    if as_json:
        show_json(found)
        return
    rows = [
        (
            dim(str(bulk.id)),
            Cell(bulk.state, STATE_STYLES[bulk.state]),
            f"{bulk.retried + bulk.skipped:,}/{'?' if bulk.total is None else f'{bulk.total:,}'}",
            count(bulk.succeeded, "green"),
            count(bulk.failed, "red"),
            format_age(bulk.created_at, now),
            bulk.created_by,
            dim(bulk.reason or ", ".join(f"{name} {value}" for name, value in bulk.criteria.items())),
        )
        for bulk in found
    ]
    heads = ("id", "status", "retried", "succeeded", "failed again", "started", "by", "jobs")
    show_table(heads, rows, empty="no bulk retries", right=heads[2:5])


def stop(
    bulk_id: str = typer.Argument(..., metavar="ID", help="Bulk retry id."),
    as_json: bool = json_option(),
) -> None:
    """Stop a bulk retry. Jobs already retried continue. Audited."""
    from posthouse.storage.actions import stop_bulk_change

    wanted = id_of("bulk retry", bulk_id, "failures retries")
    stopped = read(lambda db, _: stop_bulk_change(db, wanted, actor=current_actor()))
    show_result(
        {"id": bulk_id, "stopped": stopped},
        f"{bulk_id}  {'stopped' if stopped else 'already finished'}",
        as_json=as_json,
    )


def _span(text: str | None) -> float | None:
    from posthouse.core.duration import seconds

    return None if text is None else seconds(text)


if TYPE_CHECKING:
    from posthouse.insights import FailureDetail, FailureGroup

failures = typer.Typer(cls=ListGroup, help="List failures grouped by error, and retry their jobs.")
for _command in (retry, retries, stop):
    failures.command()(_command)


@failures.command("list")
def list_(
    *,
    kind: str | None = typer.Option(None, help="Only this kind."),
    tenant: str | None = typer.Option(None, help="Only this tenant."),
    since: str | None = typer.Option(
        None, metavar="SPAN", help="Only failures within this time, e.g. 1h, 2d."
    ),
    limit: int = typer.Option(50, help="Maximum number of rows (up to 1000).", show_default=True),
    as_json: bool = json_option(),
) -> None:
    """List failure groups, most recent first.

    Attempts belong to the same group if the error type, its location in the code and the message are equal.
    Numbers, ids and quoted values in the message are ignored.

    [b]Examples:[/b]

    posthouse failures list --since 1h

    posthouse failures list --kind welcome --json | jq -r '.[].fingerprint'
    """
    from datetime import timedelta

    from posthouse import insights
    from posthouse.core.duration import seconds

    with as_usage_error():
        within = None if since is None else timedelta(seconds=seconds(since))
        insights.FailureFilter(limit=limit)

    async def load(db: Any, _: Any) -> tuple[list[FailureGroup], datetime]:
        now = await insights.database_now(db)
        criteria = insights.FailureFilter(
            kind=kind, tenant=tenant, since=None if within is None else now - within, limit=limit
        )
        return await insights.list_failure_groups(db, criteria), now

    found, now = read(load)
    show_json(found) if as_json else _show_list(found, now)


def _show_list(found: list[FailureGroup], now: datetime) -> None:
    tenants = any(group.tenant_id != "default" for group in found)
    heads = ["failure", "kind", "count", "last hour", "jobs", "last", "error"]
    rows = []
    for group in found:
        row: list[str | Cell] = [
            dim(group.fingerprint),
            Cell(group.kind, "bold"),
            count(group.failures, "red"),
            Cell(sparkline(group.last_hour), "red"),
            count(_ended(group), "bold red"),
            format_age(group.last_seen, now),
            first_line(f"{group.type}: {escape_terminal(group.message)}"),
        ]
        rows.append([*row[:2], group.tenant_id, *row[2:]] if tenants else row)
    if tenants:
        heads.insert(2, "tenant")
    show_table(heads, rows, empty="no failures", right=("count", "jobs"))


def _ended(group: FailureGroup) -> int:
    return group.dead_letter + group.failed + group.canceled


@failures.command()
def show(
    fingerprint: str = typer.Argument(
        ..., metavar="FAILURE", help="Fingerprint of the failure group, or a unique prefix."
    ),
    *,
    kind: str | None = typer.Option(None, help="Only this kind."),
    tenant: str | None = typer.Option(None, help="Only this tenant."),
    jobs: int = typer.Option(
        10, min=0, max=1000, help="Maximum number of finished jobs to list.", show_default=True
    ),
    as_json: bool = json_option(),
) -> None:
    """Show a failure group: counts, the latest error with its traceback, and affected jobs.

    [b]Example:[/b]  posthouse failures show 3f2a
    """
    from posthouse import insights

    detail, now = read_at(
        lambda db, _: insights.get_failure(db, fingerprint, kind=kind, tenant=tenant, jobs=jobs)
    )
    show_json(detail) if as_json else _show_detail(detail, now)


def _show_detail(detail: FailureDetail, now: datetime) -> None:
    group, error = detail.group, detail.error or {}
    ended = [(group.dead_letter, "dead letter"), (group.failed, "failed"), (group.canceled, "canceled")]
    show_fields(
        (
            ("failure", Cell(group.fingerprint, "bold")),
            ("kind", group.kind),
            ("tenant", group.tenant_id if group.tenant_id != "default" else ""),
            ("error", Cell(first_line(f"{group.type}: {escape_terminal(group.message)}", 500), "red")),
            ("location", escape_terminal(error.get("location", ""))),
            (
                "failures",
                f"{group.failures:,}, {sum(group.last_hour):,} in the last hour {sparkline(group.last_hour)}",
            ),
            ("finished jobs", ", ".join(f"{number:,} {name}" for number, name in ended if number)),
            ("first", format_time(group.first_seen, now)),
            ("last", format_time(group.last_seen, now)),
            ("latest job", str(group.job_id)),
            ("traceback", dim(last_lines(error.get("traceback") or "", 40))),
        )
    )
    if detail.jobs:
        print_line("")
        rows = [
            (job_cell(job.id), status(job.status), job.queue, f"{job.attempt_count}/{job.max_attempts}",
             format_age(job.finished_at, now), escape_terminal(job.subject or ""))
            for job in detail.jobs
        ]  # fmt: skip
        show_table(("id", "status", "queue", "attempt", "finished", "subject"), rows, empty="")
        print_line(f"retry them with: posthouse failures retry {group.fingerprint}", style="dim", err=True)

"""posthouse failures: failure groups, and retrying their jobs."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import typer

from posthouse.cli.bulk_retry import retries, retry, stop
from posthouse.cli.options import checked_usage, json_option
from posthouse.cli.output import (
    Cell,
    ago,
    at,
    count,
    dim,
    first_line,
    job_cell,
    last_lines,
    say,
    show_fields,
    show_json,
    show_table,
    shown_text,
    sparkline,
    status,
)

if TYPE_CHECKING:
    from posthouse.insights import FailureDetail, FailureGroup

failures = typer.Typer(invoke_without_command=True)
for _command in (retry, retries, stop):
    failures.command()(_command)


@failures.callback()
def list_unless_told(context: typer.Context, as_json: bool = json_option()) -> None:
    """List failures grouped by error, and retry their jobs."""
    if context.invoked_subcommand is None:
        _list(as_json=as_json)


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
    _list(kind=kind, tenant=tenant, since=since, limit=limit, as_json=as_json)


def _list(
    *,
    kind: str | None = None,
    tenant: str | None = None,
    since: str | None = None,
    limit: int = 50,
    as_json: bool,
) -> None:
    from datetime import timedelta

    from posthouse import insights
    from posthouse.cli.session import read
    from posthouse.core.duration import seconds

    with checked_usage():
        within = None if since is None else timedelta(seconds=seconds(since))
        insights.FailureFilter(limit=limit)

    async def look(db: Any, _: Any) -> tuple[list[FailureGroup], datetime]:
        now = await insights.database_now(db)
        chosen = insights.FailureFilter(
            kind=kind, tenant=tenant, since=None if within is None else now - within, limit=limit
        )
        return await insights.failure_groups(db, chosen), now

    found, now = read(look)
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
            ago(group.last_seen, now),
            first_line(f"{group.type}: {shown_text(group.message)}"),
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
    from posthouse.cli.session import read

    async def look(db: Any, _: Any) -> tuple[FailureDetail, datetime]:
        detail = await insights.get_failure(db, fingerprint, kind=kind, tenant=tenant, jobs=jobs)
        return detail, await insights.database_now(db)

    detail, now = read(look)
    show_json(detail) if as_json else _show_detail(detail, now)


def _show_detail(detail: FailureDetail, now: datetime) -> None:
    group, error = detail.group, detail.error or {}
    ended = [(group.dead_letter, "dead letter"), (group.failed, "failed"), (group.canceled, "canceled")]
    show_fields(
        (
            ("failure", Cell(group.fingerprint, "bold")),
            ("kind", group.kind),
            ("tenant", group.tenant_id if group.tenant_id != "default" else ""),
            ("error", Cell(first_line(f"{group.type}: {shown_text(group.message)}", 500), "red")),
            ("location", shown_text(error.get("place", ""))),
            (
                "failures",
                f"{group.failures:,}, {sum(group.last_hour):,} in the last hour {sparkline(group.last_hour)}",
            ),
            ("finished jobs", ", ".join(f"{number:,} {name}" for number, name in ended if number)),
            ("first", at(group.first_seen, now)),
            ("last", at(group.last_seen, now)),
            ("latest job", str(group.job_id)),
            ("traceback", dim(last_lines(error.get("traceback") or "", 40))),
        )
    )
    if detail.jobs:
        say("")
        rows = [
            (job_cell(job.id), status(job.status), job.queue, f"{job.attempt_count}/{job.max_attempts}",
             ago(job.finished_at, now), shown_text(job.subject or ""))
            for job in detail.jobs
        ]  # fmt: skip
        show_table(("id", "status", "queue", "attempt", "finished", "subject"), rows, empty="")
        say(f"retry them with: posthouse failures retry {group.fingerprint}", style="dim", err=True)

"""posthouse audit: the audit log."""

from __future__ import annotations

import sys
from datetime import datetime
from typing import TYPE_CHECKING, Any

import typer

from posthouse.cli.guarding import WrongUsage
from posthouse.cli.options import checked_usage
from posthouse.cli.output import Cell, dim, first_line, one_line_json, plain, say, show_json, show_table

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from posthouse.insights import AuditEntry, AuditFilter

audit = typer.Typer(no_args_is_help=True)

SHOWN_CHANGES = 3
COLUMN = 60


@audit.callback()
def group() -> None:
    """Show the audit log."""


@audit.command("list")
def list_(
    *,
    actor: str | None = typer.Option(None, help="Only actions of this actor, e.g. cli:anna@studio."),
    action: str | None = typer.Option(
        None, help="Only this action, e.g. job.retry, or all that start with a word, e.g. job."
    ),
    target: str | None = typer.Option(
        None, help="Only actions on this target: a job or worker id, or a queue, limit, definition or tenant."
    ),
    tenant: str | None = typer.Option(None, help="Only actions that concern this tenant."),
    since: str | None = typer.Option(
        None, metavar="TIME|SPAN", help="Start of the period, e.g. 2030-01-31T08:00Z, or its age, e.g. 2h."
    ),
    until: str | None = typer.Option(None, metavar="TIME|SPAN", help="End of the period, or its age."),
    limit: int = typer.Option(50, help="Maximum number of rows (up to 1000).", show_default=True),
    after: int | None = typer.Option(None, metavar="ID", help="Last entry of the previous page."),
    follow: bool = typer.Option(
        False, "--follow", "-f", help="Print entries oldest first, then new ones as they arrive."
    ),
    as_json: bool = typer.Option(
        False, "--json", help="Print one JSON document to stdout; with --follow one line per entry."
    ),
) -> None:
    """List audit entries, newest first. Secrets are masked.

    [b]Examples:[/b]

    posthouse audit list --since 1d --action definition

    posthouse audit list --target 01890a5d-ac96-774b-bcce-b302099a8057 --json

    posthouse audit list --follow
    """
    from posthouse import insights
    from posthouse.cli.session import read

    async def look(db: Any, _: Any) -> list[AuditEntry]:
        now = await insights.database_now(db)
        with checked_usage():
            chosen = insights.AuditFilter(
                actor=actor,
                action=action,
                target=target,
                tenant=tenant,
                since=_moment(since, now),
                until=_moment(until, now),
                after=after,
                limit=limit,
            )
        if follow:
            await _follow(db, chosen, as_json=as_json)
        return await insights.list_audit(db, chosen)

    found = _until_interrupted(read, look)
    if as_json:
        show_json(found)
        return
    _show(found)
    if len(found) == limit:
        say(f"next page: --after {found[-1].id}", style="dim", err=True)


def _until_interrupted(
    read: Callable[..., list[AuditEntry]], look: Callable[..., Awaitable[list[AuditEntry]]]
) -> list[AuditEntry]:
    try:
        return read(look)
    except KeyboardInterrupt:
        raise typer.Exit(0) from None


async def _follow(db: Any, chosen: AuditFilter, *, as_json: bool) -> None:
    from posthouse import insights

    async for entries in insights.follow_audit(db, chosen):
        for entry in entries:
            if as_json:
                typer.echo(one_line_json(entry))
            else:
                say(f"{_at(entry)}  ", style="dim", end="")
                say(f"{entry.actor}  {entry.action}  {entry.target}  {_changes(entry)}")
        sys.stdout.flush()


def _show(found: list[AuditEntry]) -> None:
    rows = [
        (
            dim(str(entry.id)),
            _at(entry),
            entry.actor,
            Cell(entry.action, "bold"),
            entry.tenant_id or "",
            entry.target,
            dim(_changes(entry)),
        )
        for entry in found
    ]
    heads = ("id", "time", "actor", "action", "tenant", "target", "change")
    show_table(heads, rows, empty="no audit entries match")


def _at(entry: AuditEntry) -> str:
    return entry.at.astimezone().isoformat(" ", "seconds")


def _changes(entry: AuditEntry) -> str:
    """Return the first changed fields: ``status: "failed" → "queued"``."""
    changes = entry.changes()
    shown = [
        f"{name}: {plain(before)} → {plain(after)}".replace(":  →", ":")
        for name, (before, after) in list(changes.items())[:SHOWN_CHANGES]
    ]
    more = len(changes) - len(shown)
    return first_line(", ".join(shown) + (f" and {more} more" if more > 0 else ""), COLUMN)


def _moment(text: str | None, now: datetime) -> datetime | None:
    """Parse a time, or an age relative to now."""
    from datetime import timedelta

    from posthouse.core.duration import seconds
    from posthouse.errors import ConfigurationError

    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        try:
            return now - timedelta(seconds=seconds(text))
        except (ConfigurationError, OverflowError):
            raise WrongUsage(
                f"invalid time {text!r}: expected a time like 2030-01-31T08:00Z or an age like 2h"
            ) from None
    return moment.astimezone() if moment.tzinfo is None else moment

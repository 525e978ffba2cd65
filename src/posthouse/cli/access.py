"""posthouse keys and posthouse audit: API keys, and the log of actions."""

from __future__ import annotations

import sys
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import typer

from posthouse.cli.database import act, read
from posthouse.cli.guarding import UsageError
from posthouse.cli.options import ListGroup, as_usage_error, current_actor, json_option
from posthouse.cli.output import (
    Cell,
    dim,
    first_line,
    format_age,
    one_line_json,
    plain,
    print_line,
    show_json,
    show_table,
    span,
)

if TYPE_CHECKING:
    from posthouse.identity import Role
    from posthouse.insights import KeyInfo
    from posthouse.storage.queries import Db

keys = typer.Typer(cls=ListGroup, help="Create, list and revoke API keys.")


@keys.command()
def create(
    *,
    name: str = typer.Argument(..., metavar="NAME", help="Name, e.g. of the program that uses it."),
    role: str = typer.Option(
        "tenant-admin", help="Role: super-admin, tenant-admin, tenant-viewer, event-emitter or worker."
    ),
    tenant: str | None = typer.Option(None, help="Tenant the key belongs to; not allowed for super-admin."),
    queue: list[str] = typer.Option([], metavar="QUEUE", help="Queue a worker key may serve; repeatable."),
    announce: bool = typer.Option(
        False,
        "--announce",
        help="Let a worker store the definitions, limits and triggers of its code. "
        "With --queue: only kinds in these queues, and no triggers.",
    ),
    expires: str | None = typer.Option(
        None, metavar="SPAN", help="Lifetime, e.g. 90d, 12h (default: no expiry)."
    ),
    as_json: bool = json_option(),
) -> None:
    """Create an API key and print it once. Audited.

    [b]Examples:[/b]

    posthouse keys create ci --tenant acme --role tenant-admin --expires 90d

    posthouse keys create encoders --role worker --queue video
    """
    from posthouse.core.duration import seconds
    from posthouse.identity import Role

    if role not in set(Role):
        raise UsageError(f"unknown role {role!r}; available: {', '.join(Role)}")
    with as_usage_error():
        good_for = None if expires is None else seconds(expires)
        text, expires_at = read(
            lambda db, _: _issue(
                db, name, Role(role), good_for, tenant=tenant, queues=queue or None, may_announce=announce
            )
        )
    if as_json:
        show_json(
            {"key": text, "name": name, "role": role, "tenant_id": tenant, "queues": queue or None,
             "may_announce": announce, "expires_at": expires_at}
        )  # fmt: skip
        return
    print_line(text)
    print_line("Store this key now; it cannot be shown again.", err=True, style="dim")


async def _issue(
    db: Db, name: str, role: Role, good_for: float | None, **scope: Any
) -> tuple[str, datetime | None]:
    from posthouse.identity import issue_key
    from posthouse.insights import database_now
    from posthouse.settings import load_settings

    expires_at = None if good_for is None else await database_now(db) + timedelta(seconds=good_for)
    limit = load_settings().keys_per_tenant
    text = await issue_key(db, name, role, expires_at=expires_at, actor=current_actor(), limit=limit, **scope)
    return text, expires_at


@keys.command("list")
def list_(
    tenant: str | None = typer.Option(None, help="Only this tenant."),
    as_json: bool = json_option(),
) -> None:
    """List API keys. The keys themselves are not stored.

    [b]Example:[/b]  posthouse keys list --tenant acme
    """
    now, found = read(lambda db, _: _now_and_keys(db, tenant))
    if as_json:
        show_json(found)
        return
    rows = [
        (
            Cell(key.prefix, "bold"),
            Cell(key.name),
            Cell(key.role),
            dim("all") if key.tenant_id is None else Cell(key.tenant_id),
            _state(key, now),
            dim("never") if key.last_used_at is None else Cell(format_age(key.last_used_at, now)),
            Cell(key.created_by),
        )
        for key in found
    ]
    heads = ("prefix", "name", "role", "tenant", "state", "last used", "created by")
    show_table(heads, rows, empty="no API keys: create one with `posthouse keys create`")


async def _now_and_keys(db: Db, tenant: str | None) -> tuple[datetime, list[KeyInfo]]:
    from posthouse import insights

    return await insights.database_now(db), await insights.keys(db, tenant=tenant)


def _state(key: KeyInfo, now: datetime) -> Cell:
    if key.revoked_at is not None:
        return Cell("revoked", "red")
    if key.expires_at is None:
        return Cell("valid", "green")
    if key.expires_at <= now:
        return Cell("expired", "red")
    return Cell(f"valid for {span((key.expires_at - now).total_seconds())}", "green")


@keys.command()
def revoke(
    prefix: str = typer.Argument(
        ..., metavar="PREFIX", help="Key prefix, as shown by `posthouse keys list`."
    ),
    as_json: bool = json_option(),
) -> None:
    """Revoke an API key immediately and permanently. Audited.

    [b]Example:[/b]  posthouse keys revoke k7w2mfa3
    """
    from posthouse.storage.credentials import revoke_key

    act(lambda db: revoke_key(db, prefix, actor=current_actor()), f"key {prefix} revoked", as_json=as_json)


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from posthouse.insights import AuditEntry, AuditFilter

audit = typer.Typer(cls=ListGroup)

SHOWN_CHANGES = 3
COLUMN = 60


@audit.callback()
def group() -> None:
    """Show the audit log."""


@audit.command("list")
def list_actions(
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

    async def load(db: Any, _: Any) -> list[AuditEntry]:
        now = await insights.database_now(db)
        with as_usage_error():
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

    found = _until_interrupted(read, load)
    if as_json:
        show_json(found)
        return
    _show(found)
    if len(found) == limit:
        print_line(f"next page: --after {found[-1].id}", style="dim", err=True)


def _until_interrupted(
    read: Callable[..., list[AuditEntry]], load: Callable[..., Awaitable[list[AuditEntry]]]
) -> list[AuditEntry]:
    try:
        return read(load)
    except KeyboardInterrupt:
        raise typer.Exit(0) from None


async def _follow(db: Any, chosen: AuditFilter, *, as_json: bool) -> None:
    from posthouse import insights

    async for entries in insights.follow_audit(db, chosen):
        for entry in entries:
            if as_json:
                typer.echo(one_line_json(entry))
            else:
                print_line(f"{_at(entry)}  ", style="dim", end="")
                print_line(f"{entry.actor}  {entry.action}  {entry.target}  {_changes(entry)}")
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
            raise UsageError(
                f"invalid time {text!r}: expected a time like 2030-01-31T08:00Z or an age like 2h"
            ) from None
    return moment.astimezone() if moment.tzinfo is None else moment

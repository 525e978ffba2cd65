"""posthouse keys: who may use the API."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import typer

from posthouse.cli.options import WrongUsage, caller, checked_usage, json_option
from posthouse.cli.output import Cell, ago, dim, say, show_json, show_table, span

if TYPE_CHECKING:
    from posthouse.identity import Role
    from posthouse.insights import KeyInfo
    from posthouse.storage.reading import Db

keys = typer.Typer(no_args_is_help=True, help="Keys of the HTTP API.")


@keys.command()
def create(
    *,
    name: str = typer.Argument(..., metavar="NAME", help="What it is for, for people to read."),
    role: str = typer.Option(
        "tenant-admin", help="super-admin, tenant-admin, tenant-viewer, event-emitter or worker."
    ),
    tenant: str | None = typer.Option(None, help="Whose jobs it opens; not for a super-admin."),
    queue: list[str] = typer.Option([], metavar="QUEUE", help="For a worker: only this queue; repeatable."),
    expires: str | None = typer.Option(
        None, metavar="TIME", help="How long it is good for: 90d, 12h. Default: until it is revoked."
    ),
    as_json: bool = json_option(),
) -> None:
    """Make a key. It is shown once. Audited.

    [b]Examples:[/b]

    posthouse keys create ci --tenant acme --role tenant-admin --expires 90d

    posthouse keys create encoders --role worker --queue video
    """
    from posthouse.cli.session import read
    from posthouse.core.duration import seconds
    from posthouse.identity import Role

    if role not in set(Role):
        raise WrongUsage(f"there is no role {role!r}; choose from {', '.join(Role)}")
    with checked_usage():
        good_for = None if expires is None else seconds(expires)
        text, expires_at = read(
            lambda db, _: _issue(db, name, Role(role), good_for, tenant=tenant, queues=queue or None)
        )
    if as_json:
        show_json(
            {"key": text, "name": name, "role": role, "tenant_id": tenant, "queues": queue or None,
             "expires_at": expires_at}
        )  # fmt: skip
        return
    say(text)
    say("Keep it now: it is not shown again.", err=True, style="dim")


async def _issue(
    db: Db, name: str, role: Role, good_for: float | None, **scope: Any
) -> tuple[str, datetime | None]:
    from posthouse.identity import issue_key
    from posthouse.insights import database_now

    expires_at = None if good_for is None else await database_now(db) + timedelta(seconds=good_for)
    return await issue_key(db, name, role, expires_at=expires_at, actor=caller(), **scope), expires_at


@keys.command("list")
def list_(
    tenant: str | None = typer.Option(None, help="Only those of this tenant."),
    as_json: bool = json_option(),
) -> None:
    """List the keys; what they are is not stored.

    [b]Example:[/b]  posthouse keys list --tenant acme
    """
    from posthouse.cli.session import read

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
            dim("never") if key.last_used_at is None else Cell(ago(key.last_used_at, now)),
            Cell(key.created_by),
        )
        for key in found
    ]
    heads = ("prefix", "name", "role", "tenant", "state", "last used", "made by")
    show_table(heads, rows, empty="there are no keys")


async def _now_and_keys(db: Db, tenant: str | None) -> tuple[datetime, list[KeyInfo]]:
    from posthouse import insights

    return await insights.database_now(db), await insights.keys(db, tenant=tenant)


def _state(key: KeyInfo, now: datetime) -> Cell:
    if key.revoked_at is not None:
        return Cell("revoked", "red")
    if key.expires_at is None:
        return Cell("good", "green")
    if key.expires_at <= now:
        return Cell("expired", "red")
    return Cell(f"good for {span((key.expires_at - now).total_seconds())}", "green")


@keys.command()
def revoke(
    prefix: str = typer.Argument(..., metavar="PREFIX", help="As `posthouse keys list` shows it."),
    as_json: bool = json_option(),
) -> None:
    """End a key at once, and for good. Audited.

    [b]Example:[/b]  posthouse keys revoke k7w2mfa3
    """
    from posthouse.cli.session import act
    from posthouse.storage.keys import revoke_key

    act(lambda db: revoke_key(db, prefix, actor=caller()), f"key {prefix} is revoked", as_json=as_json)

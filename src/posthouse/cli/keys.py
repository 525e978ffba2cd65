"""posthouse keys: API keys."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import typer

from posthouse.cli.guarding import WrongUsage
from posthouse.cli.options import caller, checked_usage, json_option
from posthouse.cli.output import Cell, ago, dim, say, show_json, show_table, span

if TYPE_CHECKING:
    from posthouse.identity import Role
    from posthouse.insights import KeyInfo
    from posthouse.storage.queries import Db

keys = typer.Typer(no_args_is_help=True, help="Create, list and revoke API keys.")


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
    from posthouse.cli.session import read
    from posthouse.core.duration import seconds
    from posthouse.identity import Role

    if role not in set(Role):
        raise WrongUsage(f"unknown role {role!r}; available: {', '.join(Role)}")
    with checked_usage():
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
    say(text)
    say("Store this key now; it cannot be shown again.", err=True, style="dim")


async def _issue(
    db: Db, name: str, role: Role, good_for: float | None, **scope: Any
) -> tuple[str, datetime | None]:
    from posthouse.identity import issue_key
    from posthouse.insights import database_now
    from posthouse.settings import load_settings

    expires_at = None if good_for is None else await database_now(db) + timedelta(seconds=good_for)
    most = load_settings().keys_per_tenant
    text = await issue_key(db, name, role, expires_at=expires_at, actor=caller(), most=most, **scope)
    return text, expires_at


@keys.command("list")
def list_(
    tenant: str | None = typer.Option(None, help="Only this tenant."),
    as_json: bool = json_option(),
) -> None:
    """List API keys. The keys themselves are not stored.

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
    from posthouse.cli.session import act
    from posthouse.storage.keys import revoke_key

    act(lambda db: revoke_key(db, prefix, actor=caller()), f"key {prefix} revoked", as_json=as_json)

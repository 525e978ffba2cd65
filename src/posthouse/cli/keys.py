"""posthouse keys: who may use the API."""

from __future__ import annotations

import typer

from posthouse.cli.options import WrongUsage, caller, json_option
from posthouse.cli.output import Cell, dim, say, show_json, show_table

keys = typer.Typer(no_args_is_help=True, help="Keys of the HTTP API.")


@keys.command()
def create(
    name: str = typer.Argument(..., metavar="NAME", help="What it is for, for people to read."),
    role: str = typer.Option(
        "tenant-admin", help="super-admin, tenant-admin, tenant-viewer, event-emitter or worker."
    ),
    tenant: str | None = typer.Option(None, help="Whose jobs it opens; not for a super-admin."),
    queue: list[str] = typer.Option([], metavar="QUEUE", help="For a worker: only this queue; repeatable."),
    as_json: bool = json_option(),
) -> None:
    """Make a key. It is shown once. Audited.

    [b]Example:[/b]  posthouse keys create ci --tenant acme --role tenant-admin
    """
    from posthouse.cli.session import read
    from posthouse.identity import Role, issue_key

    if role not in set(Role):
        raise WrongUsage(f"there is no role {role!r}; choose from {', '.join(Role)}")
    text = read(
        lambda db, _: issue_key(db, name, Role(role), tenant=tenant, queues=queue or None, actor=caller())
    )
    if as_json:
        show_json({"key": text, "name": name, "role": role, "tenant_id": tenant})
        return
    say(text)
    say("Keep it now: it is not shown again.", err=True, style="dim")


@keys.command("list")
def list_(as_json: bool = json_option()) -> None:
    """List the keys; what they are is not stored."""
    from posthouse import insights
    from posthouse.cli.session import read

    found = read(lambda db, _: insights.keys(db))
    if as_json:
        show_json(found)
        return
    rows = [
        (
            Cell(key.prefix, "bold"),
            Cell(key.name),
            Cell(key.role),
            dim("all") if key.tenant_id is None else Cell(key.tenant_id),
            Cell("revoked", "red") if key.revoked_at else Cell("good", "green"),
        )
        for key in found
    ]
    show_table(("prefix", "name", "role", "tenant", "state"), rows, empty="there are no keys")


@keys.command()
def revoke(
    prefix: str = typer.Argument(..., metavar="PREFIX", help="As `posthouse keys list` shows it."),
    as_json: bool = json_option(),
) -> None:
    """End a key at once. Audited."""
    from posthouse.cli.session import act
    from posthouse.storage.keys import revoke_key

    act(lambda db: revoke_key(db, prefix, actor=caller()), f"key {prefix} is revoked", as_json=as_json)

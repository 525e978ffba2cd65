"""posthouse tenants: who has work, and whose share is larger."""

from __future__ import annotations

import typer

from posthouse.cli.options import WrongUsage, caller, checked_usage, json_option
from posthouse.cli.output import Cell, count, dim, say, show_json, show_table

tenants = typer.Typer(invoke_without_command=True, help="Tenants, their work and their share.")


@tenants.callback()
def list_unless_told(context: typer.Context, as_json: bool = json_option()) -> None:
    """Tenants, their work and their share. Alone it lists them."""
    if context.invoked_subcommand is None:
        _list(as_json=as_json)


@tenants.command("list")
def list_(as_json: bool = json_option()) -> None:
    """List the tenants that were created or have jobs."""
    _list(as_json=as_json)


def _list(*, as_json: bool) -> None:
    from posthouse import insights
    from posthouse.cli.session import read

    found = read(lambda db, _: insights.tenants(db))
    if as_json:
        show_json(found)
        return
    rows = [
        (
            Cell(tenant.id, "bold"),
            Cell(tenant.label),
            count(tenant.queued, "cyan"),
            count(tenant.running, "blue"),
            Cell(f"{tenant.weight:g}", "" if tenant.weight != 1 else "dim"),
            dim("default") if tenant.retention_days is None else Cell(f"{tenant.retention_days:g} d"),
        )
        for tenant in found
    ]
    heads = ("tenant", "label", "queued", "running", "weight", "kept")
    show_table(heads, rows, empty="no tenant was created or has jobs", right=heads[2:])


@tenants.command()
def create(
    name: str = typer.Argument(..., metavar="TENANT", help="What jobs and keys call it."),
    label: str = typer.Option("", help="What people call it."),
    weight: float = typer.Option(1.0, help="Its share beside the others'; 1 is ordinary."),
    retention: float | None = typer.Option(None, metavar="DAYS", help="How long its ended jobs are kept."),
    as_json: bool = json_option(),
) -> None:
    """Create a tenant. One that was never created works too, with what is ordinary. Audited.

    [b]Example:[/b]  posthouse tenants create acme --label "Acme Ltd" --weight 2
    """
    from posthouse.cli.session import read
    from posthouse.storage.tenants import create_tenant

    given = {"label": label, "weight": weight, "retention_days": retention}
    fields = {field: value for field, value in given.items() if value is not None}
    with checked_usage():
        read(lambda db, _: create_tenant(db, name, fields, actor=caller()))
    if as_json:
        show_json({"id": name, **fields})
    else:
        say(f"tenant {name} is there; make it a key: posthouse keys create NAME --tenant {name}")


@tenants.command()
def delete(
    name: str = typer.Argument(..., metavar="TENANT", help="The tenant."), as_json: bool = json_option()
) -> None:
    """Forget a tenant that has no active jobs: its keys end at once, and its triggers. Audited.

    Its ended jobs stay for as long as jobs are kept.

    [b]Example:[/b]  posthouse tenants delete acme
    """
    from posthouse.cli.session import read
    from posthouse.storage.tenants import delete_tenant

    read(lambda db, _: delete_tenant(db, name, actor=caller()))
    if as_json:
        show_json({"id": name, "deleted": True})
    else:
        say(f"tenant {name} is gone, and so are its keys and triggers")


@tenants.command()
def label(
    name: str = typer.Argument(..., metavar="TENANT", help="The tenant."),
    text: str = typer.Argument(..., metavar="LABEL", help="What people call it."),
    as_json: bool = json_option(),
) -> None:
    """Say what people call a tenant. Audited.

    [b]Example:[/b]  posthouse tenants label acme "Acme Ltd"
    """
    from posthouse.cli.session import read
    from posthouse.storage.tenants import change_tenant

    read(lambda db, _: change_tenant(db, name, {"label": text}, actor=caller()))
    if as_json:
        show_json({"id": name, "label": text})
    else:
        say(f"{name} is called {text}")


@tenants.command()
def weight(
    name: str = typer.Argument(..., metavar="NAME", help="The tenant."),
    number: float = typer.Argument(..., metavar="N", help="Its share beside the others'; 1 is ordinary."),
    as_json: bool = json_option(),
) -> None:
    """Give a tenant a larger or smaller share of the workers, while others have work too. Audited.

    [b]Example:[/b]  posthouse tenants weight acme 3
    """
    from posthouse.cli.session import read
    from posthouse.storage.control import set_tenant_weight

    with checked_usage():
        read(lambda db, _: set_tenant_weight(db, name, number, actor=caller()))
    if as_json:
        show_json({"id": name, "weight": number})
    else:
        say(f"{name} has weight {number:g}; workers notice within ten seconds")


@tenants.command()
def retention(
    name: str = typer.Argument(..., metavar="TENANT", help="The tenant."),
    days: str = typer.Argument(..., metavar="DAYS|default", help="How long its ended jobs are kept."),
    as_json: bool = json_option(),
) -> None:
    """Keep a tenant's ended jobs longer or shorter than the others'. Audited.

    Its attempts, logs and events follow, but no longer than their own settings say; the audit does not. What
    is over goes with the next round of retention. [b]posthouse retention[/b] shows what that is.

    [b]Examples:[/b]

    posthouse tenants retention acme 90

    posthouse tenants retention acme default
    """
    from posthouse.cli.session import read
    from posthouse.storage.control import set_tenant_retention

    wanted = _days(days)
    with checked_usage():
        read(lambda db, _: set_tenant_retention(db, name, wanted, actor=caller()))
    if as_json:
        show_json({"id": name, "retention_days": wanted})
    elif wanted is None:
        say(f"jobs of {name} are kept as long as the others'")
    else:
        say(f"jobs of {name} are kept for {wanted:g} day(s)")


def _days(text: str) -> float | None:
    if text == "default":
        return None
    try:
        return float(text)
    except ValueError:
        raise WrongUsage(f"say how many days, or default; not {text!r}") from None

"""posthouse tenants: list, create, change and delete tenants."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from posthouse.cli.database import checked_url, read
from posthouse.cli.guarding import UsageError
from posthouse.cli.options import ListGroup, as_usage_error, current_actor, json_option
from posthouse.cli.output import Cell, count, dim, print_line, show_json, show_result, show_table

tenants = typer.Typer(cls=ListGroup, help="List tenants; create, change and delete them.")


@tenants.command("list")
def list_(as_json: bool = json_option()) -> None:
    """List tenants that were created or have jobs."""
    from posthouse import insights

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
    heads = ("tenant", "label", "queued", "running", "weight", "retention")
    show_table(
        heads,
        rows,
        empty="no tenants: create one with `posthouse tenants create`, or enqueue a job",
        right=heads[2:],
    )


@tenants.command()
def create(
    name: str = typer.Argument(..., metavar="TENANT", help="Tenant id, used by jobs and keys."),
    label: str = typer.Option("", help="Display name."),
    weight: float = typer.Option(1.0, help="Share of the workers relative to other tenants; default 1."),
    retention: float | None = typer.Option(None, metavar="DAYS", help="Retention of finished jobs in days."),
    as_json: bool = json_option(),
) -> None:
    """Create a tenant. Tenants that only have jobs need not be created. Audited.

    [b]Example:[/b]  posthouse tenants create acme --label "Acme Ltd" --weight 2
    """
    from posthouse.storage.actions import create_tenant

    given = {"label": label, "weight": weight, "retention_days": retention}
    fields = {field: value for field, value in given.items() if value is not None}
    with as_usage_error():
        read(lambda db, _: create_tenant(db, name, fields, actor=current_actor()))
    show_result(
        {"id": name, **fields},
        f"tenant {name} created; create a key: posthouse keys create NAME --tenant {name}",
        as_json=as_json,
    )


@tenants.command()
def delete(
    name: str = typer.Argument(..., metavar="TENANT", help="Tenant id."), as_json: bool = json_option()
) -> None:
    """Delete a tenant without active jobs, with its keys and triggers. Audited.

    Its finished jobs stay until their retention period ends.

    [b]Example:[/b]  posthouse tenants delete acme
    """
    from posthouse.storage.actions import delete_tenant

    read(lambda db, _: delete_tenant(db, name, actor=current_actor()))
    show_result(
        {"id": name, "deleted": True}, f"tenant {name} deleted, with its keys and triggers", as_json=as_json
    )


@tenants.command()
def label(
    name: str = typer.Argument(..., metavar="TENANT", help="Tenant id."),
    text: str = typer.Argument(..., metavar="LABEL", help="Display name."),
    as_json: bool = json_option(),
) -> None:
    """Set the display name of a tenant. Audited.

    [b]Example:[/b]  posthouse tenants label acme "Acme Ltd"
    """
    from posthouse.storage.actions import change_tenant

    read(lambda db, _: change_tenant(db, name, {"label": text}, actor=current_actor()))
    show_result({"id": name, "label": text}, f"{name} labeled {text!r}", as_json=as_json)


@tenants.command()
def weight(
    name: str = typer.Argument(..., metavar="TENANT", help="Tenant id."),
    number: float = typer.Argument(
        ..., metavar="N", help="Share of the workers relative to other tenants; default 1."
    ),
    as_json: bool = json_option(),
) -> None:
    """Set the share of the workers that a tenant gets while others have work too. Audited.

    [b]Example:[/b]  posthouse tenants weight acme 3
    """
    from posthouse.storage.actions import change_tenant

    with as_usage_error():
        read(lambda db, _: change_tenant(db, name, {"weight": number}, actor=current_actor()))
    show_result(
        {"id": name, "weight": number},
        f"{name} weight set to {number:g}; effective within 10 seconds",
        as_json=as_json,
    )


@tenants.command()
def retention(
    name: str = typer.Argument(..., metavar="TENANT", help="Tenant id."),
    days: str = typer.Argument(..., metavar="DAYS|default", help="Retention of finished jobs in days."),
    as_json: bool = json_option(),
) -> None:
    """Set the retention of a tenant's finished jobs. Audited.

    Its attempts, logs and events are kept as long as the jobs, but not longer than their own settings allow.
    The audit log is not affected. The next clean-up deletes expired data; see [b]posthouse retention[/b].

    [b]Examples:[/b]

    posthouse tenants retention acme 90

    posthouse tenants retention acme default
    """
    from posthouse.storage.actions import change_tenant

    wanted = _days(days)
    fields = {"retention_days": wanted}
    with as_usage_error():
        read(lambda db, _: change_tenant(db, name, fields, actor=current_actor()))
    if as_json:
        show_json({"id": name, **fields})
    elif wanted is None:
        print_line(f"{name} retention reset to the default")
    else:
        print_line(f"{name} retention set to {wanted:g} day(s)")


def _days(text: str) -> float | None:
    if text == "default":
        return None
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"invalid retention {text!r}: expected a number of days, or default") from None


if TYPE_CHECKING:
    from uuid import UUID

    from posthouse.core.erasure import Erasure

POLL_SECONDS = 0.2


def erase(
    subject: str = typer.Argument(..., metavar="SUBJECT", help="Subject, e.g. a customer."),
    *,
    tenant: str = typer.Option("default", help="Tenant of the subject."),
    wait: bool = typer.Option(False, "--wait", help="Wait until the keeper has erased all jobs."),
    yes: bool = typer.Option(False, "-y", "--yes", help="Do not ask for confirmation."),
    as_json: bool = json_option(),
) -> None:
    """Erase payloads, results, errors, logs, progress and artifacts of a subject. Audited.

    Queued jobs are canceled, running jobs are requested to stop and erased when they have ended. Times and
    statuses stay. It cannot be undone.

    [b]Example:[/b]  posthouse erase customer-7 --tenant acme
    """
    from posthouse.client.sync import SyncClient
    from posthouse.settings import load_settings

    if not yes and not as_json:
        typer.confirm(f"Erase all jobs and events of {subject} in tenant {tenant}?", abort=True)
    settings = load_settings()
    checked_url(settings)
    with SyncClient(settings=settings) as client:
        erasure = client.erase(subject, tenant=tenant, actor=current_actor())
    if wait and not erasure.done:
        erasure = _completed(erasure.id)
    show_result(erasure, _text(erasure), as_json=as_json)


def _completed(erasure_id: UUID) -> Erasure:
    import asyncio

    from posthouse import insights

    async def work(db: Any, _: Any) -> Erasure:
        while not (found := await insights.get_erasure(db, erasure_id)).done:
            await asyncio.sleep(POLL_SECONDS)
        return found

    return read(work)


def _text(erasure: Erasure) -> str:
    erased = (
        f"{erasure.jobs:,} job(s), {erasure.events:,} event(s) and {erasure.artifacts:,} artifact(s) erased"
    )
    return erased if erasure.done else f"{erased}; the keeper erases the others when they have ended"

"""posthouse erase: remove the content of all jobs and events of a subject."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from posthouse.cli.options import caller, json_option
from posthouse.cli.output import say, show_json

if TYPE_CHECKING:
    from uuid import UUID

    from posthouse.core.erasure import Erasure

LOOK_SECONDS = 0.2


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
    from posthouse.cli.session import reachable
    from posthouse.client.sync import SyncClient
    from posthouse.settings import load_settings

    if not yes and not as_json:
        typer.confirm(f"Erase all jobs and events of {subject} in tenant {tenant}?", abort=True)
    settings = load_settings()
    reachable(settings)
    with SyncClient(settings=settings) as client:
        erasure = client.erase(subject, tenant=tenant, actor=caller())
    if wait and not erasure.done:
        erasure = _completed(erasure.id)
    if as_json:
        show_json(erasure)
    else:
        say(_text(erasure))


def _completed(erasure_id: UUID) -> Erasure:
    import asyncio

    from posthouse import insights
    from posthouse.cli.session import read

    async def work(db: Any, _: Any) -> Erasure:
        while not (found := await insights.get_erasure(db, erasure_id)).done:
            await asyncio.sleep(LOOK_SECONDS)
        return found

    return read(work)


def _text(erasure: Erasure) -> str:
    erased = (
        f"{erasure.jobs:,} job(s), {erasure.events:,} event(s) and {erasure.artifacts:,} artifact(s) erased"
    )
    return erased if erasure.done else f"{erased}; the keeper erases the others when they have ended"

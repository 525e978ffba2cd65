"""posthouse events: emit, list, show and replay events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from posthouse.cli.database import act, checked_url, read, read_at
from posthouse.cli.options import ListGroup, current_actor, id_of, json_object, json_option
from posthouse.cli.output import (
    Cell,
    count,
    dim,
    first_line,
    format_age,
    job_cell,
    show_fields,
    show_json,
    show_result,
    show_table,
)

if TYPE_CHECKING:
    from datetime import datetime

    from posthouse.insights import EventInfo, MatchInfo

events = typer.Typer(cls=ListGroup, help="Emit, list, show and replay events.")

_ID = typer.Argument(..., metavar="EVENT", help="Event id.")
_OUTCOMES = {"fired": "green", "deduped": "cyan", "error": "red"}


@events.command()
def emit(
    name: str = typer.Argument(..., metavar="NAME", help="Event name, e.g. order.paid."),
    *,
    context: str = typer.Option("{}", metavar="JSON", help="Event data, a JSON object; - reads stdin."),
    tenant: str = typer.Option("default", help="Tenant of the event."),
    subject: str | None = typer.Option(None, help="Subject, e.g. a video, a call, a customer."),
    correlation: str | None = typer.Option(
        None, metavar="ID", help="Correlation id, e.g. of a run or a request."
    ),
    as_json: bool = json_option(),
) -> None:
    """Emit an event and print its id. Matching triggers of the tenant create jobs.

    [b]Example:[/b]  posthouse events emit folder.updated --context '{"folder_id": 7}'
    """
    from posthouse.client.sync import SyncClient
    from posthouse.settings import load_settings

    known = json_object(context, "--context")
    settings = load_settings()
    checked_url(settings)
    with SyncClient(settings=settings) as client:
        event_id = client.emit(
            name,
            known,
            tenant=tenant,
            subject=subject,
            correlation_id=correlation,
            created_by=current_actor(),
        )
    show_result({"id": event_id}, str(event_id), as_json=as_json)


@events.command("list")
def list_(
    tenant: str | None = typer.Option(None, help="Only this tenant."),
    name: str | None = typer.Option(
        None, help="Only events with this name; * matches any part, e.g. order.*"
    ),
    limit: int = typer.Option(
        50, "-n", "--limit", min=1, max=1000, help="Maximum number of rows (up to 1000)."
    ),
    as_json: bool = json_option(),
) -> None:
    """List events, newest first, with the number of jobs each created."""
    from posthouse import insights

    found, now = read_at(lambda db, _: insights.events(db, tenant=tenant, name=name, limit=limit))
    if as_json:
        show_json(found)
        return
    rows = [
        (
            Cell(str(item.id)),
            dim(format_age(item.at, now)),
            item.tenant_id,
            Cell(item.name, "bold"),
            count(item.fired, "green"),
            count(item.deduped),
            count(item.errors, "red"),
            dim("pending" if item.pending else ""),
        )
        for item in found
    ]
    heads = ("event", "when", "tenant", "name", "jobs", "deduped", "errors", "")
    show_table(heads, rows, empty="no events", right=("jobs", "deduped", "errors"))


@events.command()
def show(event: str = _ID, as_json: bool = json_option()) -> None:
    """Show an event and the outcome at each trigger."""
    from posthouse import insights

    wanted = id_of("event", event)

    async def load(db: Any, _: Any) -> tuple[EventInfo, list[MatchInfo], datetime]:
        found = await insights.get_event(db, wanted)
        return found, await insights.matches_of(db, wanted), await insights.database_now(db)

    found, matches, now = read(load)
    if as_json:
        from dataclasses import asdict

        show_json({**asdict(found), "matches": matches})
        return
    show_fields(_fields(found, now))
    rows = [
        (
            Cell(item.label or str(item.trigger_id)),
            Cell(item.outcome, _OUTCOMES[item.outcome]),
            job_cell(item.job_id),
            dim(f"replay {item.replay}" if item.replay else ""),
            Cell(first_line(item.error, 100), "red"),
        )
        for item in matches
    ]
    empty = "pending: no keeper has processed the event yet" if found.pending else "no trigger matched"
    show_table(("trigger", "outcome", "job", "", "error"), rows, empty=empty)


def _fields(item: EventInfo, now: datetime) -> list[tuple[str, str | Cell]]:
    import json

    return [
        ("id", str(item.id)),
        ("name", Cell(item.name, "bold")),
        ("when", format_age(item.at, now)),
        ("tenant", item.tenant_id),
        ("subject", item.subject or ""),
        ("correlation", item.correlation_id or ""),
        ("emitted by", item.created_by or ""),
        ("context", json.dumps(item.context, indent=2, ensure_ascii=False)),
    ]


@events.command()
def replay(
    event: str = _ID,
    trigger: list[str] = typer.Option([], metavar="TRIGGER", help="Only this trigger; repeatable."),
    as_json: bool = json_option(),
) -> None:
    """Match an event again, with the current triggers and without dedupe windows. Audited.

    [b]Example:[/b]  posthouse events replay 01890a5d-ac96-774b-bcce-b302099a8057
    """
    from posthouse.triggers import replay_event

    wanted = id_of("event", event)
    only = [id_of("trigger", text) for text in trigger] or None
    act(
        lambda db: replay_event(db, wanted, actor=current_actor(), triggers=only),
        f"{wanted} will be matched again",
        as_json=as_json,
    )

"""posthouse triggers fire and outcomes: fire a trigger by hand, and list its runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from posthouse.cli.guarding import WrongUsage
from posthouse.cli.inputs import json_object
from posthouse.cli.options import caller, id_of, json_option
from posthouse.cli.output import (
    STATUS_STYLES,
    Cell,
    ago,
    dim,
    first_line,
    job_cell,
    say,
    show_json,
    show_table,
)

if TYPE_CHECKING:
    from datetime import datetime

    from posthouse.insights import TriggerOutcome

_ID = typer.Argument(..., metavar="TRIGGER", help="Trigger id.")


def fire(
    trigger: str = _ID,
    *,
    event: str | None = typer.Option(
        None, "--event", metavar="NAME|ID", help="Event to fire with: a name, or the id of a stored event."
    ),
    context: str = typer.Option(
        "{}", "--context", metavar="JSON", help="With an event name: event data, a JSON object."
    ),
    as_json: bool = json_option(),
) -> None:
    """Fire a trigger now, even if it is disabled, and print the job id. Audited.

    [b]Examples:[/b]

    posthouse triggers fire 01890a5d-ac96-774b-bcce-b302099a8057

    posthouse triggers fire 01890a5d-ac96-774b-bcce-b302099a8057 --event folder.updated --context '{"id": 7}'
    """
    from posthouse.cli.session import read
    from posthouse.triggers import fire_trigger

    wanted = id_of("trigger", trigger)
    told = _event(event, context)
    done = read(
        lambda db, known: fire_trigger(
            db, wanted, actor=caller(), payload_limit=known.max_payload_bytes, **told
        )
    )
    if as_json:
        show_json(done)
    elif done.job_id is None:
        raise WrongUsage(f"no job was created: {done.reason}")
    else:
        say(str(done.job_id))


def _event(event: str | None, context: str) -> dict[str, Any]:
    from uuid import UUID

    from posthouse.triggers import EventSample

    if event is None:
        return {}
    try:
        return {"event_id": UUID(event)}
    except ValueError:
        return {"event": EventSample(name=event, context=json_object(context, "--context"))}


def outcomes(
    trigger: str = _ID,
    *,
    limit: int = typer.Option(
        20, "--limit", "-n", min=1, max=1000, help="Maximum number of rows (up to 1000)."
    ),
    as_json: bool = json_option(),
) -> None:
    """List the outcomes of a trigger, newest first: jobs created, or why none was."""
    from posthouse import insights
    from posthouse.cli.session import read

    wanted = id_of("trigger", trigger)

    async def look(db: Any, _: Any) -> tuple[list[TriggerOutcome], datetime]:
        found = await insights.get_trigger(db, wanted)
        return await insights.outcomes_of(db, found, limit=limit), await insights.database_now(db)

    found, now = read(look)
    if as_json:
        show_json(found)
        return
    heads = ("when", "cause", "outcome", "job", "status", "reason")
    show_table(heads, [_row(item, now) for item in found], empty="the trigger has not fired yet")


def _row(item: TriggerOutcome, now: datetime) -> tuple[str | Cell, ...]:
    cause = (
        f"{item.nominal_at:%Y-%m-%d %H:%M:%S %z}"
        if item.nominal_at
        else item.event_name or str(item.event_id)
    )
    return (
        dim(ago(item.at, now)),
        cause,
        Cell(item.outcome, "red" if item.outcome == "error" else ""),
        job_cell(item.job_id),
        Cell(item.job_status or "", STATUS_STYLES.get(item.job_status or "", "")),
        first_line(item.reason or "", 60),
    )

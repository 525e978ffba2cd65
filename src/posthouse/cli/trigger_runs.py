"""posthouse triggers fire and outcomes: set one off by hand, and see what came of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from posthouse.cli.inputs import json_object
from posthouse.cli.options import WrongUsage, caller, id_of, json_option
from posthouse.cli.output import STATUS_STYLES, Cell, ago, dim, first_line, say, show_json, show_table

if TYPE_CHECKING:
    from datetime import datetime

    from posthouse.insights import TriggerOutcome

_ID = typer.Argument(..., metavar="TRIGGER", help="The trigger's id.")


def fire(
    trigger: str = _ID,
    *,
    event: str | None = typer.Option(
        None, "--event", metavar="NAME|ID", help="The event that it answers to."
    ),
    context: str = typer.Option(
        "{}", "--context", metavar="JSON", help="With the name of an event: its context."
    ),
    as_json: bool = json_option(),
) -> None:
    """Make a trigger's job now, whether it is enabled or not, and print its id. Audited.

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
        raise WrongUsage(f"nothing was made: {done.reason}")
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
    limit: int = typer.Option(20, "--limit", "-n", min=1, max=1000, help="So many at most."),
    as_json: bool = json_option(),
) -> None:
    """List what came of a trigger, the latest first: its jobs, and why there is none."""
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
    heads = ("when", "what set it off", "outcome", "job", "status", "reason")
    show_table(heads, [_row(item, now) for item in found], empty="nothing yet")


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
        str(item.job_id or ""),
        Cell(item.job_status or "", STATUS_STYLES.get(item.job_status or "", "")),
        first_line(item.reason or "", 60),
    )

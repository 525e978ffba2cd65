"""posthouse triggers fire and outcomes: fire a trigger by hand, and list its runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from posthouse.cli.database import read, read_at
from posthouse.cli.guarding import UsageError
from posthouse.cli.options import current_actor, id_of, json_object, json_option
from posthouse.cli.output import (
    STATUS_STYLES,
    Cell,
    dim,
    first_line,
    format_age,
    job_cell,
    print_line,
    show_json,
    show_table,
    span,
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
    from posthouse.triggers import fire_trigger

    wanted = id_of("trigger", trigger)
    source = _event(event, context)
    done = read(
        lambda db, known: fire_trigger(
            db, wanted, actor=current_actor(), payload_limit=known.max_payload_bytes, **source
        )
    )
    if as_json:
        show_json(done)
    elif done.job_id is None:
        raise UsageError(f"no job was created: {done.reason}")
    else:
        print_line(str(done.job_id))


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

    wanted = id_of("trigger", trigger)

    async def load(db: Any, _: Any) -> tuple[list[TriggerOutcome], datetime]:
        found = await insights.get_trigger(db, wanted)
        return await insights.outcomes_of(db, found, limit=limit), await insights.database_now(db)

    found, now = read(load)
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
        dim(format_age(item.at, now)),
        cause,
        Cell(item.outcome, "red" if item.outcome == "error" else ""),
        job_cell(item.job_id),
        Cell(item.job_status or "", STATUS_STYLES.get(item.job_status or "", "")),
        first_line(item.reason or "", 60),
    )


if TYPE_CHECKING:
    from datetime import datetime

    from posthouse.core.schedule import Occurrence, Schedule
    from posthouse.insights import TriggerInfo

MAX_RUNS = 1000


def next_runs(
    trigger: str | None = typer.Argument(None, metavar="TRIGGER", help="Trigger id of a schedule."),
    *,
    cron: str | None = typer.Option(
        None, "--cron", metavar="EXPR", help="Cron expression to preview instead."
    ),
    zone: str = typer.Option("UTC", "--zone", metavar="ZONE", help="With --cron: time zone."),
    gap: str = typer.Option(
        "next", "--gap", metavar="next|skip", help="With --cron: policy for times skipped by DST."
    ),
    fold: str = typer.Option(
        "once", "--fold", metavar="once|twice", help="With --cron: policy for times repeated by DST."
    ),
    since: str | None = typer.Option(
        None, "--from", metavar="TIME", help="Start of the preview (default: now)."
    ),
    count: int = typer.Option(
        20, "--count", "-n", metavar="N", min=1, max=MAX_RUNS, help="Number of runs (up to 1000)."
    ),
    as_json: bool = json_option(),
) -> None:
    """Show the next runs of a schedule in its time zone and in UTC, with daylight saving changes.

    [b]Examples:[/b]

    posthouse triggers next 01890a5d-ac96-774b-bcce-b302099a8057

    posthouse triggers next --cron '30 2 * * *' --zone America/New_York --from 2026-03-06 -n 5
    """
    if (trigger is None) == (cron is None):
        raise UsageError("missing schedule: pass either a trigger id, or --cron EXPR with --zone ZONE")
    schedule, now, stored = _stored(trigger) if trigger else _tried_out(cron or "", zone, gap, fold)
    runs = schedule.occurrences(now if since is None else _moment(since, schedule), count)
    if as_json:
        show_json(runs)
        return
    heads = (schedule.zone.key, "UTC", "in" if since is None else "", "daylight saving")
    show_table(heads, [_missed_row(run, now, since) for run in runs], empty="no further runs")
    if stored is not None and not stored.enabled:
        print_line(
            "the trigger is disabled: these runs will not happen until it is enabled",
            style="yellow",
            err=True,
        )
    if stored is not None and stored.jitter_seconds:
        print_line(
            f"jitter: each run starts up to {span(stored.jitter_seconds)} later", style="dim", err=True
        )


def _tried_out(expression: str, zone: str, gap: Any, fold: Any) -> tuple[Schedule, datetime, None]:
    from datetime import UTC, datetime

    from posthouse.core.schedule import Schedule
    from posthouse.errors import InvalidSchedule

    try:
        return Schedule.parse(expression, zone, gap=gap, fold=fold), datetime.now(UTC), None
    except InvalidSchedule as error:
        raise UsageError(str(error)) from None


def _stored(trigger: str) -> tuple[Schedule, datetime, TriggerInfo]:
    from posthouse import insights
    from posthouse.core.schedule import Schedule

    wanted = id_of("trigger", trigger)

    found, now = read_at(lambda db, _: insights.get_trigger(db, wanted))
    if found.cron_expr is None or found.timezone is None:
        raise UsageError(f"trigger {wanted} is not a schedule; it fires on events ({found.event_name})")
    gap: Any = found.gap
    fold: Any = found.fold
    return Schedule.parse(found.cron_expr, found.timezone, gap=gap, fold=fold), now, found


def _moment(text: str, schedule: Schedule) -> datetime:
    """Parse a time; without a zone it is in the zone of the schedule."""
    from datetime import datetime

    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"invalid --from {text!r}: expected 2026-03-08 or 2026-03-08T02:30") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=schedule.zone)


def _missed_row(run: Occurrence, now: datetime, since: str | None) -> tuple[str | Cell, ...]:
    return (
        Cell(f"{run.local:%a %Y-%m-%d %H:%M:%S %z}", "bold"),
        f"{run.at:%Y-%m-%d %H:%M:%S}",
        dim(format_age(run.at, now) if since is None else ""),
        Cell(run.note, "yellow"),
    )

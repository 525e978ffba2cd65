"""posthouse triggers next: the next runs of a schedule."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from posthouse.cli.guarding import WrongUsage
from posthouse.cli.options import id_of, json_option
from posthouse.cli.output import Cell, ago, dim, say, show_json, show_table, span

if TYPE_CHECKING:
    from datetime import datetime

    from posthouse.core.schedule import Occurrence, Schedule
    from posthouse.insights import TriggerInfo

MOST = 1000


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
        20, "--count", "-n", metavar="N", min=1, max=MOST, help="Number of runs (up to 1000)."
    ),
    as_json: bool = json_option(),
) -> None:
    """Show the next runs of a schedule in its time zone and in UTC, with daylight saving changes.

    [b]Examples:[/b]

    posthouse triggers next 01890a5d-ac96-774b-bcce-b302099a8057

    posthouse triggers next --cron '30 2 * * *' --zone America/New_York --from 2026-03-06 -n 5
    """
    if (trigger is None) == (cron is None):
        raise WrongUsage("missing schedule: pass either a trigger id, or --cron EXPR with --zone ZONE")
    schedule, now, stored = _stored(trigger) if trigger else _tried_out(cron or "", zone, gap, fold)
    runs = schedule.occurrences(now if since is None else _moment(since, schedule), count)
    if as_json:
        show_json(runs)
        return
    heads = (schedule.zone.key, "UTC", "in" if since is None else "", "daylight saving")
    show_table(heads, [_row(run, now, since) for run in runs], empty="no further runs")
    if stored is not None and not stored.enabled:
        say(
            "the trigger is disabled: these runs will not happen until it is enabled",
            style="yellow",
            err=True,
        )
    if stored is not None and stored.jitter_seconds:
        say(f"jitter: each run starts up to {span(stored.jitter_seconds)} later", style="dim", err=True)


def _tried_out(expression: str, zone: str, gap: Any, fold: Any) -> tuple[Schedule, datetime, None]:
    from datetime import UTC, datetime

    from posthouse.core.schedule import Schedule
    from posthouse.errors import InvalidSchedule

    try:
        return Schedule.parse(expression, zone, gap=gap, fold=fold), datetime.now(UTC), None
    except InvalidSchedule as error:
        raise WrongUsage(str(error)) from None


def _stored(trigger: str) -> tuple[Schedule, datetime, TriggerInfo]:
    from posthouse import insights
    from posthouse.cli.session import read
    from posthouse.core.schedule import Schedule

    wanted = id_of("trigger", trigger)

    async def look(db: Any, _: Any) -> tuple[TriggerInfo, datetime]:
        return await insights.get_trigger(db, wanted), await insights.database_now(db)

    found, now = read(look)
    if found.cron_expr is None or found.timezone is None:
        raise WrongUsage(f"trigger {wanted} is not a schedule; it fires on events ({found.event_name})")
    gap: Any = found.gap
    fold: Any = found.fold
    return Schedule.parse(found.cron_expr, found.timezone, gap=gap, fold=fold), now, found


def _moment(text: str, schedule: Schedule) -> datetime:
    """Parse a time; without a zone it is in the zone of the schedule."""
    from datetime import datetime

    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise WrongUsage(f"invalid --from {text!r}: expected 2026-03-08 or 2026-03-08T02:30") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=schedule.zone)


def _row(run: Occurrence, now: datetime, since: str | None) -> tuple[str | Cell, ...]:
    return (
        Cell(f"{run.local:%a %Y-%m-%d %H:%M:%S %z}", "bold"),
        f"{run.at:%Y-%m-%d %H:%M:%S}",
        dim(ago(run.at, now) if since is None else ""),
        Cell(run.note, "yellow"),
    )

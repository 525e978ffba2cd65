"""Commands of posthouse failures that run many jobs again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

import typer

from posthouse.cli.bars import shown_progress
from posthouse.cli.options import WrongUsage, caller, checked_usage, job_id, json_option
from posthouse.cli.output import Cell, ago, count, dim, say, show_json, show_table

if TYPE_CHECKING:
    from datetime import datetime

    from posthouse.insights import BulkChange

LOOK_SECONDS = 0.3
STATE_STYLES = {
    "running": "blue",
    "gathering": "blue",
    "done": "green",
    "stopped": "yellow",
    "halted": "bold red",
}


def retry(
    fingerprint: str | None = typer.Argument(
        None, metavar="[FAILURE]", help="Jobs of this failure: its fingerprint, or the beginning of it."
    ),
    *,
    kind: str | None = typer.Option(None, help="Only this kind."),
    queue: str | None = typer.Option(None, help="Only this queue."),
    tenant: str | None = typer.Option(None, help="Only this tenant."),
    since: str | None = typer.Option(None, metavar="SPAN", help="Only jobs that ended within this time: 2h."),
    until: str | None = typer.Option(
        None, metavar="SPAN", help="Only jobs that ended longer ago than this: 30m."
    ),
    limit: int | None = typer.Option(None, min=1, metavar="N", help="At most so many, the oldest first."),
    rate: str = typer.Option(
        "10/s", metavar="N/SPAN", help="So many in a time: 10/s, 100/m.", show_default=True
    ),
    stop_at: str = typer.Option(
        "50%",
        metavar="SHARE",
        help="Stop if more than this share fails again; 100%: never.",
        show_default=True,
    ),
    stop_after: int = typer.Option(
        20, min=1, metavar="N", help="But not before so many have shown how they do.", show_default=True
    ),
    detach: bool = typer.Option(False, "--detach", help="Do not wait: the keeper goes on by itself."),
    dry_run: bool = typer.Option(False, "--dry-run", help="Only say how many jobs it would be."),
    as_json: bool = json_option(),
) -> None:
    """Run failed and dead-letter jobs again, at a rate, until too many of them fail again. Audited.

    The keeper does it, also if this command is interrupted. Exits with 1 if it was stopped or halted.

    [b]Examples:[/b]

    posthouse failures retry 3f2a9c01d2e4b687 --rate 50/s

    posthouse failures retry --kind welcome --since 2h --stop-at 20% --detach
    """
    from posthouse.cli.session import read
    from posthouse.core.limit import rate_per_second
    from posthouse.errors import InvalidBulkChange
    from posthouse.storage.control import retry_many

    with checked_usage():
        speed, share = rate_per_second(rate), _share(stop_at)
        ago_from, ago_to = _span(since), _span(until)

    async def work(db: Any, _: Any) -> UUID | int:
        chosen = await _chosen(
            db, fingerprint=fingerprint, kind=kind, queue=queue, tenant=tenant, since=ago_from, until=ago_to,
            limit=limit,
        )  # fmt: skip
        if dry_run:
            from posthouse import insights

            return await insights.count_retriable(db, chosen)
        try:
            return await retry_many(
                db, chosen, rate=speed, stop_share=share, stop_after=stop_after, actor=caller()
            )
        except InvalidBulkChange as error:
            raise WrongUsage(str(error)) from None

    answer = read(work)
    if isinstance(answer, int):
        show_json({"jobs": answer}) if as_json else say(f"{answer:,} jobs would be retried")
        return
    _follow(answer, detach=detach, as_json=as_json)


def _follow(bulk_id: UUID, *, detach: bool, as_json: bool) -> None:
    from posthouse import insights
    from posthouse.cli.session import read

    if not as_json:
        say(f"bulk retry {bulk_id}", style="dim", err=not detach)
    if detach:
        done = read(lambda db, _: insights.get_bulk_change(db, bulk_id))
    else:
        try:
            done = read(lambda db, _: _until_ended(db, bulk_id))
        except KeyboardInterrupt:
            say(f"it goes on; `posthouse failures stop {bulk_id}` stops it", err=True)
            raise typer.Exit(130) from None
    if as_json:
        show_json(done)
    elif not detach:
        say(f"{done.state}: {_told(done)}{f' - {done.reason}' if done.reason else ''}")
    if done.state in {"halted", "stopped"}:
        raise typer.Exit(1)


async def _chosen(db: Any, *, fingerprint: str | None, **choice: Any) -> dict[str, Any]:
    """The choice with times of the database's clock, and the whole of a fingerprint."""
    from datetime import timedelta

    from posthouse import insights

    now = await insights.database_now(db)
    for name in ("since", "until"):
        if choice[name] is not None:
            choice[name] = now - timedelta(seconds=choice[name])
    if fingerprint is not None:
        detail = await insights.get_failure(
            db, fingerprint, kind=choice["kind"], tenant=choice["tenant"], jobs=0
        )
        fingerprint = detail.group.fingerprint
    wanted = {"fingerprint": fingerprint, **choice}
    return {name: value for name, value in wanted.items() if value is not None}


async def _until_ended(db: Any, bulk_id: UUID) -> BulkChange:
    import asyncio

    from posthouse import insights

    with shown_progress("retry") as bar:
        while True:
            bulk = await insights.get_bulk_change(db, bulk_id)
            left = 0 if bulk.total is None else bulk.total - bulk.retried - bulk.skipped
            bar.show(left, _told(bulk))
            if not bulk.open:
                return bulk
            await asyncio.sleep(LOOK_SECONDS)


def _told(bulk: BulkChange) -> str:
    if bulk.total is None:
        return "its jobs are being gathered"
    skipped = f", {bulk.skipped:,} skipped" if bulk.skipped else ""
    return (
        f"{bulk.retried:,} of {bulk.total:,} retried{skipped}, "
        f"{bulk.succeeded:,} succeeded, {bulk.failed:,} failed again"
    )


def retries(
    limit: int = typer.Option(20, min=1, max=1000, help="At most so many.", show_default=True),
    as_json: bool = json_option(),
) -> None:
    """List bulk retries and how far they are, newest first."""
    from posthouse import insights
    from posthouse.cli.session import read

    async def look(db: Any, _: Any) -> tuple[list[BulkChange], datetime]:
        return await insights.bulk_changes(db, action="retry", limit=limit), await insights.database_now(db)

    found, now = read(look)
    if as_json:
        show_json(found)
        return
    rows = [
        (
            dim(str(bulk.id)),
            Cell(bulk.state, STATE_STYLES[bulk.state]),
            f"{bulk.retried + bulk.skipped:,}/{'?' if bulk.total is None else f'{bulk.total:,}'}",
            count(bulk.succeeded, "green"),
            count(bulk.failed, "red"),
            ago(bulk.created_at, now),
            bulk.created_by,
            dim(bulk.reason or ", ".join(f"{name} {value}" for name, value in bulk.chosen.items())),
        )
        for bulk in found
    ]
    heads = ("id", "status", "retried", "succeeded", "failed again", "started", "by", "jobs")
    show_table(heads, rows, empty="no bulk retries", right=heads[2:5])


def stop(
    bulk_id: str = typer.Argument(..., metavar="ID", help="The bulk retry's id."),
    as_json: bool = json_option(),
) -> None:
    """Stop a bulk retry. Jobs that were retried already go on. Audited."""
    from posthouse.cli.session import read
    from posthouse.storage.control import stop_bulk_change

    wanted = job_id(bulk_id)
    stopped = read(lambda db, _: stop_bulk_change(db, wanted, actor=caller()))
    if as_json:
        show_json({"id": bulk_id, "stopped": stopped})
    else:
        say(f"{bulk_id}  {'stopped' if stopped else 'had ended already'}")


def _span(text: str | None) -> float | None:
    from posthouse.core.duration import seconds

    return None if text is None else seconds(text)


def _share(text: str) -> float:
    """A share as people write it: 20% or 0.2."""
    try:
        share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise WrongUsage(f"--stop-at is a share like 20% or 0.2, not {text!r}")
    return share

"""Progress of bulk changes: many jobs that the keeper retries or cancels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from posthouse.cli.bars import shown_progress
from posthouse.cli.guarding import WrongUsage
from posthouse.cli.output import say, show_json

if TYPE_CHECKING:
    from uuid import UUID

    from posthouse.insights import BulkChange

LOOK_SECONDS = 0.3


def follow(bulk_id: UUID, *, detach: bool, as_json: bool) -> None:
    from posthouse import insights
    from posthouse.cli.session import read

    if not as_json:
        say(f"bulk change {bulk_id}", style="dim", err=not detach)
    if detach:
        done = read(lambda db, _: insights.get_bulk_change(db, bulk_id))
    else:
        try:
            done = read(lambda db, _: _until_ended(db, bulk_id))
        except KeyboardInterrupt:
            say(
                "the bulk change continues in the background; stop it with "
                f"`posthouse failures stop {bulk_id}`",
                err=True,
            )
            raise typer.Exit(130) from None
    if as_json:
        show_json(done)
    elif not detach:
        say(f"{done.state}: {_told(done)}{f'; {done.reason}' if done.reason else ''}")
    if done.state in {"halted", "stopped"}:
        raise typer.Exit(1)


async def _until_ended(db: Any, bulk_id: UUID) -> BulkChange:
    import asyncio

    from posthouse import insights

    with shown_progress("jobs") as bar:
        while True:
            bulk = await insights.get_bulk_change(db, bulk_id)
            left = 0 if bulk.total is None else bulk.total - bulk.retried - bulk.canceled - bulk.skipped
            bar.show(left, _told(bulk))
            if not bulk.open:
                return bulk
            await asyncio.sleep(LOOK_SECONDS)


def _told(bulk: BulkChange) -> str:
    if bulk.total is None:
        return "collecting jobs"
    skipped = f", {bulk.skipped:,} skipped" if bulk.skipped else ""
    if bulk.action == "cancel":
        return f"{bulk.canceled:,} of {bulk.total:,} canceled{skipped}"
    return (
        f"{bulk.retried:,} of {bulk.total:,} retried{skipped}, "
        f"{bulk.succeeded:,} succeeded, {bulk.failed:,} failed again"
    )


def share_of(text: str) -> float:
    """Parse a ratio: 20% or 0.2."""
    try:
        share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise WrongUsage(f"invalid --stop-at {text!r}: expected a ratio like 20% or 0.2")
    return share

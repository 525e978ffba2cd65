"""Commands of posthouse jobs that change jobs, one by one or in bulk."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal
from uuid import UUID

import typer

from posthouse.cli.database import read
from posthouse.cli.guarding import UsageError
from posthouse.cli.options import as_usage_error, current_actor, json_option
from posthouse.cli.output import print_line, progress_view, show_json

if TYPE_CHECKING:
    from posthouse.insights import MatchedJob

HELP = "Job id, or a unique prefix or suffix of it (at least 4 characters)."
_PART = re.compile(r"[0-9a-f]{4,31}")
_LISTED = 10


def job_reference(text: str) -> UUID | str:
    """Return the id, or the digits of a part of one for `find_job`."""
    digits = text.replace("-", "").lower()
    if _PART.fullmatch(digits):
        return digits
    try:
        return UUID(text)
    except ValueError:
        raise UsageError(
            f"{text!r} is not a job id; pass a full id like 01890a5d-ac96-774b-bcce-b302099a8057, or its "
            "first or last characters (at least 4); list jobs with `posthouse jobs list`"
        ) from None


async def find_job(db: Any, reference: UUID | str) -> UUID:
    """Return the id of the one job that the reference matches. A full id is not looked up."""
    from posthouse import insights
    from posthouse.errors import JobNotFound

    if isinstance(reference, UUID):
        return reference
    found = await insights.jobs_by_part_of_id(db, reference, limit=_LISTED + 1)
    if not found:
        raise JobNotFound(
            f"no job id starts or ends with {reference!r}; a suffix is searched among the newest "
            f"{insights.SEARCHED_IDS:,} jobs of each table, so pass the full id of an older job"
        )
    if len(found) > 1:
        raise UsageError(_ambiguous(reference, found))
    return found[0].id


def _ambiguous(reference: str, found: list[MatchedJob]) -> str:
    more = "" if len(found) <= _LISTED else f"\n  and more than {_LISTED} in total"
    jobs = "".join(f"\n  {job.id}  {job.kind}  {job.status}" for job in found[:_LISTED])
    return f"the job id {reference!r} is ambiguous; pass more characters of one of these:{jobs}{more}"


if TYPE_CHECKING:
    from uuid import UUID

    from posthouse.core.filters import Filter, JobQuery
    from posthouse.insights import JobCount

_IDS = typer.Argument(None, metavar="ID", help=HELP)
_LINE = typer.Option(
    None,
    "--filter",
    metavar="QUERY",
    help="Filter query that selects jobs, instead of ids; the keeper changes them at a controlled rate.",
)
_TENANT = typer.Option(None, help="With --filter: only this tenant.")
_LIMIT = typer.Option(None, min=1, metavar="N", help="With --filter: maximum number of jobs.")
_DETACH = typer.Option(False, "--detach", help="With --filter: return immediately; the keeper continues.")
_DRY_RUN = typer.Option(False, "--dry-run", help="With --filter: only print the number of matching jobs.")


def retry(
    wanted: list[str] | None = _IDS,
    *,
    fresh: bool = typer.Option(
        False, "--fresh", help="With ids: discard finished steps, parts and progress."
    ),
    line: str | None = _LINE,
    tenant: str | None = _TENANT,
    limit: int | None = _LIMIT,
    rate: str = typer.Option(
        "10/s", metavar="N/SPAN", help="With --filter: jobs per time, e.g. 10/s, 100/m."
    ),
    stop_at: str = typer.Option(
        "50%", metavar="RATIO", help="With --filter: ratio of jobs failing again at which to stop."
    ),
    detach: bool = _DETACH,
    dry_run: bool = _DRY_RUN,
    as_json: bool = json_option(),
) -> None:
    """Retry failed, canceled or dead-letter jobs with a new set of attempts. Audited.

    A filter includes canceled jobs only if it contains status:canceled.

    [b]Examples:[/b]

    posthouse jobs retry 01890a5d-ac96-774b-bcce-b302099a8057

    posthouse jobs retry --filter 'kind:ocr error:timeout finished:<2h' --rate 50/s
    """
    from posthouse.storage.actions import retry_job

    if _by_filter(wanted, line):
        _reject_options("only with job ids", fresh=fresh)
        with as_usage_error():
            share = parse_ratio(stop_at)
        found = _FilteredAction("retry", line or "", rate, tenant, limit, share)
        found.change(detach=detach, dry_run=dry_run, as_json=as_json)
    else:
        _reject_options("only with --filter", tenant=tenant, limit=limit, detach=detach, dry_run=dry_run)
        _apply_to_each(wanted or [], partial(retry_job, fresh=fresh), as_json=as_json)


def cancel(
    wanted: list[str] | None = _IDS,
    *,
    line: str | None = _LINE,
    tenant: str | None = _TENANT,
    limit: int | None = _LIMIT,
    rate: str = typer.Option("100/s", metavar="N/SPAN", help="With --filter: jobs per time, e.g. 10/s."),
    detach: bool = _DETACH,
    dry_run: bool = _DRY_RUN,
    as_json: bool = json_option(),
) -> None:
    """Cancel jobs: queued jobs at once, running jobs through their worker. Audited.

    [b]Example:[/b]  posthouse jobs cancel --filter 'queue:mail status:queued created:>1d' --dry-run
    """
    from posthouse.storage.actions import cancel_job

    if _by_filter(wanted, line):
        found = _FilteredAction("cancel", line or "", rate, tenant, limit)
        found.change(detach=detach, dry_run=dry_run, as_json=as_json)
    else:
        _reject_options("only with --filter", tenant=tenant, limit=limit, detach=detach, dry_run=dry_run)
        _apply_to_each(wanted or [], cancel_job, as_json=as_json)


def _by_filter(wanted: list[str] | None, line: str | None) -> bool:
    if bool(wanted) == (line is not None):
        raise UsageError("no jobs selected: pass either job ids or --filter QUERY")
    return line is not None


def _reject_options(when: str, **options: Any) -> None:
    """Reject options that would have no effect."""
    for name, value in options.items():
        if value:
            raise UsageError(f"--{name.replace('_', '-')} is allowed {when}")


@dataclass(frozen=True, slots=True)
class _FilteredAction:
    """A change of all jobs that match a filter."""

    action: Literal["retry", "cancel"]
    line: str
    rate: str
    tenant: str | None = None
    limit: int | None = None
    stop_share: float = 0.5

    def change(self, *, detach: bool, dry_run: bool, as_json: bool) -> None:
        from posthouse.core.filters import parse_filter
        from posthouse.core.limit import rate_per_second

        with as_usage_error():
            chosen, speed = parse_filter(self.line), rate_per_second(self.rate)
        if not dry_run:
            watch_bulk_change(
                read(lambda db, _: self._start(db, chosen, speed)), detach=detach, as_json=as_json
            )
            return
        count = read(lambda db, _: self._count(db, chosen))
        if as_json:
            show_json({"jobs": count.count, "exact": count.exact})
        else:
            done = "retried" if self.action == "retry" else "canceled"
            print_line(f"{'' if count.exact else 'at least '}{count.count:,} jobs would be {done}")

    async def _count(self, db: Any, chosen: Filter) -> JobCount:
        from posthouse import insights

        async with db.transaction():
            search = await self._search(db, chosen)
            return await insights.count_to_change(db, search, self.limit)

    async def _start(self, db: Any, chosen: Filter, speed: float) -> UUID:
        from posthouse.core.filters import format_filter
        from posthouse.storage.actions import start_bulk_change

        named = {"q": format_filter(chosen), "tenant": self.tenant, "limit": self.limit}
        async with db.transaction():
            search = await self._search(db, chosen)
            return await start_bulk_change(
                db, self.action, named, search.as_json(), rate=speed, stop_share=self.stop_share,
                actor=current_actor(),
            )  # fmt: skip

    async def _search(self, db: Any, chosen: Filter) -> JobQuery:
        from posthouse import insights
        from posthouse.errors import InvalidRequest

        try:
            return await insights.search_changeable_jobs(db, self.action, chosen, tenant=self.tenant)
        except InvalidRequest as error:
            raise UsageError(str(error)) from None


def _apply_to_each(wanted: list[str], act: Callable[..., Awaitable[str]], *, as_json: bool) -> None:
    """Apply the change to each job; report those that fail and change the others."""
    from posthouse.errors import PosthouseError

    references = [job_reference(text) for text in wanted]

    async def work(db: Any, _: Any) -> list[dict[str, Any]]:
        done: list[dict[str, Any]] = []
        for reference in references:
            job_id = reference
            try:
                job_id = await find_job(db, reference)
                done.append({"id": job_id, "status": await act(db, job_id, actor=current_actor())})
            except PosthouseError as error:
                done.append({"id": job_id, "status": None, "error": str(error), "code": error.code})
        return done

    done = read(work)
    if as_json:
        show_json(done)
    for item in done:
        if "error" in item:
            typer.echo(f"error: {item['error']}", err=True)
        elif not as_json:
            print_line(f"{item['id']}  {item['status']}")
    if any("error" in item for item in done):
        raise typer.Exit(1)


if TYPE_CHECKING:
    from uuid import UUID

    from posthouse.insights import BulkChange

POLL_SECONDS = 0.3


def watch_bulk_change(bulk_id: UUID, *, detach: bool, as_json: bool) -> None:
    from posthouse import insights

    if not as_json:
        print_line(f"bulk change {bulk_id}", style="dim", err=not detach)
    if detach:
        done = read(lambda db, _: insights.get_bulk_change(db, bulk_id))
    else:
        try:
            done = read(lambda db, _: _until_ended(db, bulk_id))
        except KeyboardInterrupt:
            print_line(
                "the bulk change continues in the background; stop it with "
                f"`posthouse failures stop {bulk_id}`",
                err=True,
            )
            raise typer.Exit(130) from None
    if as_json:
        show_json(done)
    elif not detach:
        print_line(f"{done.state}: {_describe(done)}{f'; {done.reason}' if done.reason else ''}")
    if done.state in {"halted", "stopped"}:
        raise typer.Exit(1)


async def _until_ended(db: Any, bulk_id: UUID) -> BulkChange:
    import asyncio

    from posthouse import insights

    with progress_view("jobs") as bar:
        while True:
            bulk = await insights.get_bulk_change(db, bulk_id)
            left = 0 if bulk.total is None else bulk.total - bulk.retried - bulk.canceled - bulk.skipped
            bar.show(left, _describe(bulk))
            if not bulk.open:
                return bulk
            await asyncio.sleep(POLL_SECONDS)


def _describe(bulk: BulkChange) -> str:
    if bulk.total is None:
        return "collecting jobs"
    skipped = f", {bulk.skipped:,} skipped" if bulk.skipped else ""
    if bulk.action == "cancel":
        return f"{bulk.canceled:,} of {bulk.total:,} canceled{skipped}"
    return (
        f"{bulk.retried:,} of {bulk.total:,} retried{skipped}, "
        f"{bulk.succeeded:,} succeeded, {bulk.failed:,} failed again"
    )


def parse_ratio(text: str) -> float:
    """Parse a ratio: 20% or 0.2."""
    try:
        share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise UsageError(f"invalid --stop-at {text!r}: expected a ratio like 20% or 0.2")
    return share

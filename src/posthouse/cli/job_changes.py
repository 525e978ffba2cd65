"""Commands that retry or cancel jobs, by id or by filter."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import typer

from posthouse.cli.bulk import follow, share_of
from posthouse.cli.guarding import WrongUsage
from posthouse.cli.job_ids import HELP, find_job, job_reference
from posthouse.cli.options import caller, checked_usage, json_option
from posthouse.cli.output import say, show_json

if TYPE_CHECKING:
    from uuid import UUID

    from posthouse.core.filters import Filter, Wanted
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
    from posthouse.storage.control import retry_job

    if _by_filter(wanted, line):
        _refuse("only with job ids", fresh=fresh)
        with checked_usage():
            share = share_of(stop_at)
        found = _Found("retry", line or "", rate, tenant, limit, share)
        found.change(detach=detach, dry_run=dry_run, as_json=as_json)
    else:
        _refuse("only with --filter", tenant=tenant, limit=limit, detach=detach, dry_run=dry_run)
        _control(wanted or [], partial(retry_job, fresh=fresh), as_json=as_json)


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
    from posthouse.storage.control import cancel_job

    if _by_filter(wanted, line):
        found = _Found("cancel", line or "", rate, tenant, limit)
        found.change(detach=detach, dry_run=dry_run, as_json=as_json)
    else:
        _refuse("only with --filter", tenant=tenant, limit=limit, detach=detach, dry_run=dry_run)
        _control(wanted or [], cancel_job, as_json=as_json)


def _by_filter(wanted: list[str] | None, line: str | None) -> bool:
    if bool(wanted) == (line is not None):
        raise WrongUsage("no jobs selected: pass either job ids or --filter QUERY")
    return line is not None


def _refuse(when: str, **options: Any) -> None:
    """Reject options that would have no effect."""
    for name, value in options.items():
        if value:
            raise WrongUsage(f"--{name.replace('_', '-')} is allowed {when}")


@dataclass(frozen=True, slots=True)
class _Found:
    """A change of all jobs that match a filter."""

    action: Literal["retry", "cancel"]
    line: str
    rate: str
    tenant: str | None = None
    limit: int | None = None
    stop_share: float = 0.5

    def change(self, *, detach: bool, dry_run: bool, as_json: bool) -> None:
        from posthouse.cli.session import read
        from posthouse.core.filters import read_filter
        from posthouse.core.limit import rate_per_second

        with checked_usage():
            chosen, speed = read_filter(self.line), rate_per_second(self.rate)
        if not dry_run:
            follow(read(lambda db, _: self._start(db, chosen, speed)), detach=detach, as_json=as_json)
            return
        count = read(lambda db, _: self._count(db, chosen))
        if as_json:
            show_json({"jobs": count.count, "exact": count.exact})
        else:
            done = "retried" if self.action == "retry" else "canceled"
            say(f"{'' if count.exact else 'at least '}{count.count:,} jobs would be {done}")

    async def _count(self, db: Any, chosen: Filter) -> JobCount:
        from posthouse import insights

        async with db.transaction():
            search = await self._search(db, chosen)
            return await insights.count_to_change(db, search, self.limit)

    async def _start(self, db: Any, chosen: Filter, speed: float) -> UUID:
        from posthouse.core.filters import line_of
        from posthouse.storage.control import change_found

        named = {"q": line_of(chosen), "tenant": self.tenant, "limit": self.limit}
        async with db.transaction():
            search = await self._search(db, chosen)
            return await change_found(
                db, self.action, named, search.as_json(), rate=speed, stop_share=self.stop_share,
                actor=caller(),
            )  # fmt: skip

    async def _search(self, db: Any, chosen: Filter) -> Wanted:
        from posthouse import insights
        from posthouse.errors import InvalidRequest

        try:
            return await insights.search_to_change(db, self.action, chosen, tenant=self.tenant)
        except InvalidRequest as error:
            raise WrongUsage(str(error)) from None


def _control(wanted: list[str], act: Callable[..., Awaitable[str]], *, as_json: bool) -> None:
    """Apply the change to each job; report those that fail and change the others."""
    from posthouse.cli.session import read
    from posthouse.errors import PosthouseError

    references = [job_reference(text) for text in wanted]

    async def work(db: Any, _: Any) -> list[dict[str, Any]]:
        done: list[dict[str, Any]] = []
        for reference in references:
            job_id = reference
            try:
                job_id = await find_job(db, reference)
                done.append({"id": job_id, "status": await act(db, job_id, actor=caller())})
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
            say(f"{item['id']}  {item['status']}")
    if any("error" in item for item in done):
        raise typer.Exit(1)

"""posthouse enqueue: enqueue one job."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import typer

from posthouse.cli.database import checked_url
from posthouse.cli.guarding import UsageError
from posthouse.cli.options import as_usage_error, current_actor, json_object, json_option, number_or_name
from posthouse.cli.output import print_line, show_json
from posthouse.errors import JobFailed

if TYPE_CHECKING:
    from uuid import UUID

    from posthouse.client.client import Client, Handle
    from posthouse.core.request import Request
    from posthouse.settings import Settings


def enqueue(
    kind: str = typer.Argument(..., metavar="KIND", help="Job kind."),
    *,
    payload: str = typer.Option("{}", metavar="JSON", help="Payload, a JSON object; - reads stdin."),
    tenant: str = typer.Option("default", help="Tenant of the job."),
    queue: str | None = typer.Option(None, help="Queue. Default: the queue of the definition."),
    priority: str | None = typer.Option(
        None, metavar="N|NAME", help="Priority: a number (lower runs first), or urgent, high, normal, low."
    ),
    at: str | None = typer.Option(
        None, metavar="TIME", help="Earliest start, e.g. 2030-01-31T08:00Z; local time without a zone."
    ),
    delay: str | None = typer.Option(
        None, metavar="SPAN", help="Delay before the earliest start, e.g. 30s, 5m, 1h30m."
    ),
    dedupe: str | None = typer.Option(
        None, metavar="KEY", help="Dedupe key: if an active job has it, return that job instead."
    ),
    correlation: str | None = typer.Option(
        None, metavar="ID", help="Correlation id, e.g. of a run or a request."
    ),
    subject: str | None = typer.Option(None, help="Subject, e.g. a video, a call, a customer."),
    wait: bool = typer.Option(False, "--wait", help="Wait until the job finishes and print its result."),
    timeout: str | None = typer.Option(
        None, metavar="SPAN", help="Maximum time to wait, e.g. 30s (default: no limit)."
    ),
    as_json: bool = json_option(),
) -> None:
    """Enqueue a job and print its id.

    [b]Examples:[/b]

    posthouse enqueue welcome --payload '{"user_id": 7}'

    posthouse enqueue report --at 2030-01-31T08:00Z --dedupe report-january

    posthouse enqueue resize --payload - --wait < job.json
    """
    import asyncio

    from posthouse.core.duration import seconds
    from posthouse.core.request import Request, priority_number
    from posthouse.settings import load_settings

    with as_usage_error():
        request = Request(
            kind=kind,
            payload=json_object(payload),
            tenant=tenant,
            queue=queue,
            priority=None if priority is None else priority_number(number_or_name(priority)),
            at=_moment(at),
            delay=None if delay is None else seconds(delay),
            dedupe_key=dedupe,
            correlation_id=correlation,
            subject=subject,
            created_by=current_actor(),
        )
        limit = None if timeout is None else seconds(timeout)
    asyncio.run(_enqueue(request, load_settings(), wait=wait, timeout=limit, as_json=as_json))


async def _enqueue(
    request: Request, settings: Settings, *, wait: bool, timeout: float | None, as_json: bool
) -> None:
    import asyncio

    from posthouse.client.client import Client

    # Checked first, because the client would retry while the database is unreachable.
    url = await asyncio.to_thread(checked_url, settings)
    async with Client(settings=settings) as client:
        handle = await client.submit(request)
        answer: dict[str, Any] = {"id": handle.id, "outcome": handle.outcome}
        if not as_json:
            _show_receipt(handle)
            await _note_unknown_kind(request.kind, url)
        if wait:
            answer |= await _ending(client, handle.id, url, timeout)
    if as_json:
        show_json(answer)
    elif wait and answer["status"] == "succeeded":
        show_json(answer["result"])
    if wait and answer["status"] != "succeeded":
        detail = f": {answer['last_error']}" if answer["last_error"] else ""
        raise JobFailed(
            f"job {handle.id} finished as {answer['status']}{detail}; "
            f"see `posthouse jobs attempts {handle.id}`"
        )


def _show_receipt(handle: Handle) -> None:
    print_line(str(handle.id))
    if handle.outcome != "created":
        print_line("note: an active job has this dedupe key; this is its id", err=True, style="yellow")


async def _note_unknown_kind(kind: str, url: str) -> None:
    """Say if no worker has announced the kind: it may be misspelt, and the job would wait for ever."""
    from difflib import get_close_matches

    from posthouse.insights import definition_keys
    from posthouse.storage.connections import connect_async

    async with await connect_async(url, "cli") as connection:
        known = await definition_keys(connection)
    if kind not in known:
        near = get_close_matches(kind, known, n=1)
        print_line(
            f"note: no worker has announced the kind {kind!r} yet; "
            + (f"did you mean {near[0]!r}?" if near else "the job waits for a worker that does"),
            err=True,
            style="yellow",
        )


async def _ending(client: Client, job_id: UUID, url: str, timeout: float | None) -> dict[str, Any]:
    """Wait for the job and return how it finished."""
    from contextlib import suppress

    from posthouse.insights import get_job
    from posthouse.storage.connections import connect_async

    with suppress(JobFailed):  # the job row has more details
        await client.wait(job_id, timeout)
    async with await connect_async(url, "cli") as connection:
        job = await get_job(connection, job_id)
    return {"status": job.status, "result": job.result, "last_error": job.last_error}


def _moment(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(
            f"invalid --at {text!r}: expected a time like 2030-01-31T08:00Z or 2030-01-31T08:00+01:00; "
            "for a relative time use --delay"
        ) from None
    return moment.astimezone() if moment.tzinfo is None else moment

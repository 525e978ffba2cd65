"""Changes as they happen, as Server-Sent Events."""

from __future__ import annotations

from typing import Annotated, Literal
from uuid import UUID

from fastapi import Header, Query, Request

from posthouse.identity import Permission
from posthouse.server.access import Access, allow, principal_of
from posthouse.server.bodies import api_router
from posthouse.server.live import EVENTS, Streams, Wanted
from posthouse.server.live.stream import EventStream, Story

router = api_router("/stream", "stream")
Text = Annotated[str | None, Query(min_length=1, max_length=512)]
Kinds = Annotated[
    list[Literal["job", "log", "worker", "counters"]] | None,
    Query(description="Only these events; may be given several times."),
]
LastEventId = Annotated[
    str | None, Header(max_length=64, description="Of the last event seen: to go on from there.")
]


@router.get("", response_class=EventStream, status_code=200)
async def stream(
    request: Request,
    access: Annotated[Access, allow(Permission.JOBS_READ, of_tenants=True)],
    job: Annotated[UUID | None, Query(description="This job and its log, from the start.")] = None,
    correlation_id: Text = None,
    worker: Annotated[UUID | None, Query(description="Jobs that this worker has.")] = None,
    queue: Text = None,
    kind: Text = None,
    event: Kinds = None,
    log_after: Annotated[
        int, Query(ge=0, lt=2**63, description="With job: of its log only what comes after this sequence.")
    ] = 0,
    last_event_id: LastEventId = None,
) -> EventStream:
    """Changes as they happen: `job` (its line as in a list), `log` (with job=…), `counters` of queues,
    `worker` (for those who see all tenants). `overflow` and `reset` say that something was left out: load
    what is shown again. `closing` comes last.
    """
    wanted = Wanted(
        tenant=access.whose,
        job=job,
        correlation_id=correlation_id,
        worker=worker,
        queue=queue,
        kind=kind,
        events=frozenset(event or EVENTS),
    )
    streams: Streams = request.app.state.streams
    client = await streams.join(wanted, access.principal, lambda: principal_of(request))
    try:
        blocks = Story(client, access, last_event_id, log_after).blocks()
        first = await anext(blocks)  # what is wrong is answered as a problem, before the stream begins
    except BaseException:
        streams.leave(client)
        raise
    return EventStream(first, blocks, lambda: streams.leave(client))

"""The event stream: live changes as Server-Sent Events."""

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
    Query(description="Only events of this type; repeatable."),
]
LastEventId = Annotated[
    str | None, Header(max_length=64, description="Id of the last event received, to resume the stream.")
]


@router.get("", response_class=EventStream, status_code=200)
async def stream(
    request: Request,
    access: Annotated[Access, allow(Permission.JOBS_READ, of_tenants=True)],
    job: Annotated[UUID | None, Query(description="Only this job, with its log from the beginning.")] = None,
    correlation_id: Text = None,
    worker: Annotated[UUID | None, Query(description="Only jobs that run on this worker.")] = None,
    queue: Text = None,
    kind: Text = None,
    event: Kinds = None,
    log_after: Annotated[
        int, Query(ge=0, lt=2**63, description="With `job`: only log lines after this sequence.")
    ] = 0,
    last_event_id: LastEventId = None,
) -> EventStream:
    """Stream live changes as Server-Sent Events.

    Event types: `job` (the job as in a list), `log` (only with the `job` parameter), `counters` of queues,
    and `worker` (only for principals without a tenant). `overflow` and `reset` mean that events were dropped:
    reload the data. `closing` is the last event.
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
        first = await anext(blocks)  # errors become a problem response before the stream starts
    except BaseException:
        streams.leave(client)
        raise
    return EventStream(first, blocks, lambda: streams.leave(client))

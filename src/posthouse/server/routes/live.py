"""Live updates as Server-Sent Events: which events a client missed, and one stream per request."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Literal
from uuid import UUID

from fastapi import Header, Query, Request, Response
from pydantic_core import to_json
from starlette.types import Receive, Scope, Send

from posthouse import insights
from posthouse.errors import JobNotFound
from posthouse.identity import Permission
from posthouse.insights import live
from posthouse.server.http.auth import Access, allow, principal_of
from posthouse.server.http.field_names import body
from posthouse.server.http.requests import QueryText, api_router
from posthouse.server.live import EVENTS, StreamFilter, Subscriptions
from posthouse.server.live.subscriptions import StreamEvent, Subscription

SLOW_SECONDS = 30.0
"""How long a send may block before a slow client is disconnected."""
RESUME_WITHIN = timedelta(minutes=5)
MAX_REPLAYED = 1000
_ID = re.compile(r"(\d{1,17})(?:\.(\d{1,18}))?")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class EventId:
    """The event id: database time in microseconds and, for a log, the last line.

    Every server process can resume a stream from it.
    """

    at: int
    log: int = 0

    @classmethod
    def read(cls, text: str) -> EventId | None:
        match = _ID.fullmatch(text.strip())
        return None if match is None else cls(int(match[1]), int(match[2] or 0))

    @property
    def moment(self) -> datetime:
        return _EPOCH + timedelta(microseconds=self.at)

    def __str__(self) -> str:
        return f"{self.at}.{self.log}" if self.log else str(self.at)


class EventStream:
    """The events sent to one client."""

    def __init__(self, client: Subscription, access: Access, resume: str | None, log_after: int = 0) -> None:
        self._client = client
        self._access = access
        self._settings = access.authenticator.settings
        self._resume = resume
        self._log = log_after

    async def frames(self) -> AsyncGenerator[bytes, None]:
        retry = round(1000 * self._settings.sse_retry_seconds)
        yield f"retry: {retry}\n".encode() + self._written(await self._initial_events())
        while True:
            async for block in self._log_blocks():
                yield block
            events = await self._client.next_events(self._settings.sse_heartbeat_seconds)
            async for block in self._log_blocks():  # before the event that the job finished
                yield block
            if self._client.ending is not None:
                reason = to_json({"reason": self._client.ending})
                yield self._written([*events, StreamEvent("closing", reason)])
                return
            yield self._written(events) if events else b": here\n" + self._written([])

    async def _initial_events(self) -> list[StreamEvent]:
        """Return the first events for a new or a reconnecting client."""
        event_id = None if self._resume is None else EventId.read(self._resume)
        if event_id is not None:
            self._log = max(self._log, event_id.log)
        if self._client.wanted.job is not None:
            return await self._current_job()
        if self._resume is None:
            return []
        missed = None if event_id is None else await self._replay(event_id)
        return [StreamEvent("reset", b"{}")] if missed is None else missed

    async def _current_job(self) -> list[StreamEvent]:
        job = self._client.wanted.job
        assert job is not None
        async with self._access.transaction() as db:
            found = await live.changed_jobs(db, [job])
        if not found.jobs:
            raise JobNotFound(f"job {job} does not exist")
        self._client.log_end = max(self._client.log_end, self._log + 1)  # read the log at least once
        return [StreamEvent("job", body(item)) for item in found.jobs if self._client.wanted.matches(item)]

    async def _replay(self, event_id: EventId) -> list[StreamEvent] | None:
        """Return the current state of the jobs that changed since the event; None if that is unknown."""
        async with self._access.transaction() as db:
            at = await live.clock(db)
            if not at.now - RESUME_WITHIN < event_id.moment <= at.now:
                return None
            ids = await live.changed_since(db, event_id.moment, at, MAX_REPLAYED)
            if ids is None:
                return None
            since = event_id.moment - live.MAX_COMMIT_DELAY
            found = await live.changed_jobs(db, ids, ended_since=since, most=MAX_REPLAYED)
        return [StreamEvent("job", body(job)) for job in found.jobs if self._client.wanted.matches(job)]

    async def _log_blocks(self) -> AsyncIterator[bytes]:
        """Yield log lines not sent yet. They are read at the pace of the client, so none is skipped."""
        job = self._client.wanted.job
        while job is not None and self._client.wanted.log and self._log < self._client.log_end:
            async with self._access.transaction() as db:
                lines = await insights.read_log(db, job, after=self._log, limit=200)
            if not lines:
                self._client.log_end = self._log
                return
            blocks = []
            for line in lines:
                self._log = line.sequence
                blocks.append(self._written([StreamEvent("log", body(line))]))
            yield b"".join(blocks)

    def _written(self, events: list[StreamEvent]) -> bytes:
        """Encode events with the id to resume from; without events, the id alone."""
        event_id = str(EventId(self._client.at, self._log)).encode()
        if not events:
            return b"id: %s\n\n" % event_id
        return b"".join(
            b"event: %s\nid: %s\ndata: %s\n\n" % (event.name.encode(), event_id, event.data)
            for event in events
        )


class EventStreamResponse(Response):
    """Sends blocks until the stream ends, the client disconnects, or it reads too slowly."""

    media_type = "text/event-stream"

    def __init__(self, first: bytes, blocks: AsyncGenerator[bytes, None], on_end: Callable[[], None]) -> None:
        super().__init__(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._initial_events = first
        self._blocks = blocks
        self._on_end = on_end

    async def __call__(self, _: Scope, receive: Receive, send: Send) -> None:
        sending = asyncio.ensure_future(self._send_all(send))
        leaving = asyncio.ensure_future(_until_gone(receive))
        try:
            await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (sending, leaving):
                task.cancel()
            await asyncio.gather(sending, leaving, return_exceptions=True)
            await self._blocks.aclose()
            self._on_end()

    async def _send_all(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        with suppress(TimeoutError, OSError):
            await _send(send, self._initial_events)
            async for block in self._blocks:
                await _send(send, block)
            await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _send(send: Send, block: bytes) -> None:
    async with asyncio.timeout(SLOW_SECONDS):
        await send({"type": "http.response.body", "body": block, "more_body": True})


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


router = api_router("/stream", "stream")
Kinds = Annotated[
    list[Literal["job", "log", "worker", "counters"]] | None,
    Query(description="Only events of this type; repeatable."),
]
LastEventId = Annotated[
    str | None, Header(max_length=64, description="Id of the last event received, to resume the stream.")
]


@router.get("", response_class=EventStreamResponse, status_code=200)
async def stream(
    request: Request,
    access: Annotated[Access, allow(Permission.JOBS_READ, tenant_scoped=True)],
    job: Annotated[UUID | None, Query(description="Only this job, with its log from the beginning.")] = None,
    correlation_id: QueryText = None,
    worker: Annotated[UUID | None, Query(description="Only jobs that run on this worker.")] = None,
    queue: QueryText = None,
    kind: QueryText = None,
    event: Kinds = None,
    log_after: Annotated[
        int, Query(ge=0, lt=2**63, description="With `job`: only log lines after this sequence.")
    ] = 0,
    last_event_id: LastEventId = None,
) -> EventStreamResponse:
    """Stream live changes as Server-Sent Events.

    Event types: `job` (the job as in a list), `log` (only with the `job` parameter), `counters` of queues,
    and `worker` (only for principals without a tenant). `overflow` and `reset` mean that events were dropped:
    reload the data. `closing` is the last event.
    """
    wanted = StreamFilter(
        tenant=access.tenant,
        job=job,
        correlation_id=correlation_id,
        worker=worker,
        queue=queue,
        kind=kind,
        events=frozenset(event or EVENTS),
    )
    streams: Subscriptions = request.app.state.streams
    client = await streams.add(wanted, access.principal, lambda: principal_of(request))
    try:
        blocks = EventStream(client, access, last_event_id, log_after).frames()
        first = await anext(blocks)  # errors become a problem response before the stream starts
    except BaseException:
        streams.remove(client)
        raise
    return EventStreamResponse(first, blocks, lambda: streams.remove(client))

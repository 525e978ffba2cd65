"""Publication of changes of jobs and workers on Redis Pub/Sub, for processes other than this server.

One server of the installation publishes, and only while there are subscribers. The event streams of this API
do not depend on it: each server reads changes from Postgres.

- ``progress:{id}``: the job was queued, started, made progress or waits for a retry.
- ``complete:{id}``: the job ended.
- ``worker_status``: a worker came, left, or changed its status.

An application can name a second channel for each event of a job: ``App(channel=...)``.

The messages are the JSON objects of the events ``job`` and ``worker`` of the event stream, for all tenants.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator, Sequence
from uuid import uuid4

from pydantic_core import from_json

from posthouse.app import Channel
from posthouse.dispatch import NOTIFICATIONS_CHANNEL, HintStreams, Redis
from posthouse.dispatch.connection import Breaker
from posthouse.errors import PosthouseError, RedisUnavailable
from posthouse.identity import Principal, Role
from posthouse.server.live.streams import Subscriptions
from posthouse.server.live.subscriptions import StreamEvent, StreamFilter

_log = logging.getLogger("posthouse.server")

LEASE = "{posthouse}:publisher"
LEASE_SECONDS = 3.0
POLL_SECONDS = 1.0
ACTIVE = {"queued", "running"}


class Publisher:
    def __init__(self, streams: Subscriptions, redis: Redis, channels: Sequence[Channel] = ()) -> None:
        self._channels = channels
        self._streams = streams
        self._redis = redis
        self._hints = HintStreams(redis)
        self._id = uuid4().hex[:12]
        self._breaker = Breaker()
        self._principal = Principal(name="publisher", role=Role.SUPER_ADMIN, tenant=None)

    async def run(self) -> None:
        """Publish until canceled."""
        while True:
            try:
                if await self._leads() and await self._has_subscribers():
                    await self._publish()
                self._breaker.succeeded()
                pause = POLL_SECONDS
            except RedisUnavailable as error:
                pause = self._breaker.failed()
                if self._breaker.failures == 1:
                    _log.warning("live updates are not published: %s", error)
            except PosthouseError as error:
                _log.debug("live updates are not published: %s", error)
                pause = POLL_SECONDS
            await asyncio.sleep(pause)

    async def _leads(self) -> bool:
        return await self._hints.acquire_lease(self._id, LEASE_SECONDS, LEASE)

    async def _has_subscribers(self) -> bool:
        client = self._redis.client
        if await self._redis.run(client.pubsub_numpat()):
            return True
        return bool({*await self._redis.run(client.pubsub_channels())} - {NOTIFICATIONS_CHANNEL})

    async def _publish(self) -> None:
        wanted = StreamFilter(tenant=None, events=frozenset({"job", "worker"}))
        client = await self._streams.add(wanted, self._principal, self._recheck)
        try:
            while await self._leads() and await self._has_subscribers():
                await self._send(await client.next_events(POLL_SECONDS))
        finally:
            self._streams.remove(client)

    async def _recheck(self) -> Principal:
        return self._principal

    async def _send(self, events: Iterable[StreamEvent]) -> None:
        messages = [(channel, event.data) for event in events for channel in self._channels_of(event)]
        if messages:
            await self._hints.publish(messages)

    def _channels_of(self, event: StreamEvent) -> Iterator[str]:
        if event.name == "worker":
            yield "worker_status"
        if event.name != "job":
            return
        job = from_json(event.data)
        change = "progress" if job["status"] in ACTIVE else "complete"
        yield f"{change}:{job['id']}"
        for channel in self._channels:
            try:
                name = channel(change, job)
            except Exception:  # noqa: BLE001 - code of the application
                _log.exception("the function App(channel=...) failed job=%s", job["id"])
                continue
            if name is not None:
                yield name

    async def close(self) -> None:
        await self._redis.close()

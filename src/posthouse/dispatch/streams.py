"""The streams: one for each queue and priority level. An entry is a hint that jobs of this queue are ready.

Workers with the same kinds and capabilities form a consumer group, so that a hint wakes one of them. Workers
that differ are in different groups, and each group gets every hint: a hint is never used up by a worker
that cannot run the job.

All keys have the same hash tag, so that a Redis Cluster keeps them together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from posthouse.dispatch.connection import MissingGroup, Redis

PREFIX = "{posthouse}"
LEASE = f"{PREFIX}:relay"
LEVELS = ("high", "normal", "low")
LONGEST_STREAM = 1000
"""Entries per stream. More hints than workers are of no use, however many jobs are ready."""
STREAM_SECONDS = 86_400
"""Streams of queues without jobs are deleted after this time."""
DEAD_SECONDS = 600.0
"""Consumers that have not read for this long are removed."""


class Key(NamedTuple):
    queue: str
    level: str

    @property
    def stream(self) -> str:
        return f"{PREFIX}:{self.level}:{self.queue}"


class Hint(NamedTuple):
    stream: str
    id: str


class Streams:
    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    async def lead(self, holder: str, seconds: float, lease: str = LEASE) -> bool:
        """Take or renew a lease, by default that of the relay. Return whether this holder has it."""
        client, milliseconds = self._redis.client, int(seconds * 1000)
        if await self._redis.run(client.set(lease, holder, nx=True, px=milliseconds)):
            return True
        if await self._redis.run(client.get(lease)) != holder:
            return False
        await self._redis.run(client.pexpire(lease, milliseconds))
        return True

    async def resign(self, relay: str) -> None:
        client = self._redis.client
        if await self._redis.run(client.get(LEASE)) == relay:
            await self._redis.run(client.delete(LEASE))

    async def add(self, hints: Mapping[Key, int]) -> None:
        pipe = self._redis.client.pipeline(transaction=False)
        for key, count in hints.items():
            for _ in range(count):
                pipe.xadd(key.stream, {"queue": key.queue}, maxlen=LONGEST_STREAM, approximate=True)
            pipe.expire(key.stream, STREAM_SECONDS)
        await self._redis.run(pipe.execute())

    async def unread(self, keys: Sequence[Key]) -> dict[Key, int]:
        """Return the number of hints that the quickest group of each stream has not handled yet."""
        found = await self._of_each("xinfo_groups", [(key.stream,) for key in keys])
        return {key: _unread(groups) for key, groups in zip(keys, found, strict=True)}

    async def join(self, group: str, consumer: str, keys: Sequence[Key]) -> None:
        """Create the group in each stream, for hints from now on, and its consumer."""
        found = await self._of_each("xinfo_stream", [(key.stream,) for key in keys])
        pipe = self._redis.client.pipeline(transaction=False)
        for key, stream in zip(keys, found, strict=True):
            pipe.xgroup_create(key.stream, group, mkstream=True, **_end_of(stream))
            pipe.xgroup_createconsumer(key.stream, group, consumer)
            pipe.expire(key.stream, STREAM_SECONDS)
        await self._redis.run(pipe.execute(raise_on_error=False))  # the group may exist in some

    async def read(
        self, group: str, consumer: str, keys: Iterable[Key], block: int | None = None
    ) -> list[Hint]:
        """Return at most one hint of each stream; wait up to ``block`` milliseconds for the first."""
        streams = {key.stream: ">" for key in keys}
        found = await self._redis.run(
            self._redis.client.xreadgroup(group, consumer, streams, count=1, block=block)
        )
        return [Hint(stream, entry[0]) for stream, entries in found for entry in entries]

    async def handled(self, group: str, hints: Iterable[Hint]) -> None:
        pipe = self._redis.client.pipeline(transaction=False)
        for hint in hints:
            pipe.xack(hint.stream, group, hint.id)
        await self._redis.run(pipe.execute())

    async def leave(self, group: str, consumer: str, keys: Iterable[Key]) -> None:
        pipe = self._redis.client.pipeline(transaction=False)
        for key in keys:
            pipe.xgroup_delconsumer(key.stream, group, consumer)
        await self._redis.run(pipe.execute(raise_on_error=False))

    async def reclaim(self, relay: str, keys: Sequence[Key], idle_seconds: float) -> dict[Key, int]:
        """Take over hints that a consumer read and did not acknowledge in time, because it died or is busy.

        Return how many there were in each stream, to be added again. Also remove dead consumers.
        """
        taken: dict[Key, int] = {}
        groups = await self._of_each("xinfo_groups", [(key.stream,) for key in keys])
        for key, found in zip(keys, groups, strict=True):
            for group in found:
                try:
                    count = await self._reclaim_group(relay, key, group, idle_seconds)
                except MissingGroup:
                    continue
                if count:
                    taken[key] = max(taken.get(key, 0), count)
        return taken

    async def _reclaim_group(
        self, relay: str, key: Key, group: Mapping[str, Any], idle_seconds: float
    ) -> int:
        client, name = self._redis.client, str(group["name"])
        count = 0
        if group["pending"]:
            idle = int(idle_seconds * 1000)
            ids = await self._redis.run(
                client.xautoclaim(key.stream, name, relay, idle, count=100, justid=True)
            )
            count = len(ids)
            if ids:
                await self._redis.run(client.xack(key.stream, name, *ids))
        await self._remove_dead(key, name)
        return count

    async def _remove_dead(self, key: Key, group: str) -> None:
        client = self._redis.client
        consumers = await self._redis.run(client.xinfo_consumers(key.stream, group))
        dead = [
            item["name"] for item in consumers if item["idle"] > DEAD_SECONDS * 1000 and not item["pending"]
        ]
        for name in dead:
            await self._redis.run(client.xgroup_delconsumer(key.stream, group, name))
        if consumers and len(dead) == len(consumers):
            await self._redis.run(client.xgroup_destroy(key.stream, group))

    async def _of_each(self, command: str, arguments: Sequence[Sequence[Any]]) -> list[Any]:
        """Run the command for each; an empty list where the stream does not exist."""
        if not arguments:
            return []
        pipe = self._redis.client.pipeline(transaction=False)
        for each in arguments:
            getattr(pipe, command)(*each)
        found = await self._redis.run(pipe.execute(raise_on_error=False))
        return [[] if isinstance(item, Exception) else item for item in found]


def _unread(groups: Sequence[Mapping[str, Any]]) -> int:
    """Redis before version 7 does not report the lag of a group."""
    return min(
        (int(group.get("lag") or 0) + int(group["pending"]) for group in groups if group["consumers"]),
        default=0,
    )


def _end_of(stream: Mapping[str, Any]) -> dict[str, Any]:
    """Return where a new group starts. With the number of entries so far, Redis can report its lag."""
    if not stream or "entries-added" not in stream:
        return {"id": "$"}
    return {"id": stream["last-generated-id"], "entries_read": stream["entries-added"]}

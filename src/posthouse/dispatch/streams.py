"""The streams of hints: one for each queue and priority level. A hint says that jobs of its queue are ready.

Workers with the same kinds and capabilities form a consumer group, so that a hint wakes one of them. Workers
that differ are in different groups, and each group gets every hint: a hint is never used up by a worker
that cannot run the job.

All keys have the same hash tag, so that a Redis Cluster keeps them together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from posthouse.dispatch.connection import RESPONSE_SECONDS, Command, Redis, RedisConnection

PREFIX = "{posthouse}"
LEASE = f"{PREFIX}:relay"
LISTENING = f"{PREFIX}:listening"
"""Set while the relay listens in Postgres and forwards the notifications that running workers need."""
JOINED = f"{PREFIX}:joined"
"""Changes whenever a consumer joins, so that the relay checks which queues have workers."""
NOTIFICATIONS_CHANNEL = f"{PREFIX}:notifications"
"""The channel on which the relay forwards the notifications of Postgres that running workers need."""
LEVELS = ("high", "normal", "low")
MAX_STREAM_ENTRIES = 1000
"""Maximum number of entries per stream. More hints than workers have no use, even if more jobs are ready."""
STREAM_SECONDS = 86_400
"""Streams of queues without jobs are deleted after this time."""
DEAD_SECONDS = 600.0
"""Consumers that have not read for this long are removed."""


class MissingGroup(Exception):
    """The stream or its consumer group does not exist: Redis is new, or was flushed."""


class Key(NamedTuple):
    queue: str
    level: str

    @property
    def stream(self) -> str:
        return f"{PREFIX}:{self.level}:{self.queue}"


class Hint(NamedTuple):
    stream: str
    id: str


class Unhandled(NamedTuple):
    """How many hints of a stream no consumer has read, and how many were read and not acknowledged."""

    unread: int
    pending: int


class HintStreams:
    """The requests of one task to the streams, over one connection."""

    def __init__(self, redis: Redis) -> None:
        self._connection = RedisConnection(redis, LEASE)

    async def acquire_lease(self, holder: str, seconds: float, lease: str = LEASE) -> bool:
        """Take or renew a lease, by default that of the relay. Return whether this holder has it."""
        milliseconds = int(seconds * 1000)
        was_set, found = await self._connection.request(
            ("SET", lease, holder, "NX", "PX", milliseconds), ("GET", lease)
        )
        holds = bool(found == holder)
        if holds and not was_set:
            await self._connection.request(("PEXPIRE", lease, milliseconds))
        return holds

    async def release_lease(self, relay: str) -> None:
        if (await self.relay())[0] == relay:
            await self._connection.request(("DEL", LEASE, LISTENING))

    async def relay(self) -> tuple[str | None, bool]:
        """Return the relay that holds the lease, and whether it listens in Postgres."""
        relay, listens = await self._connection.request(("GET", LEASE), ("GET", LISTENING))
        return relay, bool(relay and listens)

    async def set_listening(self, seconds: float) -> None:
        """Record that the relay listens in Postgres."""
        await self._connection.request(("SET", LISTENING, 1, "PX", int(seconds * 1000)))

    async def joined(self) -> str | None:
        """Return a text that changes when consumers join or Redis is flushed."""
        (found,) = await self._connection.request(("GET", JOINED))
        return None if found is None else str(found)

    async def publish(self, messages: Iterable[tuple[str, str | bytes]]) -> None:
        """Publish messages, each given with its channel."""
        await self._connection.request(*(("PUBLISH", channel, text) for channel, text in messages))

    async def server_info(self) -> dict[str, str]:
        """Return the fields of INFO about the server and its memory."""
        found = await self._connection.request(("INFO", "server"), ("INFO", "memory"))
        lines = (line.partition(":") for text in found for line in str(text).splitlines())
        return {name: value for name, _, value in lines}

    async def add(self, hints: Mapping[Key, int]) -> None:
        commands: list[Command] = []
        for key, count in hints.items():
            entry = ("XADD", key.stream, "MAXLEN", "~", MAX_STREAM_ENTRIES, "*", "queue", key.queue)
            commands += [entry] * count
            commands.append(("EXPIRE", key.stream, STREAM_SECONDS))
        await self._connection.request(*commands)

    async def unhandled(self, keys: Sequence[Key]) -> dict[Key, Unhandled]:
        """Return, for each stream, the hints that its fastest group has not handled yet."""
        found = await self._groups(keys)
        return {key: _min_unhandled(groups) for key, groups in zip(keys, found, strict=True)}

    async def join(self, group: str, consumer: str, keys: Sequence[Key]) -> None:
        """Create the group in each stream, for hints from now on, and its consumer."""
        found = await self._request_if_exists(*(("XINFO", "STREAM", key.stream) for key in keys))
        commands: list[Command] = []
        for key, stream in zip(keys, found, strict=True):
            commands += [
                ("XGROUP", "CREATE", key.stream, group, *_group_start(_to_dict(stream))),
                ("XGROUP", "CREATECONSUMER", key.stream, group, consumer),
                ("EXPIRE", key.stream, STREAM_SECONDS),
            ]
        await self._connection.request(*commands, ("INCR", JOINED), ("EXPIRE", JOINED, STREAM_SECONDS))

    async def read(self, group: str, consumer: str, keys: Iterable[Key], milliseconds: int = 0) -> list[Hint]:
        """Return at most one hint of each stream, in order. Wait up to ``milliseconds`` for the first."""
        streams = [key.stream for key in keys]
        block = ("BLOCK", milliseconds) if milliseconds else ()
        seconds = max(RESPONSE_SECONDS, milliseconds / 1000 + RESPONSE_SECONDS / 2)
        (found,) = await self._connection.request(
            (
                "XREADGROUP",
                "GROUP",
                group,
                consumer,
                "COUNT",
                1,
                *block,
                "STREAMS",
                *streams,
                *">" * len(streams),
            ),
            seconds=seconds,
        )
        if isinstance(found, Exception):
            raise MissingGroup from found
        return [Hint(stream, entry[0]) for stream, entries in found or () for entry in entries]

    async def acknowledge(self, group: str, hints: Iterable[Hint]) -> None:
        await self._connection.send(*(("XACK", hint.stream, group, hint.id) for hint in hints))

    async def leave(self, group: str, consumer: str, keys: Iterable[Key]) -> None:
        await self._request_if_exists(
            *(("XGROUP", "DELCONSUMER", key.stream, group, consumer) for key in keys)
        )

    async def reclaim(self, relay: str, keys: Sequence[Key], idle_seconds: float) -> dict[Key, int]:
        """Take over hints that a consumer read and did not acknowledge in time, because it died or is busy.

        Return the number of such hints in each stream. The caller adds them again.
        """
        reclaimed: dict[Key, int] = {}
        for key, groups in zip(keys, await self._groups(keys), strict=True):
            for group in groups:
                if group["pending"]:
                    count = await self._reclaim(relay, key, str(group["name"]), idle_seconds)
                    reclaimed[key] = max(reclaimed.get(key, 0), count)
        return {key: count for key, count in reclaimed.items() if count}

    async def _reclaim(self, relay: str, key: Key, group: str, idle_seconds: float) -> int:
        (found,) = await self._request_if_exists(
            ("XAUTOCLAIM", key.stream, group, relay, int(idle_seconds * 1000), "0", "COUNT", 100, "JUSTID")
        )
        ids = found[1] if found else []
        if ids:
            await self._connection.request(("XACK", key.stream, group, *ids))
        return len(ids)

    async def remove_dead(self, keys: Sequence[Key]) -> None:
        """Remove consumers that no longer read, and groups without other consumers."""
        for key, groups in zip(keys, await self._groups(keys), strict=True):
            for group in groups:
                await self._remove_dead(key, str(group["name"]))

    async def _remove_dead(self, key: Key, group: str) -> None:
        (found,) = await self._request_if_exists(("XINFO", "CONSUMERS", key.stream, group))
        consumers = [_to_dict(item) for item in found]
        dead = [
            item["name"] for item in consumers if item["idle"] > DEAD_SECONDS * 1000 and not item["pending"]
        ]
        commands: list[Command] = [("XGROUP", "DELCONSUMER", key.stream, group, name) for name in dead]
        if consumers and len(dead) == len(consumers):
            commands.append(("XGROUP", "DESTROY", key.stream, group))
        await self._request_if_exists(*commands)

    async def _groups(self, keys: Sequence[Key]) -> list[list[dict[str, Any]]]:
        found = await self._request_if_exists(*(("XINFO", "GROUPS", key.stream) for key in keys))
        return [[_to_dict(group) for group in groups] for groups in found]

    async def _request_if_exists(self, *commands: Command) -> list[Any]:
        """Send the commands. The response is an empty list if the stream or the group does not exist."""
        if not commands:
            return []
        found = await self._connection.request(*commands)
        return [[] if isinstance(item, Exception) else item for item in found]

    async def close(self) -> None:
        await self._connection.close()


def _to_dict(flat: Sequence[Any]) -> dict[str, Any]:
    """Return the dictionary that Redis sends as a list of names and values."""
    return dict(zip(flat[::2], flat[1::2], strict=True))


def _min_unhandled(groups: Sequence[Mapping[str, Any]]) -> Unhandled:
    """Return the hints that the fastest group has not handled. Before version 7, Redis reports no lag."""
    found = (
        Unhandled(int(group.get("lag") or 0), int(group["pending"])) for group in groups if group["consumers"]
    )
    return min(found, key=sum, default=Unhandled(0, 0))


def _group_start(stream: Mapping[str, Any]) -> Command:
    """Return where a new group starts. With the number of entries so far, Redis can report its lag."""
    if "entries-added" not in stream:
        return ("$", "MKSTREAM")
    return (stream["last-generated-id"], "MKSTREAM", "ENTRIESREAD", stream["entries-added"])


CHANNELS = ("posthouse_cancel", "posthouse_definitions")
GAP = "gap"
"""Sent when the relay has begun to listen: it may have missed notifications."""


class RelayedNotifications:
    """The notifications that the relay forwards."""

    def __init__(self, redis: Redis) -> None:
        self._connection = RedisConnection(redis, NOTIFICATIONS_CHANNEL)

    async def follow(self, on_notification: Callable[[str, str], None], on_gap: Callable[[], None]) -> None:
        """Call ``on_notification`` with channel and payload of each message, until Redis fails.

        ``on_gap`` is called when messages may have been missed: at the start, and after a gap.
        """
        async for message in self._connection.messages(NOTIFICATIONS_CHANNEL):
            if message is None or message == GAP:
                on_gap()
            else:
                channel, _, payload = message.partition(" ")
                on_notification(channel, payload)

    async def close(self) -> None:
        """End ``follow``."""
        await self._connection.close()

"""The status of a worker process, in memory that it shares with its supervisor.

The supervisor reads the memory directly, because a process whose interpreter is blocked could not respond.
Times are of the monotonic clock, which all processes of a machine share.
"""

from __future__ import annotations

import functools
import mmap
import os
import struct
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeVar
from uuid import UUID

from posthouse.worker.attempt import Attempt
from posthouse.worker.contexts import stepped

T = TypeVar("T")

_ID = 16
_MAX_IDS = 64
_MAX_THREADS = 512
_TIME = struct.Struct("d")
_NUMBER = struct.Struct("Q")
_ALIVE, _LOOP, _BEAT, _DEADLINE, _SLOTS = 0, 8, 16, 24, 64
_COUNT, _IDS = 8, 16
_SLOT = _IDS + _ID * _MAX_IDS
SIZE = _SLOTS + _SLOT * _MAX_THREADS


class SharedStatus:
    """The shared memory.

    It has one slot for each thread that runs handlers; the first slot is that of the event loop. A slot holds
    the id of the thread and the ids of the jobs whose handler runs in the thread at this moment.
    """

    def __init__(self, descriptor: int) -> None:
        self._map = mmap.mmap(descriptor, SIZE)
        self._local = threading.local()
        self._taken = 0
        self._lock = threading.Lock()

    def close(self) -> None:
        self._map.close()

    @property
    def alive_at(self) -> float:
        """When a thread of the process last ran; 0 before the process has started."""
        return self._time(_ALIVE)

    @property
    def loop_at(self) -> float:
        """When the event loop last ran."""
        return self._time(_LOOP)

    @property
    def beat_at(self) -> float:
        """When the thread that renews leases last ran."""
        return self._time(_BEAT)

    @property
    def deadline(self) -> float:
        """When the first of the running jobs exceeds its timeout."""
        return self._time(_DEADLINE)

    def _time(self, offset: int) -> float:
        (value,) = _TIME.unpack_from(self._map, offset)
        return float(value)

    def running(self) -> dict[int, list[UUID]]:
        """Return the jobs whose handlers run at this moment, by thread; the event loop first."""
        found: dict[int, list[UUID]] = {}
        for start in range(_SLOTS, SIZE, _SLOT):
            (thread,) = _NUMBER.unpack_from(self._map, start)
            if not thread:
                break
            ids = start + _IDS
            count = self._map[start + _COUNT]
            found[thread] = [UUID(bytes=self._map[ids + i * _ID : ids + (i + 1) * _ID]) for i in range(count)]
        return found

    def update(self, *, beat_at: float, deadline: float) -> None:
        """Record that the process runs."""
        _TIME.pack_into(self._map, _BEAT, beat_at)
        _TIME.pack_into(self._map, _DEADLINE, deadline)
        _TIME.pack_into(self._map, _ALIVE, time.monotonic())

    def note_loop(self) -> None:
        """Record that the event loop runs."""
        _TIME.pack_into(self._map, _LOOP, time.monotonic())

    def take_slot(self) -> int:
        """Return the slot of this thread, taking one if necessary; 0 if none is left."""
        slot: int | None = getattr(self._local, "slot", None)
        if slot is None:
            with self._lock:
                slot = _SLOTS + _SLOT * self._taken if self._taken < _MAX_THREADS else 0
                self._taken += 1
            self._local.slot = slot
            if slot:
                _NUMBER.pack_into(self._map, slot, threading.get_native_id())
        return slot

    def in_thread(
        self, attempts: Sequence[Attempt], call: Callable[..., T], *args: Any, **keywords: Any
    ) -> T:
        """Call a handler in this thread, and show its jobs while it runs."""
        slot = self.take_slot()
        if not slot:
            return call(*args, **keywords)
        self._enter(slot, _ids(attempts))
        try:
            return call(*args, **keywords)
        finally:
            self._map[slot + _COUNT] = 0

    def _enter(self, slot: int, ids: bytes) -> None:
        self._map[slot + _IDS : slot + _IDS + len(ids)] = ids
        self._map[slot + _COUNT] = len(ids) // _ID

    def in_loop(self, attempts: Sequence[Attempt], handler: Coroutine[Any, Any, T]) -> Awaitable[T]:
        """Await a handler, and show its jobs during each of its steps."""
        return stepped(handler, functools.partial(self._noted, _ids(attempts)))

    def _noted(self, ids: bytes, step: Callable[..., Any], *arguments: Any) -> Any:
        self._enter(_SLOTS, ids)
        try:
            return step(*arguments)
        finally:
            self._map[_SLOTS + _COUNT] = 0


def _ids(attempts: Sequence[Attempt]) -> bytes:
    return b"".join(attempt.row.id for attempt in attempts[:_MAX_IDS])


def shared_memory() -> int:
    """Return a descriptor of memory for a SharedStatus."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("posthouse-status")
    else:  # macOS
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    os.truncate(descriptor, SIZE)
    return descriptor

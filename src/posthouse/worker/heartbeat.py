"""Renew leases from a separate thread and connection.

Neither a handler that blocks the event loop nor an exhausted pool can stop it. If possible, the connection
holds the worker's liveness lock.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress

from posthouse.core.outcome import TimedOut
from posthouse.errors import PosthouseError
from posthouse.waiting import Backoff
from posthouse.worker.attempt import Attempt
from posthouse.worker.backend import REFUSED, LeaseTiming, Pulse

_log = logging.getLogger("posthouse.worker")

INTERRUPT = signal.SIGUSR2
TICK_SECONDS = 0.1
"""How often a blocked event loop is looked for while the worker has jobs."""
IDLE_TICK_SECONDS = 1.0
"""And without jobs: the first one that blocks the loop may exceed its timeout by this much more."""
BROKEN: tuple[type[Exception], ...] = (*REFUSED, PosthouseError)
SHUTDOWN = {"57P01", "57P02", "57P03"}
"""SQLSTATEs of a Postgres shutdown: admin_shutdown, crash_shutdown, cannot_connect_now."""


class Heartbeat(threading.Thread):
    def __init__(
        self,
        connect: Callable[[], AbstractContextManager[Pulse]],
        held: Mapping[str, Attempt],
        loop: asyncio.AbstractEventLoop,
        *,
        on_verdict: Callable[[Attempt, str], None],
        on_drain: Callable[[], None],
        on_sight: Callable[[], None],
        heartbeat_seconds: float,
        lease_seconds: float,
    ) -> None:
        """The callbacks are called in the loop, ``on_sight`` when ``alone_since`` has changed."""
        super().__init__(name="posthouse-heartbeat", daemon=True)
        self._connect = connect
        self._held = held
        self._loop = loop
        self._on_verdict = on_verdict
        self._on_drain = on_drain
        self._on_sight = on_sight
        self._interval = heartbeat_seconds
        self._timing = LeaseTiming(lease_seconds)
        self._stopping = threading.Event()
        self._asked = False
        self._waker: socket.socket | None = None
        self._next = 0.0
        self.beats = 0
        self.ran_at = time.monotonic()
        """When this thread last ran, whether or not it could renew leases."""
        self._seen = False
        self.can_interrupt = False
        self.alone_since: float | None = None
        """When the liveness lock was lost without a Postgres shutdown. Keepers may then declare this worker
        dead. While Postgres itself is down, no worker is declared dead, so that is not counted.
        """

    def beat_now(self) -> None:
        self._asked = True
        self._wake()

    def stop(self) -> None:
        self._stopping.set()
        self._wake()

    def _wake(self) -> None:
        if self._waker is not None:
            with suppress(OSError):  # full: it is about to wake; closed: it has ended
                self._waker.send(b"!")

    def run(self) -> None:
        wakeup, self._waker = socket.socketpair()
        with wakeup, self._waker:
            wakeup.setblocking(False)
            self._waker.setblocking(False)
            self._run(wakeup)

    def _run(self, wakeup: socket.socket) -> None:
        backoff = Backoff()
        while not self._stopping.is_set():
            self.ran_at = time.monotonic()
            try:
                with self._connect() as pulse:
                    if pulse.watched:
                        self._seen = True
                        self._note_alone(None)
                    if not self._stopping.is_set():
                        self._beat(pulse)
                    backoff.reset()
                    self._beat_until_stopped(pulse, wakeup)
            except BROKEN as error:
                if self._seen and getattr(error, "sqlstate", None) not in SHUTDOWN:
                    self._note_alone(time.monotonic())
                self._seen = False
                self._asked = True  # what was asked before may have been lost
                if not backoff.failures:
                    _log.warning("heartbeat failed, retrying: %s", str(error).strip())
                self._stopping.wait(backoff.next())

    def _note_alone(self, since: float | None) -> None:
        changed = (since is None) != (self.alone_since is None)
        self.alone_since = since
        if changed:
            with suppress(RuntimeError):  # the loop is closing
                self._loop.call_soon_threadsafe(self._on_sight)

    def _beat_until_stopped(self, pulse: Pulse, wakeup: socket.socket) -> None:
        while not self._stopping.is_set():
            tick = TICK_SECONDS if self._held else IDLE_TICK_SECONDS
            pulse.wait(wakeup.fileno(), 0.0 if self._asked else min(tick, self._next - time.monotonic()))
            self.ran_at = time.monotonic()
            with suppress(BlockingIOError):
                wakeup.recv(4096)
            asked, self._asked = self._asked, False
            self._interrupt_blocked_loop()
            if (asked or time.monotonic() >= self._next) and not self._stopping.is_set():
                self._beat(pulse, everything=asked)

    def _beat(self, pulse: Pulse, *, everything: bool = False) -> None:
        """Renew the leases that were not renewed recently. Jobs shorter than the interval never cost a
        renewal.
        """
        started = time.monotonic()
        self._next = started + self._interval
        expires = self._timing.expires(started)
        fresh = expires - self._interval / 2
        attempts = [
            attempt
            for attempt in list(self._held.values())
            if not attempt.is_finished and (everything or attempt.lease_expires_at < fresh)
        ]
        verdicts = pulse.beat(
            [attempt.hex_id for attempt in attempts], [attempt.hex_token for attempt in attempts]
        )
        not_renewed = {hex_id for hex_id, verdict in verdicts if verdict in {"lost", "busy"}}
        for attempt in attempts:
            if attempt.hex_id not in not_renewed:
                attempt.lease_expires_at = expires
        self.beats += 1
        by_id = {attempt.hex_id: attempt for attempt in attempts}
        with suppress(RuntimeError):  # the loop is closing
            for hex_id, verdict in verdicts:
                if verdict == "drain":
                    self._loop.call_soon_threadsafe(self._on_drain)
                elif verdict != "busy":
                    self._loop.call_soon_threadsafe(self._on_verdict, by_id[hex_id], verdict)

    def _interrupt_blocked_loop(self) -> None:
        """Stop a handler that blocks the event loop beyond its timeout; the loop itself cannot."""
        if self.can_interrupt and self._blocking_job() is not None:
            signal.pthread_kill(threading.main_thread().ident or 0, INTERRUPT)

    def _blocking_job(self) -> Attempt | None:
        task = asyncio.current_task(self._loop)
        if task is None:
            return None
        for attempt in list(self._held.values()):
            if (
                attempt.task is task
                and attempt.deadline
                and attempt.deadline + 2 * TICK_SECONDS < time.monotonic()
            ):
                return attempt
        return None


def install_interrupt(loop: asyncio.AbstractEventLoop, held: Mapping[str, Attempt]) -> bool:
    """Let the heartbeat thread raise TimedOut in a handler that blocks the main thread.

    Returns False in another thread, where signals do not arrive; without a handler they would kill the
    process.
    """

    def interrupt(*_: object) -> None:
        task = asyncio.current_task(loop)
        now = time.monotonic()
        for attempt in list(held.values()):
            if (
                attempt.task is task
                and attempt.deadline
                and attempt.deadline < now
                and attempt.stop_reason is None
            ):
                raise TimedOut("the handler blocked the event loop past its timeout")

    if threading.current_thread() is not threading.main_thread():
        return False
    signal.signal(INTERRUPT, interrupt)
    return True

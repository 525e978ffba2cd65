"""Renew leases from a separate thread and connection.

Neither a handler that blocks the event loop nor an exhausted pool can stop the renewal. If possible, the
connection holds the worker's liveness lock.
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
from posthouse.worker.backend import REJECTED, HeartbeatConnection, LeaseTiming

_log = logging.getLogger("posthouse.worker")

INTERRUPT_SIGNAL = signal.SIGUSR2
TICK_SECONDS = 0.1
"""How often the thread checks for a blocked event loop while the worker has jobs."""
IDLE_TICK_SECONDS = 1.0
"""The same without jobs. The first job that blocks the loop may exceed its timeout by this much more."""
CONNECTION_ERRORS: tuple[type[Exception], ...] = (*REJECTED, PosthouseError)
SHUTDOWN_SQLSTATES = {"57P01", "57P02", "57P03"}
"""SQLSTATEs of a Postgres shutdown: admin_shutdown, crash_shutdown, cannot_connect_now."""


class Heartbeat(threading.Thread):
    """The thread that renews the leases of a worker."""

    def __init__(
        self,
        connect: Callable[[], AbstractContextManager[HeartbeatConnection]],
        leased: Mapping[str, Attempt],
        loop: asyncio.AbstractEventLoop,
        *,
        on_lease_status: Callable[[Attempt, str], None],
        on_drain: Callable[[], None],
        on_liveness_change: Callable[[], None],
        heartbeat_seconds: float,
        lease_seconds: float,
    ) -> None:
        """Create the thread. The callbacks are called in the loop.

        ``on_liveness_change`` is called when ``liveness_lost_at`` was set or cleared.
        """
        super().__init__(name="posthouse-heartbeat", daemon=True)
        self._connect = connect
        self._leased = leased
        self._loop = loop
        self._on_lease_status = on_lease_status
        self._on_drain = on_drain
        self._on_liveness_change = on_liveness_change
        self._interval = heartbeat_seconds
        self._timing = LeaseTiming(lease_seconds)
        self._stopping = threading.Event()
        self._beat_requested = False
        self._waker: socket.socket | None = None
        self._next = 0.0
        self.beats = 0
        self.ran_at = time.monotonic()
        """When this thread last ran, whether or not it could renew leases."""
        self._had_liveness_lock = False
        self.can_interrupt = False
        self.liveness_lost_at: float | None = None
        """When the liveness lock was lost, after which keepers may declare this worker lost. Not set when
        Postgres shuts down, because no worker is declared lost while Postgres is down.
        """

    def beat_now(self) -> None:
        self._beat_requested = True
        self._wake()

    def stop(self) -> None:
        self._stopping.set()
        self._wake()

    def _wake(self) -> None:
        if self._waker is not None:
            with suppress(OSError):  # full: the thread is about to wake; closed: it has ended
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
                    if pulse.holds_liveness_lock:
                        self._had_liveness_lock = True
                        self._set_liveness_lost(None)
                    if not self._stopping.is_set():
                        self._beat(pulse)
                    backoff.reset()
                    self._beat_until_stopped(pulse, wakeup)
            except CONNECTION_ERRORS as error:
                if self._had_liveness_lock and getattr(error, "sqlstate", None) not in SHUTDOWN_SQLSTATES:
                    self._set_liveness_lost(time.monotonic())
                self._had_liveness_lock = False
                self._beat_requested = True  # an earlier request may have been lost with the connection
                if not backoff.failures:
                    _log.warning("heartbeat failed, retrying: %s", str(error).strip())
                self._stopping.wait(backoff.next())

    def _set_liveness_lost(self, since: float | None) -> None:
        changed = (since is None) != (self.liveness_lost_at is None)
        self.liveness_lost_at = since
        if changed:
            with suppress(RuntimeError):  # the loop is closing
                self._loop.call_soon_threadsafe(self._on_liveness_change)

    def _beat_until_stopped(self, pulse: HeartbeatConnection, wakeup: socket.socket) -> None:
        while not self._stopping.is_set():
            tick = TICK_SECONDS if self._leased else IDLE_TICK_SECONDS
            pulse.wait(
                wakeup.fileno(), 0.0 if self._beat_requested else min(tick, self._next - time.monotonic())
            )
            self.ran_at = time.monotonic()
            with suppress(BlockingIOError):
                wakeup.recv(4096)
            asked, self._beat_requested = self._beat_requested, False
            self._interrupt_blocked_loop()
            if (asked or time.monotonic() >= self._next) and not self._stopping.is_set():
                self._beat(pulse, everything=asked)

    def _beat(self, pulse: HeartbeatConnection, *, everything: bool = False) -> None:
        """Renew the leases that were not renewed recently.

        Jobs that are shorter than the interval never need a renewal.
        """
        started = time.monotonic()
        self._next = started + self._interval
        expires = self._timing.expires(started)
        fresh = expires - self._interval / 2
        attempts = [
            attempt
            for attempt in list(self._leased.values())
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
                    self._loop.call_soon_threadsafe(self._on_lease_status, by_id[hex_id], verdict)

    def _interrupt_blocked_loop(self) -> None:
        """Stop a handler that blocks the event loop beyond its timeout; the loop itself cannot."""
        if self.can_interrupt and self._blocking_job() is not None:
            signal.pthread_kill(threading.main_thread().ident or 0, INTERRUPT_SIGNAL)

    def _blocking_job(self) -> Attempt | None:
        task = asyncio.current_task(self._loop)
        if task is None:
            return None
        for attempt in list(self._leased.values()):
            if (
                attempt.task is task
                and attempt.deadline
                and attempt.deadline + 2 * TICK_SECONDS < time.monotonic()
            ):
                return attempt
        return None


def install_interrupt(loop: asyncio.AbstractEventLoop, leased: Mapping[str, Attempt]) -> bool:
    """Let the heartbeat thread raise TimedOut in a handler that blocks the main thread.

    Returns False outside the main thread, where Python does not run signal handlers. Without a handler the
    signal would kill the process.
    """

    def interrupt(*_: object) -> None:
        task = asyncio.current_task(loop)
        now = time.monotonic()
        for attempt in list(leased.values()):
            if (
                attempt.task is task
                and attempt.deadline
                and attempt.deadline < now
                and attempt.stop_reason is None
            ):
                raise TimedOut("the handler blocked the event loop past its timeout")

    if threading.current_thread() is not threading.main_thread():
        return False
    signal.signal(INTERRUPT_SIGNAL, interrupt)
    return True

"""Threads for handlers. They are daemon threads: one that never returns cannot keep the process alive."""

from __future__ import annotations

import asyncio
import ctypes
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Any

from posthouse.core.outcome import Cancel


class ThreadCall:
    """One call in a thread. ``future`` is done when the call has ended, even if no task waits for it."""

    def __init__(self, function: Callable[[], Any], loop: asyncio.AbstractEventLoop) -> None:
        self._function = function
        self._loop = loop
        self._lock = threading.Lock()
        self._ident: int | None = None
        self._interrupted = False
        self.future: asyncio.Future[Any] = loop.create_future()
        self.future.add_done_callback(_retrieve_exception)

    def interrupt(self) -> None:
        """Raise Cancel in the thread at its next Python instruction, at most once.

        A call whose thread has not started yet does not run.
        """
        with self._lock:
            if not self._interrupted:
                self._interrupted = True
                if self._ident is not None:
                    _raise_in(self._ident, Cancel)

    def run(self) -> None:
        value, error = None, None
        try:
            value, error = self._outcome()
            self._clear_interrupt()
        except Cancel as late:  # the interrupt arrived after the handler had returned
            error = late
            self._clear_interrupt()
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._deliver, value, error)

    def _outcome(self) -> tuple[Any, BaseException | None]:
        try:
            with self._lock:
                if self._interrupted:
                    return None, Cancel()
                self._ident = threading.get_ident()
            return self._function(), None
        except BaseException as error:  # noqa: BLE001 - every exception is an outcome
            return None, error

    def _clear_interrupt(self) -> None:
        """Mark the end of the call, so that an interrupt does not reach the next call of the thread."""
        with self._lock:
            self._ident = None
            if self._interrupted:
                _raise_in(threading.get_ident(), None)

    def _deliver(self, value: Any, error: BaseException | None) -> None:
        if self.future.cancelled():
            return
        if isinstance(error, StopIteration):  # not allowed in a future
            error = RuntimeError(f"the handler raised {error!r}")
        if error is None:
            self.future.set_result(value)
        else:
            self.future.set_exception(error)


class ThreadPool:
    """A pool of threads that grows with the number of concurrent calls."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._calls: SimpleQueue[ThreadCall | None] = SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._started = 0

    def start(self, function: Callable[[], Any], loop: asyncio.AbstractEventLoop) -> ThreadCall:
        call = ThreadCall(function, loop)
        self._calls.put(call)
        if not self._idle.acquire(blocking=False):
            self._started += 1
            name = f"{self._name}-{self._started}"
            threading.Thread(target=self._serve, name=name, daemon=True).start()
        return call

    def close(self) -> None:
        """End each thread after its current call."""
        for _ in range(self._started):
            self._calls.put(None)

    def _serve(self) -> None:
        while (call := self._calls.get()) is not None:
            call.run()
            del call  # free its memory
            self._idle.release()


def _raise_in(ident: int, error: type[BaseException] | None) -> None:
    """Raise an exception in a thread. None withdraws an exception that has not been raised yet."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(ident), None if error is None else ctypes.py_object(error)
    )


def _retrieve_exception(future: asyncio.Future[Any]) -> None:
    if not future.cancelled():
        future.exception()

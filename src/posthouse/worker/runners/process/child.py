"""The main program of a job process: imports the handlers once, then runs one call after the other.

Handlers run in the main thread, where signals reach them. A second thread communicates with the worker, so
that replies, cancellations and the death of the worker are handled while a handler runs.
"""

from __future__ import annotations

import asyncio
import faulthandler
import itertools
import os
import resource
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from posthouse.core.outcome import Cancel
from posthouse.core.redaction import mask_output, mask_with
from posthouse.storage.connections import HandlerPools
from posthouse.worker.attempt import Attempt
from posthouse.worker.definitions import CallMask, DefinitionWatcher
from posthouse.worker.handlers import JobDefinition
from posthouse.worker.job import Job
from posthouse.worker.orm import fresh_async_connections, fresh_connections
from posthouse.worker.runners.process.protocol import (
    Message,
    MessageReader,
    encode_message,
    forward_logs,
    import_definition,
    next_call,
    pack_outcome,
    pack_value,
    unpack_error,
    unpack_job,
)
from posthouse.worker.services import JobLimits, JobServices

_STATM = Path("/proc/self/statm")


@contextmanager
def memory_limit(megabytes: int | None) -> Iterator[None]:
    """Limit the memory that the block can allocate.

    Beyond the limit Python raises MemoryError, and C code usually aborts. Works only on Linux, where the
    kernel enforces the limit.
    """
    if megabytes is None or not _STATM.exists():
        yield
        return
    used = int(_STATM.read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    limit = used + megabytes * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (limit if hard < 0 else min(limit, hard), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


class ChildJobServices(JobServices):
    """The calls of a job, forwarded to the worker. Transactions use a connection of this process."""

    def __init__(self, channel: WorkerChannel, config: Message) -> None:
        super().__init__(channel.loop, JobLimits(*config["limits"]), HandlerPools(config["url"]))
        self._channel = channel
        self._numbers = itertools.count(1)
        self._pending: dict[int, Future[Any]] = {}
        channel.on_response = self._on_response

    async def send_request(self, method: str, attempt: Attempt, *arguments: Any) -> Any:
        number = next(self._numbers)
        response = self._pending[number] = Future()
        self._channel.send(
            {"request": method, "number": number, "job": attempt.hex_id, "arguments": arguments}
        )
        return await asyncio.wrap_future(response)  # in the handler's loop or in that of the channel

    def send_notice(self, method: str, attempt: Attempt, *arguments: Any) -> None:
        self._channel.send({"notice": method, "job": attempt.hex_id, "arguments": arguments})

    def _on_response(self, message: Message) -> None:
        response = self._pending.pop(message["response"])
        if response.set_running_or_notify_cancel():
            if "error" in message:
                response.set_exception(unpack_error(message["error"]))
            else:
                response.set_result(message["value"])


INTERRUPT_SIGNAL = signal.SIGUSR2


class WorkerChannel:
    """The connection to the worker, served by a separate thread."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self._connection = connection
        self._sending = threading.Lock()
        self._reader = MessageReader()
        self.loop = asyncio.new_event_loop()
        self.large_calls: SimpleQueue[Message] = SimpleQueue()
        self.on_response: Any = None
        self.on_interrupt: Any = None
        self.on_worker_exit: Any = None
        self.is_main_thread_sending = False
        """Whether the main thread is sending. It must not be interrupted in the middle of a message."""
        self.on_main_thread_sent: Any = None

    def start(self) -> None:
        threading.Thread(target=self._serve, name="posthouse-channel", daemon=True).start()

    def _serve(self) -> None:
        self.loop.add_reader(self._connection, self._receive)
        self.loop.run_forever()

    def _receive(self) -> None:
        try:
            data = self._connection.recv(262_144)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.loop.remove_reader(self._connection)
            self.on_worker_exit()
        for message in self._reader.feed(data):
            if "response" in message:
                self.on_response(message)
            elif "interrupt" in message:
                self.on_interrupt(message)
            else:
                self.large_calls.put(message)

    def send(self, message: Message) -> None:
        """Send a message at once, in the calling thread, so that the next job does not delay it."""
        data = memoryview(encode_message(message))
        if threading.current_thread() is not threading.main_thread():
            self._send_all(data)
            return
        self.is_main_thread_sending = True
        try:
            self._send_all(data)
        finally:
            self.is_main_thread_sending = False
        self.on_main_thread_sent()

    def _send_all(self, data: memoryview) -> None:
        with self._sending:
            while data:
                try:
                    data = data[self._connection.send(data) :]
                except BlockingIOError:
                    _wait_writable(self._connection)


def _wait_writable(connection: socket.socket) -> None:
    import select  # noqa: PLC0415 - rarely needed

    poll = select.poll()
    poll.register(connection, select.POLLOUT)
    poll.poll()


class ChildRunner:
    """The runner of the worker's calls."""

    def __init__(self, channel: WorkerChannel, call_socket: socket.socket) -> None:
        self._channel = channel
        self._call_socket = call_socket
        self._pid = os.getpid()
        self._handlers: dict[str, JobDefinition] = {}
        self._definition_watcher = DefinitionWatcher(self._handlers)
        self._handler_loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[Any] | None = None
        self._attempts: list[Attempt] = []
        self._running: int | None = None
        self._cancel_requested: int | None = None
        channel.on_interrupt = self._on_interrupt
        channel.on_worker_exit = self._on_worker_exit
        channel.on_main_thread_sent = self._on_signal
        signal.signal(INTERRUPT_SIGNAL, self._on_signal)

    def serve(self) -> None:
        if not self._import_handlers(self._channel.large_calls.get()):
            return
        self._channel.send({"ready": self._pid})
        while (message := next_call(self._call_socket)) is not None:
            self._channel.send(
                self._run(message if "jobs" in message else self._next_large_call(message["run"]))
            )
            del message

    def _next_large_call(self, number: int) -> Message:
        """Return a large call, which arrives over the channel. Skip calls that the worker took back."""
        while (message := self._channel.large_calls.get())["run"] != number:
            pass
        return message

    def _import_handlers(self, config: Message) -> bool:
        forward_logs(config["log_level"], self._channel.send)
        mask_output()
        self._services = ChildJobServices(self._channel, config)
        try:
            for kind, path in config["import_paths"].items():
                self._handlers[kind] = import_definition(path)
        except BaseException as error:  # noqa: BLE001 - importing a module may raise anything
            text = "".join(traceback.format_exception(error))
            self._channel.send({"failed": f"{type(error).__name__}: {error}", "traceback": text})
            return False
        return True

    def _run(self, message: Message) -> Message:
        number, definition = message["run"], self._handlers[message["kind"]]
        self._attempts = attempts = [unpack_job(packed, self._services) for packed in message["jobs"]]
        self._definition_watcher.set_redaction_override(message["kind"], message.get("redaction"))
        mask_with(CallMask(self._definition_watcher, attempts))
        fail_on = definition.policy.fail_on
        reply: Message = {"done": number}
        started = time.perf_counter()
        try:
            value = self._run_handler(number, definition, attempts)
            values = value if definition.batch is not None else [value]
            if values is not None:
                values = [pack_value(item, self._services.limits.result_bytes, fail_on) for item in values]
            reply["values"] = values
        except BaseException as error:  # noqa: BLE001 - every exception is an outcome
            reply["outcome"] = pack_outcome(error, fail_on)
        if os.getpid() != self._pid:  # a fork that returned from the handler must not report its outcome
            os._exit(0)
        reply["seconds"] = time.perf_counter() - started
        self._attempts = []
        states = [[attempt.is_finished, attempt.followups] for attempt in attempts]
        if any(finished or followups for finished, followups in states):
            reply["jobs"] = states
        return reply

    def _run_handler(self, number: int, definition: JobDefinition, attempts: list[Attempt]) -> Any:
        """Run the handler. Cancel can be raised at any point of this method."""
        try:
            self._running = number
            if self._cancel_requested == number:  # canceled before the handler started
                raise Cancel("canceled before the handler started")
            with memory_limit(definition.memory_mb):
                return self._call_handler(definition, attempts)
        finally:
            self._running = None

    def _call_handler(self, definition: JobDefinition, attempts: list[Attempt]) -> Any:
        if definition.batch is not None:
            call: tuple[tuple[Any, ...], Mapping[str, Any]] = ([Job(attempt) for attempt in attempts],), {}
        else:
            arguments = definition.arguments.read(attempts[0].row.payload)
            call = (
                (tuple(map(Job, attempts)) if definition.arguments.takes_job else ()),
                arguments,
            )
        if definition.is_async:
            with fresh_async_connections():
                return self._run_coroutine(definition.handler(*call[0], **call[1]))
        with fresh_connections():
            return definition.handler(*call[0], **call[1])

    def _run_coroutine(self, work: Any) -> Any:
        """Run a coroutine on one loop for all calls, so that the handler's connections stay usable."""
        if self._handler_loop is None:
            self._handler_loop = asyncio.new_event_loop()
        self._task = self._handler_loop.create_task(work)
        try:
            return self._handler_loop.run_until_complete(self._task)
        finally:
            self._task = None

    def _on_interrupt(self, message: Message) -> None:
        """Handle the worker's request to stop a call.

        Runs in the channel's thread: before, during or after the call.
        """
        number, canceled = message["interrupt"], message["canceled"]
        for attempt in self._attempts if self._running == number and canceled else ():
            attempt.is_cancel_requested = True
        self._cancel_requested = number
        signal.pthread_kill(threading.main_thread().ident or 0, INTERRUPT_SIGNAL)

    def _on_signal(self, *_: object) -> None:
        """Handle the interrupt signal. Runs in the main thread, where the running call cannot change."""
        if (
            self._running is None
            or self._running != self._cancel_requested
            or self._channel.is_main_thread_sending
        ):
            return
        self._cancel_requested = None
        if self._task is None:
            raise Cancel("stopped by the worker")
        self._task.cancel()
        if self._handler_loop is not None:  # wakes the loop if it is idle
            self._handler_loop.call_soon_threadsafe(lambda: None)

    def _on_worker_exit(self) -> None:
        """Kill this process group: the worker has died, and its jobs will be rescued."""
        os.killpg(0, signal.SIGKILL)


def main() -> None:
    channel_fd, calls_fd, crash_notes = descriptors = [int(fd) for fd in sys.argv[1:]]
    for fd in descriptors:
        os.set_inheritable(fd, False)
    faulthandler.enable(crash_notes, all_threads=False)
    _reset_signals()
    for number in (signal.SIGTERM, signal.SIGINT):
        # Signals to the whole group are meant for the worker: it drains, and then stops this process.
        signal.signal(number, _ignore)
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    channel = WorkerChannel(socket.socket(fileno=channel_fd))
    runner = ChildRunner(channel, socket.socket(fileno=calls_fd))
    channel.start()
    runner.serve()


def _reset_signals() -> None:
    """Restore the default signal handlers that nohup or a shell may have changed."""
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for number in signal.valid_signals() - {signal.SIGPIPE, signal.SIGXFSZ}:  # Python ignores these itself
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)


def _ignore(*_: object) -> None:
    """Do nothing. Unlike SIG_IGN, programs that a job starts do not inherit this signal handler."""

"""The worker's end of one process: starts it, sends it calls, and detects its end."""

from __future__ import annotations

import asyncio
import contextvars
import json
import signal
import socket
import sys
import tempfile
import time
from collections import deque
from collections.abc import Sequence
from typing import IO, Any, Protocol, cast

from posthouse.commands.child import FIRST_DESCRIPTOR, Child, describe_exit
from posthouse.commands.guardian_client import GuardianClient
from posthouse.core.outcome import Crashed
from posthouse.errors import LeaseLost
from posthouse.worker.attempt import Attempt
from posthouse.worker.runners.process.protocol import (
    SHUTDOWN,
    CallQueue,
    Message,
    MessageReader,
    encode_inline,
    encode_message,
    pack_error,
    pack_job,
    replay_record,
    unpack_outcome,
    unpack_value,
)
from posthouse.worker.services import NOTICES, REQUESTS, WorkerJobServices

CHILD_CODE = (
    "import json, sys; sys.path[:] = json.loads(sys.argv.pop()); "
    "from posthouse.worker.runners.process.child import main; main()"
)
FLUSH_SECONDS = 1.0
"""How long to wait for the end of the connection after a process has ended. The connection ends at once,
unless a program that the process started outside its process group holds it open.
"""
EXIT_SECONDS = 0.5
_CRASH_NOTES_LIMIT = 16_000


class ProcessOwner(Protocol):
    """The interface of the pool for its processes."""

    def on_ready(self) -> None: ...
    def on_call_end(self, seconds: float) -> None: ...
    def on_exit(self, process: WorkerProcess, unstarted: list[ProcessCall]) -> None: ...


class ProcessCall:
    """Jobs for a handler. The future is done when the handler or its process ends."""

    def __init__(self, kind: str, attempts: Sequence[Attempt], loop: asyncio.AbstractEventLoop) -> None:
        self.kind = kind
        self.attempts = attempts
        self.number = 0
        self.process: WorkerProcess | None = None
        self.context = contextvars.copy_context()
        """The context of the jobs' task; its mask applies to their log records."""
        self.future: asyncio.Future[list[Any] | None] = loop.create_future()
        now = time.monotonic()
        self._limits = [None if attempt.deadline is None else attempt.deadline - now for attempt in attempts]
        for attempt in attempts:
            attempt.deadline = None
        self.started_at = 0.0

    def begin(self) -> None:
        """Record the start of the handler, which also starts its timeout."""
        self.started_at = now = time.monotonic()
        for attempt, limit in zip(self.attempts, self._limits, strict=True):
            attempt.deadline = None if limit is None else now + limit

    def encode(self) -> Message:
        return {
            "run": self.number,
            "kind": self.kind,
            "jobs": [pack_job(attempt) for attempt in self.attempts],
        }

    def resolve(self, message: Message) -> BaseException | None:
        """Handle the outcome that the process reports."""
        for attempt, (finished, followups) in zip(self.attempts, message.get("jobs", ()), strict=False):
            attempt.is_finished = attempt.is_finished or finished
            attempt.followups = followups
        if "outcome" in message:
            outcome = unpack_outcome(message["outcome"])
            self.fail(outcome)
            return outcome
        values = message["values"]
        if not self.future.done():
            self.future.set_result(None if values is None else [unpack_value(value) for value in values])
        return None

    def fail(self, outcome: BaseException) -> None:
        if not self.future.done():
            self.future.set_exception(outcome)


class WorkerProcess(asyncio.Protocol):
    """One process of the pool. It runs one call at a time, the first of ``calls``."""

    def __init__(self, owner: ProcessOwner, services: WorkerJobServices, guardian: GuardianClient) -> None:
        self._owner = owner
        self._services = services
        self._loop = services.loop
        self._reader = MessageReader()
        self._numbers = 0
        self._transport: asyncio.WriteTransport | None = None
        self._connected = True
        self._stopped_by_worker = False
        self._closed_connection = False
        self._requests: set[asyncio.Task[None]] = set()
        self._faulthandler_file: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the process runs
        self._call_queue = CallQueue()
        self._connection, theirs = socket.socketpair()
        with theirs:
            self._child = self._start(theirs, guardian)
        self.pid = 0
        self.calls: deque[ProcessCall] = deque()
        self.ready = False
        self.failure: str | None = None
        """Why the process could not start, as it reported."""

    def _start(self, theirs: socket.socket, guardian: GuardianClient) -> Child:
        handed = [item.fileno() for item in (theirs, self._call_queue.reading, self._faulthandler_file)]
        numbers = range(FIRST_DESCRIPTOR, FIRST_DESCRIPTOR + len(handed))
        return Child(
            [sys.executable, "-c", CHILD_CODE, *map(str, numbers), json.dumps(sys.path)],
            handed,
            guardian=guardian,
            on_end=self._exited,
            expendable=True,
        )

    @property
    def exit_description(self) -> str | None:
        """How the process ended; None if the worker stopped it."""
        return None if self._stopped_by_worker else describe_exit(self._child.exit_code or 0)

    @property
    def is_ready_for_calls(self) -> bool:
        return self.ready and self._connected and not self._stopped_by_worker

    async def connect(self, config: Message) -> None:
        await self._loop.create_connection(lambda: self, sock=self._connection)
        self._send(config)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.WriteTransport", transport)

    def put(self, call: ProcessCall) -> bool:
        """Send a call, which runs after those that were sent before. Return False if the socket is full."""
        self._numbers += 1
        call.number = self._numbers
        encoded = call.encode()
        override = self._services.redaction_override(call.kind)
        if override is not None:
            encoded["redaction"] = override
        data = encode_inline(encoded)
        if data is None:
            self._send(encoded)
        if not self._call_queue.put(data or encode_message({"run": call.number})):
            return False
        call.process = self
        self.calls.append(call)
        if len(self.calls) == 1:
            call.begin()
        return True

    def reclaim(self) -> list[ProcessCall]:
        """Take back the calls that have not started."""
        numbers = set(self._call_queue.reclaim())
        taken = [call for call in self.calls if call.number in numbers]
        for call in taken:
            self.calls.remove(call)
            call.process = None
        return taken

    def interrupt(self, call: ProcessCall, within: float) -> None:
        """Ask the handler to stop, and kill the process if it does not stop within ``within`` seconds."""
        if call.process is self:
            self._send(
                {
                    "interrupt": call.number,
                    "canceled": any(attempt.is_cancel_requested for attempt in call.attempts),
                }
            )
            self._loop.call_later(within, self._kill_if_running, call)

    def _kill_if_running(self, call: ProcessCall) -> None:
        if call.process is self:
            self.kill()

    def kill(self) -> None:
        self._stopped_by_worker = True
        self._child.kill()

    def close(self) -> None:
        """Let an idle process exit by itself."""
        self._stopped_by_worker = True
        self._call_queue.put(SHUTDOWN)

    def _send(self, message: Message) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(encode_message(message))

    def data_received(self, data: bytes) -> None:
        for message in self._reader.feed(data):
            if "done" in message:
                self._done(message)
            else:
                self._handle_message(message)

    def _done(self, message: Message) -> None:
        call = self.calls.popleft()
        assert call.number == message["done"]
        call.process = None
        if self.calls:
            self.calls[0].begin()
        outcome = call.resolve(message)
        if isinstance(outcome, Crashed):  # the process could still report, but is no longer reliable
            self.kill()
        self._owner.on_call_end(message["seconds"])

    def _handle_message(self, message: Message) -> None:
        match message:
            case {"notice": method, "job": hex_id, "arguments": arguments}:
                self._notify(method, hex_id, arguments)
            case {"request": _}:
                task = self._loop.create_task(self._respond(message))
                self._requests.add(task)
                task.add_done_callback(self._requests.discard)
            case {"log": record}:
                context = self.calls[0].context if self.calls else contextvars.Context()
                context.run(replay_record, record, self.pid)
            case {"ready": pid}:
                self.pid = pid
                self.ready = True
                self._owner.on_ready()
            case {"failed": why, "traceback": text}:
                self.failure = f"{why}\n{text}"

    async def _respond(self, message: Message) -> None:
        reply: Message = {"response": message["number"]}
        attempt = self._job(message["job"])
        try:
            if attempt is None:
                raise LeaseLost("this job has already finished")  # noqa: TRY301 - reported like other errors
            assert message["request"] in REQUESTS
            reply["value"] = await getattr(self._services, message["request"])(attempt, *message["arguments"])
        except Exception as error:  # noqa: BLE001 - passed on to the handler
            reply["error"] = pack_error(error)
        self._send(reply)

    def _notify(self, method: str, hex_id: str, arguments: list[Any]) -> None:
        attempt = self._job(hex_id)
        if attempt is not None:
            assert method in NOTICES
            getattr(self._services, method)(attempt, *arguments)

    def _job(self, hex_id: str) -> Attempt | None:
        """Return the job, or None if a thread that outlives its handler refers to a finished job."""
        attempts = self.calls[0].attempts if self.calls else ()
        return next((attempt for attempt in attempts if attempt.hex_id == hex_id), None)

    def _exited(self, _: int) -> None:
        """Handle the end of the process and of all processes that it started."""
        if not self._connected:
            self._on_exit()
        else:
            self._loop.call_later(FLUSH_SECONDS, self._hang_up)

    def _hang_up(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def connection_lost(self, _: Exception | None) -> None:
        """Handle the end of the connection. Without it the process is unusable, even if it still runs."""
        self._connected = False
        if self._child.exit_code is not None:
            self._on_exit()
        else:  # the process usually exits soon; if not, the handler has closed the descriptor
            self._loop.call_later(EXIT_SECONDS, self._kill_disconnected)

    def _kill_disconnected(self) -> None:
        if self._child.exit_code is None:
            self._closed_connection = True
            self._child.kill()

    def _on_exit(self) -> None:
        unstarted = self.reclaim()
        for call in self.calls:  # at most one: the call that had started
            call.process = None
            call.fail(self._crash())
        self.calls.clear()
        self._call_queue.close()
        self._faulthandler_file.close()
        self._owner.on_exit(self, unstarted)

    def _crash(self) -> Crashed:
        code = self._child.exit_code or 0
        self._faulthandler_file.seek(0)
        crash_notes = self._faulthandler_file.read(_CRASH_NOTES_LIMIT).decode(errors="replace")
        reason = "closed its connection with the worker" if self._closed_connection else describe_exit(code)
        return Crashed(
            f"its process {reason}",
            pid=self.pid,
            exit_code=code,
            signal=signal.Signals(-code).name if code < 0 else None,
            traceback=crash_notes or None,
        )

"""The worker's end of one process: starts it, hands it calls, notices how it ends."""

from __future__ import annotations

import asyncio
import contextvars
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import IO, Any, Protocol, cast

from posthouse.core.outcome import Crashed
from posthouse.errors import LeaseLost
from posthouse.worker.job import Desk, Job
from posthouse.worker.processes.desk import ASKED, TOLD
from posthouse.worker.processes.inbox import BYE, Inbox, inline
from posthouse.worker.processes.logs import log_here
from posthouse.worker.processes.undertaker import end_group
from posthouse.worker.processes.wire import (
    Lines,
    Message,
    line,
    pack_job,
    pack_refusal,
    unpack_ending,
    unpack_value,
)

BOOT = (
    "import json, sys; sys.path[:] = json.loads(sys.argv.pop()); "
    "from posthouse.worker.processes.inside import main; main()"
)
FLUSH_SECONDS = 1.0
"""How long a dead process's last words may take to arrive. They are there already, unless a program that it
started, and that escaped its group, holds the connection open."""
EXIT_SECONDS = 0.5
_NOTES_LIMIT = 16_000


class Owner(Protocol):
    """The pool, as a process sees it."""

    def on_ready(self) -> None: ...
    def on_answer(self, took: float) -> None: ...
    def on_gone(self, process: Process, unstarted: list[Call]) -> None: ...


class Call:
    """Jobs for a handler. The future ends with the handler or with its process."""

    def __init__(self, kind: str, jobs: Sequence[Job], loop: asyncio.AbstractEventLoop) -> None:
        self.kind = kind
        self.jobs = jobs
        self.number = 0
        self.process: Process | None = None
        self.context = contextvars.copy_context()
        """That of the jobs' task: what their records must not show is masked by it."""
        self.future: asyncio.Future[list[Any] | None] = loop.create_future()
        now = time.monotonic()
        self._limits = [None if job.deadline is None else job.deadline - now for job in jobs]
        for job in jobs:
            job.deadline = None
        self.started_at = 0.0

    def begin(self) -> None:
        """Its handler starts, and with it the time that it has."""
        self.started_at = now = time.monotonic()
        for job, limit in zip(self.jobs, self._limits, strict=True):
            job.deadline = None if limit is None else now + limit

    def packed(self) -> Message:
        return {"run": self.number, "kind": self.kind, "jobs": [pack_job(job) for job in self.jobs]}

    def resolve(self, message: Message) -> BaseException | None:
        """Takes over what the process says of it."""
        for job, (finished, followups) in zip(self.jobs, message.get("jobs", ()), strict=False):
            job.finished = job.finished or finished
            job.take_followups(followups)
        if "ending" in message:
            ending = unpack_ending(message["ending"])
            self.fail(ending)
            return ending
        values = message["values"]
        if not self.future.done():
            self.future.set_result(None if values is None else [unpack_value(value) for value in values])
        return None

    def fail(self, ending: BaseException) -> None:
        if not self.future.done():
            self.future.set_exception(ending)


class Process(asyncio.Protocol):
    """One process of the pool. It runs one call at a time, the first of ``calls``."""

    def __init__(self, owner: Owner, desk: Desk) -> None:
        self._owner = owner
        self._desk = desk
        self._loop = desk.loop
        self._lines = Lines()
        self._numbers = 0
        self._transport: asyncio.WriteTransport | None = None
        self._connected = True
        self._ended_by_us = False
        self._hung_up = False
        self._asks: set[asyncio.Task[None]] = set()
        self._crash_notes: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - open for as long as it runs
        self._inbox = Inbox()
        self._connection, theirs = socket.socketpair()
        self._popen = self._start(theirs)
        self.pid = self._popen.pid
        self.calls: deque[Call] = deque()
        self.ready = False
        self.failure: str | None = None
        """Why it could not start, in its own words."""

    def _start(self, theirs: socket.socket) -> subprocess.Popen[bytes]:
        handed = [item.fileno() for item in (theirs, self._inbox.reading, self._crash_notes)]
        with theirs:
            return subprocess.Popen(  # noqa: S603 - our own interpreter
                [sys.executable, "-c", BOOT, *map(str, handed), json.dumps(sys.path)],
                stdin=subprocess.DEVNULL,
                pass_fds=handed,
                start_new_session=True,  # a group of its own, so that all of it can be ended
            )

    @property
    def died(self) -> str | None:
        """How it died, if it was not we who ended it."""
        return None if self._ended_by_us else how_it_ended(self._popen.wait())

    @property
    def usable(self) -> bool:
        return self.ready and self._connected and not self._ended_by_us

    async def connect(self, hello: Message) -> None:
        await self._loop.create_connection(lambda: self, sock=self._connection)
        threading.Thread(target=self._await_exit, name=f"posthouse-exit-{self.pid}", daemon=True).start()
        self._send(hello)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.WriteTransport", transport)

    def put(self, call: Call) -> bool:
        """Hands it a call, to be run at once or after those that it has. False if there is no room."""
        self._numbers += 1
        call.number = self._numbers
        packed = call.packed()
        marks = self._desk.operators_marks(call.kind)
        if marks is not None:
            packed["marks"] = marks
        data = inline(packed)
        if data is None:
            self._send(packed)
        if not self._inbox.put(data or line({"run": call.number})):
            return False
        call.process = self
        self.calls.append(call)
        if len(self.calls) == 1:
            call.begin()
        return True

    def take_back(self) -> list[Call]:
        """The calls that it has not started."""
        numbers = set(self._inbox.take_back())
        taken = [call for call in self.calls if call.number in numbers]
        for call in taken:
            self.calls.remove(call)
            call.process = None
        return taken

    def end(self, call: Call, within: float) -> None:
        """Asks the handler to stop, and ends the process if it has not within this time."""
        if call.process is self:
            self._send({"end": call.number, "canceled": any(job.canceled for job in call.jobs)})
            self._loop.call_later(within, self._end_overdue, call)

    def _end_overdue(self, call: Call) -> None:
        if call.process is self:
            self.kill()

    def kill(self) -> None:
        self._ended_by_us = True
        if self._popen.returncode is None:
            end_group(self.pid)

    def close(self) -> None:
        """Lets an idle process end by itself."""
        self._ended_by_us = True
        self._inbox.put(BYE)

    def _send(self, message: Message) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(line(message))

    def data_received(self, data: bytes) -> None:
        for message in self._lines.feed(data):
            if "done" in message:
                self._done(message)
            else:
                self._take(message)

    def _done(self, message: Message) -> None:
        call = self.calls.popleft()
        assert call.number == message["done"]
        call.process = None
        if self.calls:
            self.calls[0].begin()
        ending = call.resolve(message)
        if isinstance(ending, Crashed):  # it could still answer, but is not to be trusted any more
            self.kill()
        self._owner.on_answer(message["took"])

    def _take(self, message: Message) -> None:
        match message:
            case {"tell": method, "job": hex_id, "arguments": arguments}:
                self._tell(method, hex_id, arguments)
            case {"ask": _}:
                task = self._loop.create_task(self._answer(message))
                self._asks.add(task)
                task.add_done_callback(self._asks.discard)
            case {"log": record}:
                context = self.calls[0].context if self.calls else contextvars.Context()
                context.run(log_here, record, self.pid)
            case {"committing": hex_id}:
                if (job := self._job(hex_id)) is not None:
                    job.committing = True
            case {"ready": _}:
                self.ready = True
                self._owner.on_ready()
            case {"failed": why, "traceback": text}:
                self.failure = f"{why}\n{text}"

    async def _answer(self, message: Message) -> None:
        reply: Message = {"answer": message["number"]}
        job = self._job(message["job"])
        try:
            if job is None:
                raise LeaseLost("this job has already finished")  # noqa: TRY301 - answered like the others
            assert message["ask"] in ASKED
            reply["value"] = await getattr(self._desk, message["ask"])(job, *message["arguments"])
        except Exception as error:  # noqa: BLE001 - it is the handler's to deal with
            reply["refusal"] = pack_refusal(error)
        self._send(reply)

    def _tell(self, method: str, hex_id: str, arguments: list[Any]) -> None:
        job = self._job(hex_id)
        if job is not None:
            assert method in TOLD
            getattr(self._desk, method)(job, *arguments)

    def _job(self, hex_id: str) -> Job | None:
        """None: a thread that the handler left behind speaks of a job that has ended."""
        jobs = self.calls[0].jobs if self.calls else ()
        return next((job for job in jobs if job.hex_id == hex_id), None)

    def _await_exit(self) -> None:
        """In a thread. Leaves the exit code where it is: as long as it is, nobody else gets the number."""
        if hasattr(os, "waitid"):
            os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        else:  # macOS
            self._popen.wait()
        try:
            self._loop.call_soon_threadsafe(self._exited)
        except RuntimeError:  # the loop is closed: nobody waits any more
            end_group(self.pid)
            self._popen.wait()

    def _exited(self) -> None:
        end_group(self.pid)  # what it started goes with it
        self._popen.wait()
        if not self._connected:
            self._gone()
        else:
            self._loop.call_later(FLUSH_SECONDS, self._hang_up)

    def _hang_up(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def connection_lost(self, _: Exception | None) -> None:
        """No more words. Without a connection a process is of no use, dead or not."""
        self._connected = False
        if self._popen.returncode is not None:
            self._gone()
        else:  # it is about to exit, most likely; if not, it has closed what is not its own
            self._loop.call_later(EXIT_SECONDS, self._end_speechless)

    def _end_speechless(self) -> None:
        if self._popen.returncode is None:
            self._hung_up = True
            end_group(self.pid)

    def _gone(self) -> None:
        unstarted = self.take_back()
        for call in self.calls:  # at most one: what it had begun
            call.process = None
            call.fail(self._crash())
        self.calls.clear()
        self._inbox.close()
        self._crash_notes.close()
        self._owner.on_gone(self, unstarted)

    def _crash(self) -> Crashed:
        code = self._popen.returncode
        self._crash_notes.seek(0)
        notes = self._crash_notes.read(_NOTES_LIMIT).decode(errors="replace")
        how = "closed its connection with the worker" if self._hung_up else how_it_ended(code)
        return Crashed(
            f"its process {how}",
            pid=self.pid,
            exit_code=code,
            signal=signal.Signals(-code).name if code < 0 else None,
            traceback=notes or None,
        )


def how_it_ended(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    name = signal.Signals(-code).name
    hint = ": out of memory, most likely" if name == "SIGKILL" else ""
    return f"was killed by {name} (signal {-code}){hint}"

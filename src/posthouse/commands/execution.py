"""Run one command until none of its processes is left, and report its result."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import signal
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from posthouse.commands.guardian.monitor import ORPHANED, RUN, TERMINATE
from posthouse.commands.guardian_client import GuardianClient
from posthouse.commands.output import OutputTail, decoded
from posthouse.core.command.spec import SIGNALED, CommandSpec, Outcome, signal_name
from posthouse.core.outcome import Fail, Snooze, TimedOut
from posthouse.errors import CommandError, CommandFailed, CommandInterrupted, CommandStartError

_STOPPED_BY = {"timeout": Outcome("timeout"), "order": Outcome("canceled")}
_HINTS = {signal.SIGKILL: " (possibly out of memory)", signal.SIGXCPU: " (CPU time limit exceeded)"}
_QUOTED = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandResult:
    """The result of a command.

    Either ``exit_code`` or ``signal`` is set; the definition maps it to ``outcome``, and ``reason`` explains
    it. ``stdout_dropped`` and ``stderr_dropped`` count the bytes before the stored tails.
    ``cpu_seconds`` and ``max_rss_mb`` include the children that the command waited for. ``leftovers`` is true
    if a process hangs inside the kernel and could not be killed.
    """

    pid: int
    exit_code: int | None
    signal: int | None
    outcome: Outcome
    reason: str
    result: Any = None
    stdout_tail: str = ""
    stderr_tail: str = ""
    stdout_dropped: int = 0
    stderr_dropped: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    max_rss_mb: float = 0.0
    leftovers: bool = False

    def to_outcome(self) -> Exception | None:
        """Return the exception that a handler would have raised, or None.

        ``posthouse.core.outcome.decide`` decides what follows from it.
        """
        match self.outcome.action:
            case "succeed":
                return None
            case "snooze":
                return Snooze(self.outcome.delay)
            case "timeout":
                return TimedOut(self.reason)
            case "fail":
                outcome = Fail(self.reason)
                outcome.__cause__ = CommandFailed(self.reason)
                return outcome
        return CommandFailed(self.reason)


def build_result(
    spec: CommandSpec, pid: int, report: dict[str, Any], stdout: OutputTail, stderr: OutputTail
) -> CommandResult:
    """Build the result from the last report of a monitor."""
    status = report["status"]
    code = status if status is not None and status >= 0 else None
    number = -status if status is not None and status < 0 else None
    outcome = _STOPPED_BY.get(report["stopped_by"] or "") or spec.endings[_shell_code(code, number)]
    result = CommandResult(
        pid=pid,
        exit_code=code,
        signal=number,
        outcome=outcome,
        reason=_reason(outcome, report, code, number, stderr),
        stdout_tail=stdout.text(),
        stderr_tail=stderr.text(),
        stdout_dropped=stdout.dropped,
        stderr_dropped=stderr.dropped,
        seconds=report["seconds"],
        cpu_seconds=report.get("cpu", 0.0),
        max_rss_mb=report.get("rss", 0) / 1024,
        leftovers=not report["all_gone"],
    )
    return _with_result(result, stdout) if spec.result and outcome.action == "succeed" else result


def _shell_code(code: int | None, number: int | None) -> int:
    return code if code is not None else SIGNALED + (number or signal.SIGKILL)


def _reason(
    outcome: Outcome, report: dict[str, Any], code: int | None, number: int | None, stderr: OutputTail
) -> str:
    if outcome.action == "timeout":
        return f"the command timed out after {report['seconds']:.1f} s"
    if outcome.action == "canceled":
        return "the command was canceled"
    if number is not None:
        return f"the command was killed by {signal_name(number)}{_HINTS.get(signal.Signals(number), '')}"
    last = _last_line(stderr.bytes())
    quote = f": {decoded(last[:_QUOTED])}" if code and last else ""
    return f"exit code {code}{quote}"


def _with_result(result: CommandResult, stdout: OutputTail) -> CommandResult:
    line = _last_line(stdout.bytes())
    try:
        return replace(result, result=json.loads(line))
    except (ValueError, RecursionError):
        # The command has done its work, so it is not repeated because of its last line.
        reason = f"exit code {result.exit_code}, but the last line of stdout is not JSON"
        return replace(result, outcome=Outcome("fail"), reason=reason)


def _last_line(data: bytes) -> bytes:
    return data.rstrip().rpartition(b"\n")[2]


Report: TypeAlias = dict[str, Any]

# Transient errors: another attempt may succeed.
_TRANSIENT_ERRNOS = {errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ETXTBSY, errno.EIO}
_LENGTH = 8
_ALL_GONE = "the processes that supervise commands were killed"


class PassedDescriptor(Protocol):
    """A descriptor that is passed to the program. launch.py of the guardian assigns its number."""

    @property
    def descriptor(self) -> int: ...
    def release(self) -> None: ...
    def close(self) -> None: ...


class Execution:
    """The execution of one program by a monitor. All methods except ``wait`` return at once.

    All programs of Posthouse are started and killed here: commands, processes of the process runner, and the
    children of a supervisor. ``on_end`` is called when no process of the program's tree is left.
    """

    def __init__(
        self,
        request: Report,
        streams: Sequence[PassedDescriptor],
        on_start: Callable[[int], None],
        on_end: Callable[[Report], None] = lambda _: None,
    ) -> None:
        self.pid = 0
        self._request = request
        self._streams = streams
        self._on_start = on_start
        self._on_end = on_end
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[Report] = self._loop.create_future()
        self._received = b""
        self._unsent = b""
        self._monitor: socket.socket | None = None
        self._can_reuse_monitor = False
        self._killed = False

    def start(self, guardian: GuardianClient) -> None:
        body = json.dumps(self._request).encode()
        self._unsent = RUN + len(body).to_bytes(_LENGTH, "big") + body
        self._monitor = self._send_request(guardian)
        for stream in self._streams:
            stream.release()
        self._loop.add_reader(self._monitor, self._readable)
        self._send()

    def _send_request(self, guardian: GuardianClient) -> socket.socket:
        """Send the first bytes and the descriptors to a live monitor, and return its socket."""
        while True:
            monitor = guardian.acquire()
            try:
                sent = socket.send_fds(
                    monitor, [self._unsent], [stream.descriptor for stream in self._streams]
                )
            except ConnectionError:
                monitor.close()  # the monitor was killed while idle
            else:
                self._unsent = self._unsent[sent:]
                return monitor

    async def wait(self) -> tuple[Report, asyncio.CancelledError | None]:
        """Return the last report. A cancellation ends the command and is returned after it has ended."""
        canceled: asyncio.CancelledError | None = None
        while not self._ended.done():
            try:
                await asyncio.wait([self._ended])
            except asyncio.CancelledError as error:
                if canceled is None:
                    self.terminate()
                else:
                    self.kill()
                canceled = canceled or error
        return self._ended.result(), canceled

    def close(self, guardian: GuardianClient) -> None:
        for stream in self._streams:
            stream.close()
        if self._monitor is None:
            return
        self._loop.remove_reader(self._monitor)
        self._loop.remove_writer(self._monitor)
        if self._can_reuse_monitor:
            guardian.release(self._monitor)
        else:
            self._monitor.close()

    def _send(self) -> None:
        assert self._monitor
        if self._unsent:
            try:
                self._unsent = self._unsent[self._monitor.send(self._unsent) :]
            except BlockingIOError:
                pass
            except OSError:
                self._unsent = b""  # the monitor has died; the next read reports that
        if self._unsent:
            self._loop.add_writer(self._monitor, self._send)
        else:
            self._loop.remove_writer(self._monitor)

    def terminate(self) -> None:
        """Send SIGTERM, and SIGKILL after the grace of the request."""
        if self._unsent:  # the program has not started
            self.kill()
            return
        assert self._monitor
        with contextlib.suppress(OSError):
            self._monitor.send(TERMINATE)

    def kill(self) -> None:
        """Kill the whole tree at once."""
        assert self._monitor
        with contextlib.suppress(OSError):
            self._killed = True
            self._loop.remove_writer(self._monitor)
            self._monitor.shutdown(socket.SHUT_WR)

    def _readable(self) -> None:
        assert self._monitor
        try:
            data = self._monitor.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._on_disconnect()
        *lines, self._received = (self._received + data).split(b"\n")
        for line in lines:
            self._handle_report(json.loads(line))

    def _handle_report(self, report: Report) -> None:
        if report["event"] == "started":
            self.pid = report["pid"]
            self._on_start(self.pid)
        elif not self._ended.done():
            # Not reused: a monitor that was interrupted, orphaned or killed, or has processes left to kill.
            leaving = self._killed or report.get("stopped_by") == ORPHANED
            self._can_reuse_monitor = not leaving and report.get("all_gone", report["event"] == "refused")
            self._end(report)

    def _end(self, report: Report) -> None:
        self._ended.set_result(report)
        self._on_end(report)

    def _on_disconnect(self) -> None:
        """Handle the end of the connection: guardian and monitor have died, or no program was started."""
        assert self._monitor
        self._loop.remove_reader(self._monitor)
        if self._ended.done():
            return
        if self.pid:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)
        self._end({"event": "lost", "text": _ALL_GONE})


def start_error(report: Report, request: Report) -> CommandError | None:
    """Return the error if the command has no exit status."""
    match report["event"]:
        case "lost":
            return CommandInterrupted(report["text"], may_have_run=True)
        case "refused" if report["stage"] == "fork" or report["number"] in _TRANSIENT_ERRNOS:
            return CommandInterrupted(f"the command could not be started: {report['text']}")
        case "refused":
            return CommandStartError(_explanation(report, request))
        case "ended" if report["stopped_by"] == ORPHANED:
            text = "the command supervisor was killed, and the command with it"
            return CommandInterrupted(text, may_have_run=True)
    return None


def _explanation(report: Report, request: Report) -> str:
    program, cwd, text = request["argv"][0], request["cwd"], report["text"]
    if report["stage"] == "cwd":
        return f"cannot use the working directory {cwd}: {text}"
    match report["number"]:
        case errno.ENOENT:
            return _not_found(program, request)
        case errno.EACCES:
            return f"{program} is not executable for this user"
        case errno.ENOEXEC:
            return f"{program} is not executable: a script needs a first line such as #!/bin/sh"
        case errno.E2BIG:
            return f"the arguments of {program} are too long for this system; pass a file or a reference"
    return f"cannot start {program}: {text}"


def _not_found(program: str, request: Report) -> str:
    if "/" not in program:
        return f"program {program} not found on the PATH {request['env'].get('PATH', os.defpath)}"
    if Path(request["cwd"], program).exists():
        return f"{program} exists, but the interpreter in its first line does not"
    return f"program {program} not found"

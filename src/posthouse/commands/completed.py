"""The result of a command."""

from __future__ import annotations

import json
import signal
from dataclasses import dataclass, replace
from typing import Any

from posthouse.commands.exits import SIGNALED, Outcome, signal_name
from posthouse.commands.output import Tail, decoded
from posthouse.commands.spec import CommandSpec
from posthouse.core.outcome import Fail, Snooze, TimedOut
from posthouse.errors import CommandFailed

_STOPPED_BY = {"timeout": Outcome("timeout"), "order": Outcome("canceled")}
_HINTS = {signal.SIGKILL: " (possibly out of memory)", signal.SIGXCPU: " (CPU time limit exceeded)"}
_QUOTED = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """The result of a command.

    Either ``exit_code`` or ``signal`` is set; ``outcome`` is what the definition makes of it, and ``reason``
    explains it. ``stdout_dropped`` and ``stderr_dropped`` count the bytes before the stored tails.
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

    def ending(self) -> Exception | None:
        """Return the exception that a handler would have raised (see ``posthouse.core.outcome.decide``), or
        None.
        """
        match self.outcome.action:
            case "succeed":
                return None
            case "snooze":
                return Snooze(self.outcome.delay)
            case "timeout":
                return TimedOut(self.reason)
            case "fail":
                ending = Fail(self.reason)
                ending.__cause__ = CommandFailed(self.reason)
                return ending
        return CommandFailed(self.reason)


def completed(spec: CommandSpec, pid: int, report: dict[str, Any], stdout: Tail, stderr: Tail) -> Completed:
    """Build the result from the last report of a minder."""
    status = report["status"]
    code = status if status is not None and status >= 0 else None
    number = -status if status is not None and status < 0 else None
    outcome = _STOPPED_BY.get(report["stopped_by"] or "") or spec.endings[_shell_code(code, number)]
    plain = Completed(
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
    return _with_result(plain, stdout) if spec.result and outcome.action == "succeed" else plain


def _shell_code(code: int | None, number: int | None) -> int:
    return code if code is not None else SIGNALED + (number or signal.SIGKILL)


def _reason(
    outcome: Outcome, report: dict[str, Any], code: int | None, number: int | None, stderr: Tail
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


def _with_result(plain: Completed, stdout: Tail) -> Completed:
    line = _last_line(stdout.bytes())
    try:
        return replace(plain, result=json.loads(line))
    except (ValueError, RecursionError):
        # The work is done, so it is not repeated because of its last line.
        reason = f"exit code {plain.exit_code}, but the last line of stdout is not JSON"
        return replace(plain, outcome=Outcome("fail"), reason=reason)


def _last_line(data: bytes) -> bytes:
    return data.rstrip().rpartition(b"\n")[2]

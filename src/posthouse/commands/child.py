"""Start Posthouse's own processes under a monitor: those of the process runner and of a supervisor."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping, Sequence

from posthouse.commands.execution import Execution, Report
from posthouse.commands.guardian_client import GuardianClient

FIRST_DESCRIPTOR = 3
"""The number that the first handed descriptor has in the child; the others follow."""
_OUTPUTS = (1, 2)


class Child:
    """One process and all processes that it starts: the whole tree is killed when the process ends.

    It inherits stdout and stderr, and gets ``handed`` as descriptors 3, 4 and so on, which also stay open in
    this process.
    ``on_end`` is called with the exit code (negative: a signal) when no process of the tree is left.
    """

    def __init__(
        self,
        argv: Sequence[str],
        handed: Sequence[int],
        *,
        guardian: GuardianClient,
        on_end: Callable[[int], None],
        environment: Mapping[str, str] | None = None,
        expendable: bool = False,
    ) -> None:
        self._guardian = guardian
        self._on_end_callback = on_end
        self.exit_code: int | None = None
        request = {
            "argv": list(argv),
            "env": {**os.environ, **(environment or {})},
            "cwd": os.getcwd(),  # noqa: PTH109 - sent as text
            "memory_mb": None,
            "cpu_seconds": None,
            "open_files": None,
            "timeout": None,
            "grace": 0.0,
            "confined": False,
            "expendable": expendable,
        }
        streams = [_BorrowedDescriptor(descriptor) for descriptor in (*_OUTPUTS, *handed)]
        self._execution = Execution(request, streams, lambda _: None, self._on_end)
        self._execution.start(guardian)

    @property
    def pid(self) -> int:
        """The process id; 0 until the process runs."""
        return self._execution.pid

    def kill(self) -> None:
        if self.exit_code is None:
            self._execution.kill()

    def _on_end(self, report: Report) -> None:
        status = report.get("status")
        self.exit_code = -signal.SIGKILL if status is None else status
        self._execution.close(self._guardian)
        self._on_end_callback(self.exit_code)


class _BorrowedDescriptor:
    """A descriptor that stays open in this process."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def release(self) -> None:
        """Do nothing: the descriptor stays open."""

    def close(self) -> None:
        """Do nothing: the descriptor stays open for its owner."""


def describe_exit(code: int) -> str:
    """Return an exit code in words."""
    if code >= 0:
        return f"ended with exit code {code}"
    name = signal.Signals(-code).name
    hint = ": probably out of memory" if name == "SIGKILL" else ""
    return f"was killed by {name} (signal {-code}){hint}"

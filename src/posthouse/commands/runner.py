"""Runs commands, any number at a time, on one event loop."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from typing import Any, Self

from posthouse.commands.completed import Completed, completed
from posthouse.commands.environment import environment
from posthouse.commands.execution import Execution, trouble
from posthouse.commands.placeholder import Values
from posthouse.commands.spec import CommandSpec
from posthouse.commands.stream import OnOutput, OnProgress, Stream, StreamName, Throttle
from posthouse.commands.warden import Warden
from posthouse.core.duration import Duration, seconds

DEFAULT_GRACE_SECONDS = 5.0


class CommandRunner:
    """Starts commands; nothing of one outlives its end, its timeout, its cancellation or this process.

    ``grace`` is how long a command has between SIGTERM and SIGKILL. Close it when done, or use it as an
    async context manager.
    """

    def __init__(self, *, grace: Duration = DEFAULT_GRACE_SECONDS) -> None:
        self._grace = seconds(grace)
        self._warden = Warden()
        self._throttle: Throttle | None = None

    def start(self) -> None:
        """Starts the guardian, which else the first command would have to wait for."""
        self._warden.keep(self._warden.minder())

    async def run(
        self,
        spec: CommandSpec,
        values: Values,
        *,
        secrets: Mapping[str, str] | None = None,
        timeout: Duration | None = None,
        on_start: Callable[[int], None] | None = None,
        on_output: OnOutput | None = None,
        on_progress: OnProgress | None = None,
        on_end: Callable[[Completed], None] | None = None,
    ) -> Completed:
        """Runs a command to its end. Returns, or raises, only when no process of it is left.

        ``secrets`` are values by the names that the definition refers to. ``on_start`` gets the pid,
        ``on_output`` the stream's name and text, ``on_progress`` the newest progress, at most ten times a
        second. ``on_end`` gets what ``run`` returns, and when ``run`` is canceled too.

        Raises InvalidPayload if the values do not fit, CommandUnstartable if there is no such program, folder
        or secret (neither is worth a retry), and CommandLost if a process that looks after it was killed.
        """
        request = self._request(spec, values, secrets or {}, timeout)
        hidden = [request["env"][variable] for variable in spec.secrets]
        streams = self._streams(spec, hidden, on_output, on_progress)
        execution = Execution(request, *streams, on_start or _ignore)
        try:
            execution.start(self._warden)
            report, canceled = await execution.wait()
            for stream in streams:
                stream.finish()
        finally:
            execution.close(self._warden)
        if error := trouble(report, request):
            raise canceled or error
        end = completed(spec, execution.pid, report, *(stream.tail for stream in streams))
        if on_end:
            on_end(end)
        if canceled:
            raise canceled
        return end

    def _request(
        self, spec: CommandSpec, values: Values, secrets: Mapping[str, str], timeout: Duration | None
    ) -> dict[str, Any]:
        return {
            "argv": spec.template.render(values),
            "env": environment(spec, secrets, os.environ),
            "cwd": spec.cwd,
            "memory_mb": spec.memory_mb,
            "cpu_seconds": spec.cpu_seconds,
            "open_files": spec.open_files,
            "timeout": None if timeout is None else seconds(timeout),
            "grace": self._grace,
        }

    def _streams(
        self, spec: CommandSpec, hidden: list[str], on_output: OnOutput | None, on_progress: OnProgress | None
    ) -> tuple[Stream, Stream]:
        if self._throttle is None:
            self._throttle = Throttle(asyncio.get_running_loop())
        throttle = self._throttle

        def stream(name: StreamName) -> Stream:
            return Stream(
                name,
                throttle,
                limit=spec.max_output_bytes,
                secrets=hidden,
                on_output=on_output,
                on_progress=on_progress if spec.progress else None,
            )

        stdout = stream("stdout")
        try:
            return stdout, stream("stderr")
        except OSError:  # no descriptors left
            stdout.close()
            raise

    @property
    def guardian_pid(self) -> int | None:
        """The process that starts commands; None before the first."""
        return self._warden.pid

    def close(self) -> None:
        """Ends the guardian, and every command that still runs."""
        self._warden.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()


def _ignore(_: int) -> None:
    """Nobody wants to know."""

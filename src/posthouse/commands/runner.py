"""Run any number of commands at a time on one event loop."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

from posthouse.commands.execution import CommandResult, Execution, build_result, start_error
from posthouse.commands.guardian_client import GuardianClient
from posthouse.commands.output import OnOutput, OnProgress, OutputStream, StreamName, Throttle
from posthouse.core.command.spec import CommandSpec
from posthouse.core.command.template import Values
from posthouse.core.duration import Duration, seconds
from posthouse.errors import CommandStartError

INTERPRETER_BIN = Path(sys.executable).parent
"""The folder with the programs of packages in the same environment as Posthouse. Searched last, even if no
virtual environment is active.
"""


def environment(
    spec: CommandSpec, secrets: Mapping[str, str], worker_env: Mapping[str, str]
) -> dict[str, str]:
    """Return the environment of the command.

    ``secrets`` maps the names in the definition to values. ``worker_env`` is the worker's environment.
    """
    inherited = {name: worker_env[name] for name in spec.inherit_env if name in worker_env}
    if "PATH" in inherited:
        inherited["PATH"] = f"{inherited['PATH']}{os.pathsep}{INTERPRETER_BIN}"
    return {**inherited, **spec.env, **_resolve_secrets(spec, secrets)}


def _resolve_secrets(spec: CommandSpec, secrets: Mapping[str, str]) -> dict[str, str]:
    if missing := sorted({name for name in spec.secrets.values() if name not in secrets}):
        raise CommandStartError(
            f"the worker lacks the secrets {', '.join(missing)}; set them or change the definition"
        )
    values = {variable: secrets[name] for variable, name in spec.secrets.items()}
    for variable, value in values.items():
        if "\x00" in value:
            raise CommandStartError(f"the secret for {variable} contains a NUL character")
    return values


DEFAULT_GRACE_SECONDS = 5.0


class CommandRunner:
    """A runner of commands.

    No process of a command outlives the command's end, timeout or cancellation, or the end of this process.
    ``grace`` is the time between SIGTERM and SIGKILL. Call ``close()``, or use the runner as an async context
    manager.
    """

    def __init__(self, *, grace: Duration = DEFAULT_GRACE_SECONDS) -> None:
        self._grace = seconds(grace)
        self._guardian = GuardianClient()
        self._throttle: Throttle | None = None

    def start(self) -> None:
        """Start the guardian now, so that the first command does not wait for its start."""
        self._guardian.release(self._guardian.acquire())

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
        on_end: Callable[[CommandResult], None] | None = None,
    ) -> CommandResult:
        """Run a command. Returns or raises only when no process of the command is left.

        ``secrets`` maps the names in the definition to values. ``on_start`` receives the pid, ``on_output``
        the stream's name and text, ``on_progress`` the newest progress, at most ten times a second.
        ``on_end`` receives what ``run`` returns, also when ``run`` is canceled.

        Raises InvalidPayload if the values are invalid, CommandStartError if the program, folder or secret
        does not exist (neither is worth a retry), and CommandInterrupted if a supervising process was killed.
        """
        request = self._request(spec, values, secrets or {}, timeout)
        secret_values = [request["env"][variable] for variable in spec.secrets]
        streams = self._streams(spec, secret_values, on_output, on_progress)
        execution = Execution(request, streams, on_start or _ignore)
        try:
            execution.start(self._guardian)
            report, canceled = await execution.wait()
            for stream in streams:
                stream.finish()
        finally:
            execution.close(self._guardian)
        if error := start_error(report, request):
            raise canceled or error
        end = build_result(spec, execution.pid, report, *(stream.tail for stream in streams))
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
            "confined": True,
            "expendable": True,
        }

    def _streams(
        self,
        spec: CommandSpec,
        secret_values: list[str],
        on_output: OnOutput | None,
        on_progress: OnProgress | None,
    ) -> tuple[OutputStream, OutputStream]:
        if self._throttle is None:
            self._throttle = Throttle(asyncio.get_running_loop())
        throttle = self._throttle

        def stream(name: StreamName) -> OutputStream:
            return OutputStream(
                name,
                throttle,
                limit=spec.max_output_bytes,
                secrets=secret_values,
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
        """The pid of the process that starts commands, or None before the first command."""
        return self._guardian.pid

    def close(self) -> None:
        """Stop the guardian and every command that is still running."""
        self._guardian.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()


def _ignore(_: int) -> None:
    """The default listener, which does nothing."""

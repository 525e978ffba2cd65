"""Run the commands that operators have defined, with the definition current at the start of the run."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Collection, Coroutine, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid5

from posthouse.client.enqueue import EventOptions, encode_event
from posthouse.commands import PERMANENT, CommandProgress, CommandResult, CommandRunner, CommandSpec
from posthouse.core.command.spec import signal_name
from posthouse.core.command.template import TemplateValues, Values
from posthouse.core.definition import StoredDefinition, parse_command
from posthouse.core.outcome import Crashed, Policy
from posthouse.core.retry import DEFAULT_RETRY
from posthouse.core.secret_names import variable_of
from posthouse.errors import (
    CommandInterrupted,
    CommandStartError,
    DatabaseRequired,
    InvalidDefinition,
    LeaseLost,
    PosthouseError,
)
from posthouse.settings import Settings, cores
from posthouse.storage.queries import query
from posthouse.worker.attempt import Attempt
from posthouse.worker.backend import LeaseTiming
from posthouse.worker.definitions import DefinitionWatcher
from posthouse.worker.executor import STOP_GRACE
from posthouse.worker.handlers import COMMAND, HandlerArguments, JobDefinition
from posthouse.worker.job import Job
from posthouse.worker.outcomes import Released


def find_secrets(names: Iterable[str], folder: str) -> dict[str, str]:
    """Return the values of these secrets, from the environment or from files of that name in the folder."""
    return {name: _find(name, folder) for name in names}


def _find(name: str, folder: str) -> str:
    variable = variable_of(name)
    if variable in os.environ:
        return os.environ[variable]
    try:
        value = (Path(folder) / name).read_text() if folder else None
    except FileNotFoundError:
        value = None
    except (OSError, ValueError) as error:  # the text of a decoding error would show a part of the secret
        raise CommandStartError(f"cannot read the secret {name}:  {_why(error)}") from None
    if value is None:
        location = f"a file {name} in {folder}" if folder else f"a file {name} in POSTHOUSE_SECRETS_DIR"
        raise CommandStartError(
            f"secret {name} does not exist on this worker: set {variable}, or put {location}"
        )
    return value.removesuffix("\n").removesuffix("\r")


def _why(error: Exception) -> str:
    return (error.strerror or "") if isinstance(error, OSError) else "it is not valid UTF-8"


_log = logging.getLogger("posthouse.worker")

SLOTS_PER_CORE = 4
FLUSH_TIMEOUT_SECONDS = 5.0


def command_slots(settings: Settings) -> int:
    """Return the number of slots: the setting, or ``SLOTS_PER_CORE`` per core up to the concurrency."""
    return settings.command_slots or min(settings.concurrency, SLOTS_PER_CORE * cores())


class CommandJobs:
    """The runner of command definitions for an executor. It keeps ``known`` up to date with them."""

    def __init__(
        self, definition_watcher: DefinitionWatcher, known: dict[str, JobDefinition], settings: Settings
    ) -> None:
        self._definition_watcher = definition_watcher
        self._known = known
        self._specs: dict[str, tuple[StoredDefinition, CommandSpec]] = {}
        self._loop = asyncio.get_running_loop()
        self._runner = CommandRunner(grace=settings.cancel_grace_seconds)
        self._lease_lost_grace = LeaseTiming(settings.lease_seconds).stop_grace(settings.cancel_grace_seconds)
        self._stop_grace = min(settings.cancel_grace_seconds, STOP_GRACE)
        self._secrets_dir = settings.secrets_dir
        self._most_bytes = settings.max_result_bytes
        self.slots = command_slots(settings)

    @property
    def guardian_pid(self) -> int | None:
        """The pid of the process that starts commands."""
        return self._runner.guardian_pid

    def start(self) -> None:
        """Start the guardian now, so that the first command does not wait for its start."""
        if self._runner.guardian_pid is None:
            self._runner.start()

    def refresh(self, handlers: Collection[str]) -> list[str]:
        """Load the current definitions and return the kinds that can be run.

        A removed definition is kept for jobs that were claimed before its removal. A handler of the same name
        takes precedence over a command.
        """
        return [
            rules.key
            for rules in self._definition_watcher.commands()
            if rules.key not in handlers and self._load(rules)
        ]

    def _load(self, rules: StoredDefinition) -> bool:
        if rules.key in self._specs and self._specs[rules.key][0] == rules:
            return True
        try:
            self._specs[rules.key] = (rules, parse_command(rules))
        except InvalidDefinition as error:  # stored without validation
            _log.error("invalid command definition, its jobs stay queued kind=%s: %s", rules.key, error)
            return False
        self._known[rules.key] = _definition(rules)
        return True

    async def run(self, kind: str, attempts: Sequence[Attempt]) -> list[Any]:
        """Run the command and return its result, or an outcome as a handler would return it."""
        (attempt,) = attempts
        return [await self._run(self._specs[kind][1], attempt)]

    async def _run(self, spec: CommandSpec, attempt: Attempt) -> Any:
        job, pids = Job(attempt), list[int]()
        reports = ProgressReports(job)
        run = self._runner.run(
            spec,
            template_values(job),
            secrets=find_secrets(spec.secrets.values(), self._secrets_dir),
            timeout=None if attempt.deadline is None else max(0.001, attempt.deadline - time.monotonic()),
            on_start=pids.append,
            on_output=job.emit_output,
            on_progress=reports,
            on_end=lambda done: self._record_output(attempt, done),
        )
        try:
            done = await self._run_until_exit(attempt, run)
        except CommandInterrupted as error:
            # The command may have killed its supervisor, even before its start was reported.
            if error.may_have_run:
                raise Crashed(str(error), pid=pids[0] if pids else None) from None
            raise
        finally:
            await reports.flush()
        outcome = done.to_outcome()
        if outcome is None and spec.emits is not None:
            await self._emit(spec.emits, job, done.result)
        return done.result if outcome is None else outcome

    async def _emit(self, name: str, job: Job, result: Any) -> None:
        """Emit the event of a command that succeeded: only once, even if the command runs several times."""
        context = result if isinstance(result, dict) else {"result": result}
        options: EventOptions = {
            "id": uuid5(job.id, f"{job.generation} {name}"),
            "tenant": job.tenant,
            "subject": job.subject,
            "correlation_id": job.correlation_id or str(job.id),
            "created_by": f"job:{job.id}",
        }
        _, text = encode_event(name, context, options, self._most_bytes)
        try:
            async with job.transaction() as connection:
                await connection.execute(query("emit"), (text,))
        except DatabaseRequired:
            job.log.warning("event %s not emitted: this worker has no database connection", name)

    async def _run_until_exit(
        self, attempt: Attempt, run: Coroutine[Any, Any, CommandResult]
    ) -> CommandResult:
        """Wait until no process of the command is left, even if canceled.

        After a lost lease and at shutdown, the command has a shorter grace.
        """
        task = self._loop.create_task(run)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            task.cancel()
            if isinstance(attempt.stop_reason, LeaseLost | Released):
                stopping = type(attempt.stop_reason) is Released
                self._loop.call_later(self._stop_grace if stopping else self._lease_lost_grace, task.cancel)
        return await task

    def _record_output(self, attempt: Attempt, done: CommandResult) -> None:
        mask = self._definition_watcher.mask_text
        attempt.command_output = {
            "pid": done.pid,
            "exit_code": done.exit_code,
            "signal": None if done.signal is None else signal_name(done.signal),
            "stdout": mask(attempt, done.stdout_tail, cut=done.stdout_dropped > 0),
            "stderr": mask(attempt, done.stderr_tail, cut=done.stderr_dropped > 0),
            "stdout_dropped": done.stdout_dropped or None,
            "stderr_dropped": done.stderr_dropped or None,
            "cpu_seconds": round(done.cpu_seconds, 3),
            "max_rss_mb": round(done.max_rss_mb, 1),
        }

    async def stop(self) -> None:
        await asyncio.to_thread(self._runner.close)


class ProgressReports:
    """A callback that reports a command's progress: only the newest, one at a time, so that none queue up."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._newest: CommandProgress | None = None
        self._task: asyncio.Task[None] | None = None

    def __call__(self, progress: CommandProgress) -> None:
        self._newest = progress
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._report())

    async def _report(self) -> None:
        with suppress(PosthouseError):  # the heartbeat detects a lost lease as well
            while (progress := self._newest) is not None:
                self._newest = None
                await self._job.progress(progress.percent, step=progress.step, message=progress.message)

    async def flush(self) -> None:
        if self._task is not None:
            await asyncio.wait([self._task], timeout=FLUSH_TIMEOUT_SECONDS)


def template_values(job: Job) -> Values:
    """Return the values that a command template can use."""
    values = TemplateValues(
        tenant_id=job.tenant,
        job_id=str(job.id),
        attempt=job.attempt,
        correlation_id=job.correlation_id,
        subject=job.subject,
    )
    return values.with_payload(job.payload)


async def _placeholder_handler(job: Job) -> None:
    """Stand in as the handler of command definitions, which CommandJobs runs instead."""


_ARGUMENTS = HandlerArguments("a command", _placeholder_handler, batch=False)


def _definition(rules: StoredDefinition) -> JobDefinition:
    return JobDefinition(
        kind=rules.key,
        handler=_placeholder_handler,
        queue=rules.queue,
        priority=0,  # the priority and the next field are set at enqueue
        max_attempts=1,
        timeout=rules.timeout_seconds,
        policy=Policy(DEFAULT_RETRY, PERMANENT),
        batch=None,
        arguments=_ARGUMENTS,
        is_async=True,
        runner=COMMAND,
        redact=rules.redact,
    )

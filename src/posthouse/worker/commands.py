"""Runs the commands that operators have defined, as their definitions stand when a run starts."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Collection, Coroutine, Sequence
from contextlib import suppress
from typing import Any

from posthouse.commands import PERMANENT, CommandRunner, CommandSpec, Completed, Progress
from posthouse.commands.exits import signal_name
from posthouse.commands.payloads import spec_of
from posthouse.core.kind import KindRules
from posthouse.core.outcome import Crashed, Policy
from posthouse.core.retry import DEFAULT_RETRY
from posthouse.errors import CommandLost, InvalidDefinition, LeaseLost, PosthouseError
from posthouse.settings import Settings
from posthouse.worker.arguments import Arguments
from posthouse.worker.definition import COMMAND, Definition
from posthouse.worker.executor import CutOff
from posthouse.worker.job import Job
from posthouse.worker.rulebook import Rulebook
from posthouse.worker.secrets import find_secrets

_log = logging.getLogger("posthouse.worker")

SLOTS_PER_CORE = 4
LANDING_SECONDS = 5.0


def command_slots(settings: Settings) -> int:
    """What the setting says, or some for each core."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return settings.command_slots or min(settings.concurrency, SLOTS_PER_CORE * cores)


class Commands:
    """Keeps ``known`` up to date with the commands that there are, and runs them for an executor."""

    def __init__(self, rulebook: Rulebook, known: dict[str, Definition], settings: Settings) -> None:
        self._rulebook = rulebook
        self._known = known
        self._specs: dict[str, tuple[KindRules, CommandSpec]] = {}
        self._loop = asyncio.get_running_loop()
        self._runner = CommandRunner(grace=settings.cancel_grace_seconds)
        # A lease is given up when a tenth of it is left: what runs must be gone before that is over.
        self._lost_grace = min(settings.cancel_grace_seconds, settings.lease_seconds * 0.05)
        self._secrets_dir = settings.secrets_dir
        self.slots = command_slots(settings)

    @property
    def guardian_pid(self) -> int | None:
        """The process that starts commands."""
        return self._runner.guardian_pid

    def start(self) -> None:
        """Starts what starts commands, so that the first one need not wait for it."""
        if self._runner.guardian_pid is None:
            self._runner.start()

    def adopt(self, handlers: Collection[str]) -> list[str]:
        """Takes over the definitions as they are now; returns the kinds of those that can be run.

        One that is gone is kept for jobs that were claimed before. A handler of that name comes first.
        """
        return [
            rules.key
            for rules in self._rulebook.commands()
            if rules.key not in handlers and self._adopted(rules)
        ]

    def _adopted(self, rules: KindRules) -> bool:
        if rules.key in self._specs and self._specs[rules.key][0] == rules:
            return True
        try:
            self._specs[rules.key] = (rules, spec_of(rules))
        except InvalidDefinition as error:  # stored by hand, past all checks
            _log.error("jobs of kind %s wait: %s", rules.key, error)
            return False
        self._known[rules.key] = _definition(rules)
        return True

    async def run(self, kind: str, jobs: Sequence[Job]) -> list[Any]:
        """What came of the command: a result, or an ending as a handler would return it."""
        (job,) = jobs
        return [await self._run(self._specs[kind][1], job)]

    async def _run(self, spec: CommandSpec, job: Job) -> Any:
        pids: list[int] = []
        reports = ProgressReports(job)
        run = self._runner.run(
            spec,
            values_of(job),
            secrets=find_secrets(spec.secrets.values(), self._secrets_dir),
            timeout=None if job.deadline is None else max(0.001, job.deadline - time.monotonic()),
            on_start=pids.append,
            on_output=job.emit_output,
            on_progress=reports,
            on_end=lambda done: self._keep_output(job, done),
        )
        try:
            done = await self._to_its_end(job, run)
        except CommandLost as error:
            if pids:  # it ran, and may be what killed those who looked after it
                raise Crashed(str(error), pid=pids[0]) from None
            raise
        finally:
            await reports.landed()
        ending = done.ending()
        return done.result if ending is None else ending

    async def _to_its_end(self, job: Job, run: Coroutine[Any, Any, Completed]) -> Completed:
        """Canceled, it still waits until no process of it is left; for a lost lease with less patience."""
        task = self._loop.create_task(run)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            task.cancel()
            if isinstance(job.reason, LeaseLost | CutOff):
                self._loop.call_later(self._lost_grace, task.cancel)
        return await task

    def _keep_output(self, job: Job, done: Completed) -> None:
        masked = self._rulebook.masked
        job.output = {
            "pid": done.pid,
            "exit_code": done.exit_code,
            "signal": None if done.signal is None else signal_name(done.signal),
            "stdout": masked(job, done.stdout_tail, cut=done.stdout_dropped > 0),
            "stderr": masked(job, done.stderr_tail, cut=done.stderr_dropped > 0),
            "stdout_dropped": done.stdout_dropped or None,
            "stderr_dropped": done.stderr_dropped or None,
            "cpu_seconds": round(done.cpu_seconds, 3),
            "max_rss_mb": round(done.max_rss_mb, 1),
        }

    async def stop(self) -> None:
        await asyncio.to_thread(self._runner.close)


class ProgressReports:
    """Hands on what a command reports: the newest, one at a time, so that none pile up."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._newest: Progress | None = None
        self._task: asyncio.Task[None] | None = None

    def __call__(self, progress: Progress) -> None:
        self._newest = progress
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._report())

    async def _report(self) -> None:
        with suppress(PosthouseError):  # of a lost lease the heartbeat hears too
            while (progress := self._newest) is not None:
                self._newest = None
                await self._job.progress(progress.percent, step=progress.step, message=progress.message)

    async def landed(self) -> None:
        if self._task is not None:
            await asyncio.wait([self._task], timeout=LANDING_SECONDS)


def values_of(job: Job) -> dict[str, Any]:
    """What a command's arguments may be made of."""
    return {
        "tenant_id": job.tenant,
        "job_id": str(job.id),
        "attempt": job.attempt,
        "correlation_id": job.correlation_id,
        "subject": job.subject,
        "payload": job.payload,
    }


async def _run_elsewhere(job: Job) -> None:
    """Runs a command; see Commands."""


_ARGUMENTS = Arguments("a command", _run_elsewhere, batch=False)


def _definition(rules: KindRules) -> Definition:
    return Definition(
        kind=rules.key,
        handler=_run_elsewhere,
        queue=rules.queue,
        priority=0,  # of a job, this and the next are known when it is enqueued
        max_attempts=1,
        timeout=rules.timeout_seconds,
        policy=Policy(DEFAULT_RETRY, PERMANENT),
        batch=None,
        arguments=_ARGUMENTS,
        is_async=True,
        runner=COMMAND,
        redact=rules.redact,
    )

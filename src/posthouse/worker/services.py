"""The calls that a job can make to its worker.

``JobServices`` declares every call once. A subclass implements some calls and forwards the others: the worker
implements all of them, a job process forwards them to its worker, and ``testing.run`` rejects most.
"""
# The declared calls have no bodies: the decorators replace them.
# mypy: disable-error-code=empty-body

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, NamedTuple, ParamSpec, TypeVar
from uuid import UUID

from posthouse.core.outcome import Cancel
from posthouse.core.progress import decode_kept
from posthouse.core.request import Request
from posthouse.errors import LeaseLost, ServerUnavailable
from posthouse.settings import Settings
from posthouse.storage.connections import HandlerPools
from posthouse.waiting import Backoff
from posthouse.worker.backend import UNREACHABLE, Backend
from posthouse.worker.definitions import DefinitionWatcher, RedactionOverride
from posthouse.worker.log_writer import LogWriter
from posthouse.worker.progress import ProgressWriter

if TYPE_CHECKING:
    from posthouse.worker.attempt import Attempt

T = TypeVar("T")
P = ParamSpec("P")

REQUESTS: set[str] = set()
"""Names of the calls with a result. Their arguments, results and errors can be sent as JSON."""
NOTICES: set[str] = set()
"""Names of the calls without a result. The caller does not wait for them."""


def _request(
    declared: Callable[Concatenate[JobServices, Attempt, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[JobServices, Attempt, P], Coroutine[Any, Any, T]]:
    """Register a call with a result. A class that does not implement the call forwards it."""
    name = declared.__name__
    REQUESTS.add(name)

    @functools.wraps(declared)
    async def send(self: JobServices, attempt: Attempt, *arguments: P.args, **keywords: P.kwargs) -> T:
        del keywords  # calls are positional
        return await self.send_request(name, attempt, *arguments)  # type: ignore[no-any-return]

    return send  # type: ignore[return-value]


def _notice(
    declared: Callable[Concatenate[JobServices, Attempt, P], None],
) -> Callable[Concatenate[JobServices, Attempt, P], None]:
    """Register a call without a result. A class that does not implement the call forwards it."""
    name = declared.__name__
    NOTICES.add(name)

    @functools.wraps(declared)
    def send(self: JobServices, attempt: Attempt, *arguments: P.args, **keywords: P.kwargs) -> None:
        del keywords
        self.send_notice(name, attempt, *arguments)

    return send  # type: ignore[return-value]


class JobLimits(NamedTuple):
    """Settings that apply to the calls of a job, in every process."""

    payload_bytes: int
    result_bytes: int
    log_level: int
    lease_seconds: float


class JobServices:
    """The calls of a job. To add one, declare it here and implement it in ``WorkerJobServices``."""

    def __init__(self, loop: asyncio.AbstractEventLoop, limits: JobLimits, pools: HandlerPools) -> None:
        self.loop = loop
        self.limits = limits
        self._pools = pools

    @_request
    async def report_progress(
        self, attempt: Attempt, percent: float | None, step: str | None, message: str | None
    ) -> None: ...

    @_request
    async def report_part(self, attempt: Attempt, change: Mapping[str, Any]) -> None: ...

    @_request
    async def declare_parts(
        self, attempt: Attempt, declarations: Sequence[Mapping[str, Any]]
    ) -> list[dict[str, Any]]:
        """Store parts and return all parts of the job, including those of earlier attempts."""

    @_request
    async def steps_done(self, attempt: Attempt) -> list[str]: ...

    @_request
    async def find_step(self, attempt: Attempt, name: str) -> tuple[bool, Any]:
        """Return whether the step is done, and its result."""

    @_request
    async def save_step(self, attempt: Attempt, name: str, result: str, seconds: float) -> None:
        """Store a step. Wait while Postgres is unreachable, until the lease is lost."""

    @_notice
    def mark_step_done(self, attempt: Attempt, name: str) -> None:
        """Record a step that a transaction of the handler has stored."""

    @_notice
    def mark_committing(self, attempt: Attempt) -> None:
        """Record that a transaction is about to complete the job: its lease then ends, but is not lost."""

    @_request
    async def upload(self, attempt: Attempt, name: str, path: str) -> dict[str, Any]: ...

    @_request
    async def download(
        self, attempt: Attempt, name: str, path: str, job_id: str | None
    ) -> dict[str, Any]: ...

    @_notice
    def emit(self, attempt: Attempt, stream: str, level: str | None, text: str) -> None:
        """Add a text to the job's log."""

    @_request
    async def flush(self, attempt: Attempt) -> None:
        """Write the buffered reports and log lines of a job before its outcome is written."""

    async def send_request(self, method: str, attempt: Attempt, *arguments: Any) -> Any:
        """Make a call that this class does not implement."""
        raise NotImplementedError(method)

    def send_notice(self, method: str, attempt: Attempt, *arguments: Any) -> None:
        """Make a call without a result that this class does not implement."""
        raise NotImplementedError(method)

    def get_pools(self, attempt: Attempt) -> HandlerPools:  # noqa: ARG002 - some classes have none
        """Return the connections for transactions of the handler."""
        return self._pools

    def apply_definition(self, request: Request) -> Request:
        """Return a follow-up with the overrides of its definition. Raise if its kind would reject it."""
        return request


class WorkerJobServices(JobServices):
    """The calls of a job, implemented with the worker's backend."""

    def __init__(self, backend: Backend, settings: Settings, definition_watcher: DefinitionWatcher) -> None:
        limits = JobLimits(
            settings.max_payload_bytes,
            settings.max_result_bytes,
            log_threshold(settings.job_log_level),
            settings.lease_seconds,
        )
        super().__init__(asyncio.get_running_loop(), limits, backend.pools())
        self._definition_watcher = definition_watcher
        self._attempts = backend.attempts()
        self._artifacts = backend.artifacts()
        self._reporter = ProgressWriter(self._attempts)
        self._tail = LogWriter(self._attempts, settings.job_log_bytes, definition_watcher.mask_text)
        self.tasks: list[Callable[[], Awaitable[None]]] = [self._reporter.run, self._tail.run]
        """The loops that the worker must run for these services."""

    async def close(self) -> None:
        await self._attempts.close()
        await self._pools.close()
        await self._artifacts.close()

    async def report_progress(
        self, attempt: Attempt, percent: float | None, step: str | None, message: str | None
    ) -> None:
        texts = {"step": self._masked(attempt, step), "message": self._masked(attempt, message)}
        await self._reporter.report(attempt, {"percent": percent, **texts})

    async def report_part(self, attempt: Attempt, change: Mapping[str, Any]) -> None:
        texts = {name: self._masked(attempt, change.get(name)) for name in ("message", "error")}
        await self._reporter.report(attempt, {}, {**change, **texts})

    def _masked(self, attempt: Attempt, text: str | None) -> str | None:
        return None if text is None else self._definition_watcher.mask_text(attempt, text)

    async def declare_parts(
        self, attempt: Attempt, declarations: Sequence[Mapping[str, Any]]
    ) -> list[dict[str, Any]]:
        for declaration in declarations[:-1]:
            attempt.get_pending_report().add({}, declaration)
        if declarations:
            await self._reporter.report(attempt, {}, declarations[-1], at_once=True)
        names = {declaration["name"] for declaration in declarations}

        async def declared() -> list[dict[str, Any]]:
            rows = await self._attempts.parts(attempt.id, attempt.token)
            if not names <= {row["name"] for row in rows}:  # not written yet
                raise ServerUnavailable("the parts of the job are not available yet")
            return rows

        rows = await self._retry_while_unreachable(attempt, declared)
        return [{name: row[name] for name in PART_FIELDS} for row in rows]

    async def steps_done(self, attempt: Attempt) -> list[str]:
        return await self._retry_while_unreachable(
            attempt, lambda: self._attempts.steps_done(attempt.id, attempt.token)
        )

    async def find_step(self, attempt: Attempt, name: str) -> tuple[bool, Any]:
        attempt.ensure_lease_held()
        report = attempt.get_pending_report()
        if report.steps is None:
            report.steps = set() if attempt.is_first else set(await self.steps_done(attempt))
        if name not in report.steps:
            return False, None
        text = await self._retry_while_unreachable(
            attempt, lambda: self._attempts.step_result(attempt.id, attempt.token, name)
        )
        return True, decode_kept(text)

    async def save_step(self, attempt: Attempt, name: str, result: str, seconds: float) -> None:
        values = (attempt.id, attempt.token, self._attempts.lease_seconds, name, result, seconds, False)
        if await self._retry_while_unreachable(attempt, lambda: self._attempts.save_step(values)) == "lost":
            attempt.mark_lease_lost()
            raise attempt.lease_lost_error()
        self.mark_step_done(attempt, name)

    def mark_step_done(self, attempt: Attempt, name: str) -> None:
        report = attempt.get_pending_report()
        report.steps = (report.steps or set()) | {name}

    def mark_committing(self, attempt: Attempt) -> None:
        attempt.is_committing = True

    async def upload(self, attempt: Attempt, name: str, path: str) -> dict[str, Any]:
        return await self._guard_lease(
            attempt, lambda: self._artifacts.put(attempt.id, attempt.token, name, Path(path))
        )

    async def download(self, attempt: Attempt, name: str, path: str, job_id: str | None) -> dict[str, Any]:
        other = None if job_id is None else UUID(job_id)
        return await self._guard_lease(
            attempt, lambda: self._artifacts.get(attempt.id, attempt.token, name, Path(path), other)
        )

    async def _guard_lease(self, attempt: Attempt, ask: Callable[[], Awaitable[T]]) -> T:
        try:
            return await self._retry_while_unreachable(attempt, ask)
        except LeaseLost:
            attempt.mark_lease_lost()
            raise

    async def _retry_while_unreachable(self, attempt: Attempt, ask: Callable[[], Awaitable[T]]) -> T:
        backoff = Backoff()
        while True:
            attempt.ensure_lease_held()
            if attempt.stop_reason is not None:  # a waiting thread cannot be interrupted
                raise Cancel("canceled while waiting for the worker")
            try:
                return await ask()
            except UNREACHABLE:
                await backoff.sleep()

    def emit(self, attempt: Attempt, stream: str, level: str | None, text: str) -> None:
        self._tail.emit(attempt, stream, level, text)

    async def flush(self, attempt: Attempt) -> None:
        if not attempt.is_finished:
            await self._reporter.flush(attempt)
            await self._tail.flush(attempt)

    def apply_definition(self, request: Request) -> Request:
        return self._definition_watcher.apply_definition(request, self.limits.payload_bytes)

    def redaction_override(self, kind: str) -> RedactionOverride | None:
        return self._definition_watcher.redaction_override(kind)


PART_FIELDS = ("name", "status", "percent", "done", "total", "weight", "message", "result")


def log_threshold(name: str) -> int:
    """Return the number of a log level; ``off`` is above all levels."""
    return logging.getLevelNamesMapping().get(name.upper(), logging.CRITICAL + 1)

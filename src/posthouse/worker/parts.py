"""Named parts of a job, such as a video quality, a chunk or a file."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from posthouse.core.progress import (
    COMPLETED,
    FAILED,
    IN_PROGRESS,
    PENDING,
    SKIPPED,
    checked_count,
    checked_name,
    checked_percent,
    checked_weight,
    clipped,
    decode_kept,
    encode_kept,
)

if TYPE_CHECKING:
    from posthouse.worker.job import Job

RESULT_LIMIT = 65_536


class Part:
    """A named part of a job, with its own status and progress. Created by ``job.part()`` and ``job.parts()``.

    Await the reports in an async handler; in a thread handler call them without ``await``.

    Used as a context manager, the part is started when the block is entered, completed when it ends, and
    failed when it raises: ``async with job.part("720p") as part:``, or ``with`` in a thread handler.
    """

    def __init__(self, job: Job, name: str, total: int | None = None, weight: float | None = None) -> None:
        self._job = job
        self.name = checked_name("part", name)
        self.total = checked_count("total", total)
        self.weight = checked_weight(weight)
        self.status: str = PENDING
        """``pending``, ``in_progress``, ``completed``, ``failed`` or ``skipped``, as known to this attempt.
        """
        self.percent = 0.0
        self.done: int | None = None
        self.message: str | None = None
        self.result: Any = None

    def __repr__(self) -> str:
        return f"<Part {self.name} {self.status} {self.percent:.0f} %>"

    @property
    def ended(self) -> bool:
        """Whether the part is completed or skipped, in this or an earlier attempt."""
        return self.status in {COMPLETED, SKIPPED}

    def start(self, message: str | None = None) -> Awaitable[None]:
        """Report that work on the part has started. Progress of an earlier attempt is reset."""
        self.percent = 0.0
        self.done = 0 if self.total is not None else None
        return self._tell(IN_PROGRESS, restart=True, percent=0.0, done=self.done, message=message)

    def progress(
        self, percent: float | None = None, *, done: int | None = None, message: str | None = None
    ) -> Awaitable[None]:
        """Report progress: a percentage, or ``done``, the number of finished units out of ``total``."""
        percent = checked_percent(percent)
        done = checked_count("done", done)
        if done is not None:
            self.done = done
            if percent is None and self.total:
                percent = min(100.0, 100.0 * done / self.total)
        if percent is not None:
            self.percent = percent
        return self._tell(IN_PROGRESS, percent=percent, done=done, message=message)

    def advance(self, by: int = 1, *, message: str | None = None) -> Awaitable[None]:
        """Report that ``by`` more units of ``total`` are done."""
        return self.progress(done=(self.done or 0) + by, message=message)

    def complete(self, result: Any = None, *, message: str | None = None) -> Awaitable[None]:
        """Report that the part is complete. ``result`` is stored with it as JSON (at most 64 KiB)."""
        kept = encode_kept(f"part {self.name!r}", result, RESULT_LIMIT)
        self.percent, self.result = 100.0, decode_kept(kept)
        return self._tell(COMPLETED, done=self.total, message=message, result=self.result)

    def fail(self, error: object) -> Awaitable[None]:
        """Report that the part has failed. This does not fail the job; the handler decides that."""
        text = f"{type(error).__name__}: {error}" if isinstance(error, BaseException) else str(error)
        return self._tell(FAILED, error=clipped(text))

    def skip(self, reason: str | None = None) -> Awaitable[None]:
        """Report that the part does not apply. Skipped parts do not count towards the job's progress."""
        return self._tell(SKIPPED, message=reason)

    def _tell(self, status: str, *, message: str | None = None, **changes: Any) -> Awaitable[None]:
        self.status = status
        self.message = clipped(message) if message is not None else self.message
        return self._job.report_part(
            {**self.declaration(), "status": status, "message": clipped(message), **changes}
        )

    def declaration(self) -> dict[str, Any]:
        return {"name": self.name, "total": self.total, "weight": self.weight}

    def recall(self, row: Mapping[str, Any]) -> Self:
        """Take over the stored state of the part."""
        for field in ("status", "percent", "done", "total", "weight", "message", "result"):
            setattr(self, field, row[field])
        return self

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        ending = self._ending(error)
        if ending is not None:
            await ending

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ending(error)

    def _ending(self, error: BaseException | None) -> Awaitable[None] | None:
        """Return the report for the end of the block.

        Returns None if the handler has already reported the end of the part, or if the job itself was
        stopped.
        """
        if error is None:
            return self.complete() if self.status == IN_PROGRESS else None
        return self.fail(error) if isinstance(error, Exception) and not self._job.lost else None

"""Named parts of a job: a quality, a chunk, a file."""

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
    """One part of a job. Every report is awaited in an async handler and a plain call in a thread.

    As a context it starts the part, completes it when the block ends, and fails it when the block raises:
    ``async with job.part("720p") as part:``, and ``with`` in a thread.
    """

    def __init__(self, job: Job, name: str, total: int | None = None, weight: float | None = None) -> None:
        self._job = job
        self.name = checked_name("part", name)
        self.total = checked_count("total", total)
        self.weight = checked_weight(weight)
        self.status: str = PENDING
        """pending, in_progress, completed, failed or skipped, as far as this attempt knows."""
        self.percent = 0.0
        self.done: int | None = None
        self.message: str | None = None
        self.result: Any = None

    def __repr__(self) -> str:
        return f"<Part {self.name} {self.status} {self.percent:.0f} %>"

    @property
    def ended(self) -> bool:
        """Whether nothing is left to do: completed or skipped, now or in an earlier attempt."""
        return self.status in {COMPLETED, SKIPPED}

    def start(self, message: str | None = None) -> Awaitable[None]:
        """It is being worked on; again, if an earlier attempt had begun."""
        self.percent = 0.0
        self.done = 0 if self.total is not None else None
        return self._tell(IN_PROGRESS, restart=True, percent=0.0, done=self.done, message=message)

    def progress(
        self, percent: float | None = None, *, done: int | None = None, message: str | None = None
    ) -> Awaitable[None]:
        """How far it is: a percentage, or how many of its ``total`` are done."""
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
        """So many more of its total are done."""
        return self.progress(done=(self.done or 0) + by, message=message)

    def complete(self, result: Any = None, *, message: str | None = None) -> Awaitable[None]:
        kept = encode_kept(f"part {self.name!r}", result, RESULT_LIMIT)
        self.percent, self.result = 100.0, decode_kept(kept)
        return self._tell(COMPLETED, done=self.total, message=message, result=self.result)

    def fail(self, error: object) -> Awaitable[None]:
        """It did not work out; whether the job fails is for the handler to say."""
        text = f"{type(error).__name__}: {error}" if isinstance(error, BaseException) else str(error)
        return self._tell(FAILED, error=clipped(text))

    def skip(self, reason: str | None = None) -> Awaitable[None]:
        """It does not apply, and does not count."""
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
        """Takes over what is stored."""
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
        """The report that ends the block; None if the block said how it ended, or the job itself is ended."""
        if error is None:
            return self.complete() if self.status == IN_PROGRESS else None
        return self.fail(error) if isinstance(error, Exception) and not self._job.lost else None

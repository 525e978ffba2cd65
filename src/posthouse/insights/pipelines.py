"""A pipeline seen as one thing: the jobs of a correlation."""

from __future__ import annotations

from dataclasses import dataclass

from posthouse.storage.reading import Db, fetch


@dataclass(frozen=True, slots=True, kw_only=True)
class StageInfo:
    """How far the jobs of one kind are."""

    kind: str
    jobs: int
    succeeded: int
    unsuccessful: int
    done: float
    """In jobs: those that succeeded, and of the others what they reported."""

    def __add__(self, other: StageInfo) -> StageInfo:
        """The same stage of two pipelines."""
        return StageInfo(
            kind=self.kind,
            jobs=self.jobs + other.jobs,
            succeeded=self.succeeded + other.succeeded,
            unsuccessful=self.unsuccessful + other.unsuccessful,
            done=self.done + other.done,
        )

    @property
    def active(self) -> int:
        return self.jobs - self.succeeded - self.unsuccessful


async def stages_of(connection: Db, correlation_id: str) -> list[StageInfo]:
    """In the order in which their first jobs were enqueued."""
    return await fetch(connection, "correlation_stages", StageInfo, correlation_id=correlation_id)

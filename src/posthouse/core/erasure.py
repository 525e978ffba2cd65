"""An erasure: the removal of the content of all jobs of a subject."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID


@dataclass(frozen=True, slots=True)
class Erasure:
    """The erasure of the jobs and events of a subject, with what has been erased so far.

    ``state``: ``erasing`` while jobs of the subject are still running, then ``erased``.
    """

    id: UUID
    tenant_id: str
    subject: str
    state: str
    jobs: int
    events: int
    artifacts: int
    requested_at: datetime
    requested_by: str
    ended_at: datetime | None

    @property
    def done(self) -> bool:
        return self.ended_at is not None

"""Recent runs of a trigger."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from uuid import UUID

from posthouse.insights.masking import WITHOUT_JOB
from posthouse.insights.triggers import TriggerInfo
from posthouse.storage.queries import Db, fetch


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerOutcome:
    """A run of a trigger and the job that it created, if that is still stored.

    ``outcome``: fired; deduped (``job_id`` was created before, same payload); overlap (the previous job
    was still active); missed (no keeper created it in time, nor those up to ``through``); or error.
    ``reason`` says why there is no job.
    """

    at: datetime
    outcome: Literal["fired", "deduped", "overlap", "missed", "error"]
    event_id: UUID | None
    event_name: str | None
    replay: int
    nominal_at: datetime | None
    through: datetime | None
    reason: str | None
    job_id: UUID | None
    job_status: str | None
    job_started_at: datetime | None
    job_finished_at: datetime | None

    @property
    def position(self) -> datetime:
        """The cursor of this run in the list."""
        return self.nominal_at or self.at


async def outcomes_of(
    connection: Db, trigger: TriggerInfo, *, before: datetime | None = None, limit: int = 20
) -> list[TriggerOutcome]:
    """Return the latest runs first; ``before``: continue after this cursor."""
    name = "trigger_matches" if trigger.type == "event" else "trigger_runs"
    found = await fetch(connection, name, TriggerOutcome, id=trigger.id, before=before, limit=limit)
    return [WITHOUT_JOB.of(item) for item in found]

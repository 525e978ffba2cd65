"""The fields that a filter may use, and the meaning of each."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum

from posthouse.core.states import Status

SOURCES = ("manual", "event", "schedule", "system")
PAYLOAD = "payload"
WORD = "word"
"""The type of a word without a field: the prefix of an id, a subject or a kind."""


class Takes(StrEnum):
    TEXT = "text"
    PIECE = "piece of a text"
    CHOICE = "choice"
    NUMBER = "number"
    TIME = "time"
    ID = "id"
    JSON = "json"


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    takes: Takes
    meaning: str
    choices: tuple[str, ...] = ()


FIELDS: dict[str, Field] = {
    field.name: field
    for field in (
        Field("status", Takes.CHOICE, "job status", tuple(status.value for status in Status)),
        Field("kind", Takes.TEXT, "job kind"),
        Field("queue", Takes.TEXT, "queue name"),
        Field("source", Takes.CHOICE, "how the job was created", SOURCES),
        Field("subject", Takes.TEXT, "subject, as set by the caller"),
        Field("correlation", Takes.TEXT, "correlation id, shared by the jobs of a pipeline"),
        Field("worker", Takes.TEXT, "the current or last worker: name, host, or prefix of its id"),
        Field("tenant", Takes.TEXT, "tenant"),
        Field("id", Takes.ID, "job id, or a prefix of it"),
        Field("priority", Takes.NUMBER, "priority: a number (lower first), or urgent, high, normal, low"),
        Field("attempts", Takes.NUMBER, "number of attempts"),
        Field("created", Takes.TIME, "time of the enqueue: <2h (younger), >2h (older), a day, or a range"),
        Field("finished", Takes.TIME, "time of the end: <2h (younger), >2h (older), a day, or a range"),
        Field("error", Takes.PIECE, "text in the last error; never matches jobs that succeeded"),
        Field("fingerprint", Takes.TEXT, "fingerprint of the failure group, or a prefix of it"),
        Field(PAYLOAD, Takes.JSON, "a payload field: payload.video_id:42"),
    )
}
ALIASES = {
    "definition_key": "kind",
    "correlation_id": "correlation",
    "tenant_id": "tenant",
    "worker_id": "worker",
    "attempt_count": "attempts",
    "queued_at": "created",
    "created_at": "created",
    "finished_at": "finished",
    "last_error": "error",
}
"""Other names of the fields."""


def nearest(text: str, names: tuple[str, ...] | dict[str, Field]) -> str | None:
    found = get_close_matches(text.lower(), names, n=1, cutoff=0.5)
    return found[0] if found else None

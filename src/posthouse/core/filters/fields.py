"""The fields that a filter may name, and what stands behind each."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum

from posthouse.core.states import Status

SOURCES = ("manual", "event", "schedule", "system")
PAYLOAD = "payload"
WORD = "word"
"""What a word without a field becomes: the beginning of an id, a subject or a kind."""


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
        Field("status", Takes.CHOICE, "where it stands", tuple(status.value for status in Status)),
        Field("kind", Takes.TEXT, "what it does: the key of its definition"),
        Field("queue", Takes.TEXT, "the queue that it is in"),
        Field("source", Takes.CHOICE, "where it came from", SOURCES),
        Field("subject", Takes.TEXT, "what it is about"),
        Field("correlation", Takes.TEXT, "the run of a pipeline that it belongs to"),
        Field("worker", Takes.TEXT, "who runs it, or did last: a name, a host, or the beginning of an id"),
        Field("tenant", Takes.TEXT, "whose it is"),
        Field("id", Takes.ID, "its id, or the beginning of it"),
        Field("priority", Takes.NUMBER, "lower first; urgent, high, normal and low are numbers too"),
        Field("attempts", Takes.NUMBER, "how often it was started"),
        Field("created", Takes.TIME, "when it was enqueued: <2h younger, >2h older, a day, a range"),
        Field("finished", Takes.TIME, "when it ended: <2h younger, >2h older, a day, a range"),
        Field("error", Takes.PIECE, "a piece of its last error, unless it succeeded"),
        Field("fingerprint", Takes.TEXT, "of the failure that it ended with, or the beginning of it"),
        Field(PAYLOAD, Takes.JSON, "a value in its payload: payload.video_id:42"),
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
"""What a job's fields are called elsewhere."""


def nearest(text: str, names: tuple[str, ...] | dict[str, Field]) -> str | None:
    found = get_close_matches(text.lower(), names, n=1, cutoff=0.5)
    return found[0] if found else None

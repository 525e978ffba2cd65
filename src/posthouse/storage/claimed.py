"""A claimed job, as the statements ``claim`` and ``claimed`` return it, and as JSON for remote workers."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from pydantic_core import to_json

_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_TIMES = ("queued_at", "scheduled_for", "started_at", "attempt_started_at")
_CONVERTED = {"id", "payload", "parent_id", *_TIMES}


class ClaimedJob(NamedTuple):
    """The columns of the statement ``claim``, in order. Ids and times are decoded when they are needed."""

    id: bytes
    kind: str
    queue: str
    tenant_id: str
    payload: str
    attempt: int
    max_attempts: int
    priority: int
    lane: int
    position: int
    crashes: int
    snoozes: int
    generation: int
    timeout_seconds: float | None
    retry: dict[str, Any] | None
    correlation_id: str | None
    subject: str | None
    parent_id: UUID | None
    queued_at: bytes
    scheduled_for: bytes
    started_at: bytes
    attempt_started_at: bytes
    last_error: str | None
    trace: str | None

    def to_json(self, *, payload_as_text: bool) -> bytes:
        """Encode the job. The payload is passed through as the database wrote it: as an object or a text."""
        fields = {name: value for name, value in self._asdict().items() if name not in _CONVERTED}
        fields["id"] = str(UUID(bytes=self.id))
        fields["parent_id"] = None if self.parent_id is None else str(self.parent_id)
        for name in _TIMES:
            fields[name] = decode_time(getattr(self, name)).isoformat()
        if payload_as_text:
            return to_json({**fields, "payload_text": self.payload})
        return b'%b,"payload":%b}' % (to_json(fields)[:-1], self.payload.encode())

    @classmethod
    def from_json(cls, job: Mapping[str, Any]) -> ClaimedJob:
        """Decode a job as a worker with a database connection would have received it."""
        fields = {name: job[name] for name in cls._fields if name not in _CONVERTED}
        fields["id"] = UUID(job["id"]).bytes
        fields["payload"] = job["payload_text"]
        fields["parent_id"] = None if job["parent_id"] is None else UUID(job["parent_id"])
        for name in _TIMES:
            fields[name] = encode_time(datetime.fromisoformat(job[name]))
        return cls(**fields)


def decode_time(raw: bytes) -> datetime:
    """Decode a time in the format of timestamptz_send."""
    return _EPOCH + timedelta(microseconds=struct.unpack("!q", raw)[0])


def encode_time(time: datetime) -> bytes:
    return struct.pack("!q", (time - _EPOCH) // _MICROSECOND)

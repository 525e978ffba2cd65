"""Encode a claimed job as JSON for remote workers, and decode it."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from pydantic_core import to_json

from posthouse.storage.leases import ClaimedRow

_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_PAYLOAD = 4
_PLAIN = {
    "kind": 1, "queue": 2, "tenant_id": 3, "attempt": 5, "max_attempts": 6, "priority": 7, "lane": 8,
    "position": 9, "crashes": 10, "snoozes": 11, "generation": 12, "timeout_seconds": 13, "retry": 14,
    "correlation_id": 15, "subject": 16, "last_error": 22, "trace": 23,
}  # fmt: skip
_TIMES = {"queued_at": 18, "scheduled_for": 19, "started_at": 20, "attempt_started_at": 21}
"""Positions in the statement claim."""


def job_json(row: ClaimedRow, *, payload_as_text: bool) -> bytes:
    """Encode a job. The payload is passed through as the database wrote it: as an object or as a text."""
    fields: dict[str, Any] = {"id": str(UUID(bytes=row[0]))}
    for name, place in _PLAIN.items():
        fields[name] = row[place]
    fields["parent_id"] = None if row[17] is None else str(row[17])
    for name, place in _TIMES.items():
        fields[name] = moment(row[place]).isoformat()
    if payload_as_text:
        return to_json({**fields, "payload_text": row[_PAYLOAD]})
    return b'%b,"payload":%b}' % (to_json(fields)[:-1], row[_PAYLOAD].encode())


def row_of(job: Mapping[str, Any]) -> ClaimedRow:
    """Decode a job to the row that a direct worker would have received."""
    row: list[Any] = [None] * 24
    row[0] = UUID(job["id"]).bytes
    for name, place in _PLAIN.items():
        row[place] = job[name]
    row[_PAYLOAD] = job["payload_text"]
    row[17] = None if job["parent_id"] is None else UUID(job["parent_id"])
    for name, place in _TIMES.items():
        row[place] = struct.pack("!q", (datetime.fromisoformat(job[name]) - _EPOCH) // _MICROSECOND)
    return tuple(row)


def moment(raw: bytes) -> datetime:
    """Decode a time in the format of timestamptz_send."""
    return _EPOCH + timedelta(microseconds=struct.unpack("!q", raw)[0])

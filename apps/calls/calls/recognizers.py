"""Speech recognizers. ``start`` begins an operation and returns its id, ``poll`` returns its state; no worker
is occupied in between.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from calls import settings, speechkit
from calls.db import sql
from calls.speechkit import Operation, OperationFailed, read_operation
from calls.storage import storage
from posthouse import Cancel, Fail, Job, Snooze

RECOGNIZE = "calls.recognize"
LINK_LIFETIME = timedelta(hours=12)


class SigningUnsupported(Exception):
    """The storage cannot create links for external services."""


@dataclass(frozen=True)
class PollPolicy:
    """Poll interval in seconds, maximum number of polls, and deadline."""

    interval: float
    limit: int
    deadline: str

    def snooze(self, seconds: float | None = None) -> Snooze:
        return Snooze(seconds or self.interval, limit=self.limit, deadline=self.deadline)


class Recognizer(Protocol):
    @property
    def policy(self) -> PollPolicy: ...
    def start(self, job: Job, path: str) -> str:
        """Start the recognition of the OGG Opus file at this path; return the id of the operation."""
        ...

    def poll(self, job: Job, operation_id: str) -> Operation: ...


class SpeechKitRecognizer:
    """Yandex SpeechKit. It fetches the audio from the bucket."""

    @property
    def policy(self) -> PollPolicy:
        return _policy(10, 1_500, "4h")

    def start(self, job: Job, path: str) -> str:
        """Start as a durable step, so that the next attempt does not pay for another operation."""

        def start_operation() -> str:
            return speechkit.start(signed_url(path), str(job.id)).id

        return str(job.step("operation", start_operation))

    def poll(self, job: Job, operation_id: str) -> Operation:  # noqa: ARG002 - as of the protocol
        return speechkit.poll(operation_id)


class LocalRecognizer:
    """The local recognizer. Its operations are jobs, so they survive the loss of a worker."""

    @property
    def policy(self) -> PollPolicy:
        return _policy(2, 50_000, "24h")  # operations wait in a queue, which may be long

    def start(self, job: Job, path: str) -> str:
        """Enqueue the recognition in the transaction that completes the job."""
        payload = {"call_id": job.payload["call_id"], "ogg_path": path}
        return str(job.enqueue(RECOGNIZE, payload, options={"subject": job.subject}))

    def poll(self, job: Job, operation_id: str) -> Operation:
        """Return the finished or the running operation. If it was canceled, so is the job."""
        with job.transaction() as db:
            found = db.execute(sql("operation_get"), {"job": operation_id, "org": job.tenant}).fetchone()
        status, result, error = found or ("failed", None, f"operation {operation_id} does not exist")
        if status == "canceled":
            raise Cancel(f"the recognition {operation_id} was canceled")
        if status in {"queued", "running"}:
            return Operation(id=operation_id)
        if status != "succeeded":
            raise OperationFailed(error or f"operation {operation_id} ended as {status}")
        return read_operation(storage().read(result["recognized_path"]))


def signed_url(path: str) -> str:
    url = storage().link(path, LINK_LIFETIME)
    if url is None:
        raise SigningUnsupported(
            "SpeechKit fetches the audio from a bucket, but the storage is a folder; set "
            "POSTHOUSE_STORAGE_URL or CALLS_STORAGE_URL to s3://bucket/prefix"
        )
    return url


def configured_recognizer() -> Recognizer:
    name = settings.provider()
    if name == settings.LOCAL:
        return LocalRecognizer()
    if name == settings.SPEECHKIT:
        return SpeechKitRecognizer()
    raise Fail(f"invalid CALLS_PROVIDER {name!r}: expected {settings.LOCAL} or {settings.SPEECHKIT}")


def _policy(interval: float, limit: int, deadline: str) -> PollPolicy:
    return PollPolicy(
        settings.poll_interval_seconds(interval),
        settings.poll_limit(limit),
        settings.poll_deadline(deadline),
    )

"""Speech recognizers. ``start`` begins an operation and returns its id, ``poll`` returns its state; no worker
is occupied in between.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from calls import settings, speechkit
from calls.speechkit import Operation, OperationFailed, read_operation
from calls.storage import storage
from posthouse import App, Fail, Job, JobFailed, PosthouseError, Snooze

RECOGNIZE = "calls.recognize"


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

    def poll(self, operation_id: str) -> Operation: ...


class Cloud:
    """Yandex SpeechKit. It fetches the audio from the bucket."""

    @property
    def policy(self) -> PollPolicy:
        return _policy(10, 1_500, "4h")

    def start(self, job: Job, path: str) -> str:
        """Start as a durable step, so that the next attempt does not pay for another operation."""

        def begun() -> str:
            return speechkit.start(storage().link(path), str(job.id)).id

        return str(job.step("operation", begun))

    def poll(self, operation_id: str) -> Operation:
        return speechkit.poll(operation_id)


class Local:
    """The local recognizer. Its operations are jobs, so they survive the loss of a worker."""

    def __init__(self, app: App) -> None:
        self._app = app

    @property
    def policy(self) -> PollPolicy:
        return _policy(2, 50_000, "24h")  # operations wait in a queue, which may be long

    def start(self, job: Job, path: str) -> str:
        """Enqueue the recognition in the transaction that completes the job."""
        asked = {"call_id": job.payload["call_id"], "ogg_path": path}
        return str(job.enqueue(RECOGNIZE, asked, options={"subject": job.subject}))

    def poll(self, operation_id: str) -> Operation:
        """Return the finished or the running operation."""
        try:
            answer = self._app.sync_client.wait(UUID(operation_id), timeout=0)
        except JobFailed as error:
            raise OperationFailed(f"operation {operation_id} failed: {error}") from None
        except PosthouseError as error:
            if error.code == "wait_timeout":
                return Operation(id=operation_id)
            if error.code == "job_not_found":
                raise OperationFailed(f"operation {operation_id} does not exist") from None
            raise
        return read_operation(storage().read(answer["recognized_path"]))


def configured_recognizer(app: App) -> Recognizer:
    name = settings.provider()
    if name == settings.LOCAL:
        return Local(app)
    if name == settings.SPEECHKIT:
        return Cloud()
    raise Fail(f"invalid CALLS_PROVIDER {name!r}: expected {settings.LOCAL} or {settings.SPEECHKIT}")


def _policy(interval: float, limit: int, deadline: str) -> PollPolicy:
    return PollPolicy(
        settings.poll_interval_seconds(interval),
        settings.poll_limit(limit),
        settings.poll_deadline(deadline),
    )

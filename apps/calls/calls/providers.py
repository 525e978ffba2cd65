"""Who recognises speech. Whoever it is: one call starts an operation and returns its id, the other looks
whether it is done. Nobody holds a worker while it waits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from calls import settings, speechkit
from calls.operation import Operation, OperationFailed, read_operation
from calls.storage import storage
from posthouse import App, Fail, Job, JobFailed, PosthouseError, Snooze

RECOGNISE = "calls.recognise"


@dataclass(frozen=True)
class Pace:
    """How often to look, how many times at most, and how long."""

    interval: float
    limit: int
    deadline: str

    def snooze(self, seconds: float | None = None) -> Snooze:
        return Snooze(seconds or self.interval, limit=self.limit, deadline=self.deadline)


class Provider(Protocol):
    @property
    def pace(self) -> Pace: ...
    def start(self, job: Job, path: str) -> str:
        """Begins with the OGG Opus at this path of the storage; the id of the operation."""
        ...

    def look(self, operation_id: str) -> Operation: ...


class Cloud:
    """SpeechKit. It fetches the speech from the bucket."""

    @property
    def pace(self) -> Pace:
        return _pace(10, 1_500, "4h")

    def start(self, job: Job, path: str) -> str:
        """As a step: what was started, and will be paid for, is not started again by the next attempt."""

        def begun() -> str:
            return speechkit.start(storage().link(path), str(job.id)).id

        return str(job.step("operation", begun))

    def look(self, operation_id: str) -> Operation:
        return speechkit.look(operation_id)


class Local:
    """A recogniser on our own machines. Its operations are jobs, and so outlive the workers that run them."""

    def __init__(self, app: App) -> None:
        self._app = app

    @property
    def pace(self) -> Pace:
        return _pace(2, 50_000, "24h")  # they wait in our own queue, which may be long

    def start(self, job: Job, path: str) -> str:
        """It begins when the job that asks for it is completed, and not otherwise."""
        asked = {"call_id": job.payload["call_id"], "ogg_path": path}
        return str(job.enqueue(RECOGNISE, asked, options={"subject": job.subject}))

    def look(self, operation_id: str) -> Operation:
        """Its answer; before there is one, whether there will be one."""
        try:
            answer = self._app.sync_client.wait(UUID(operation_id), timeout=0)
        except JobFailed as error:
            raise OperationFailed(f"operation {operation_id} failed: {error}") from None
        except PosthouseError as error:
            if error.code == "wait_timeout":
                return Operation(id=operation_id)
            if error.code == "job_not_found":
                raise OperationFailed(f"there is no operation {operation_id}") from None
            raise
        return read_operation(storage().read(answer["recognised_path"]))


def chosen(app: App) -> Provider:
    name = settings.provider()
    if name == settings.LOCAL:
        return Local(app)
    if name == settings.SPEECHKIT:
        return Cloud()
    raise Fail(f"CALLS_PROVIDER is {settings.LOCAL} or {settings.SPEECHKIT}, not {name!r}")


def _pace(interval: float, limit: int, deadline: str) -> Pace:
    return Pace(
        settings.poll_interval_seconds(interval),
        settings.poll_limit(limit),
        settings.poll_deadline(deadline),
    )

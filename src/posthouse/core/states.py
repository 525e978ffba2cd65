"""The table of legal state transitions. The database has a copy, which a test compares with this one."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Status(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELED = "canceled"
    DEAD_LETTER = "dead_letter"

    @property
    def ended(self) -> bool:
        return self not in {Status.QUEUED, Status.RUNNING}


class Event(StrEnum):
    CLAIM = "claim"
    SUCCEED = "succeed"
    FAIL = "fail"
    EXHAUST = "exhaust"
    RETRY = "retry"
    SNOOZE = "snooze"
    RELEASE = "release"
    RESCUE = "rescue"
    CANCEL = "cancel"
    EXPIRE = "expire"
    REOPEN = "reopen"


class Transition(NamedTuple):
    event: Event
    source: Status
    target: Status
    meaning: str


TRANSITIONS: tuple[Transition, ...] = (
    Transition(Event.CLAIM, Status.QUEUED, Status.RUNNING, "a worker claims the job and gets a lease"),
    Transition(Event.SUCCEED, Status.RUNNING, Status.SUCCEEDED, "the handler returned a result"),
    Transition(
        Event.FAIL, Status.RUNNING, Status.FAILED, "the handler failed with an error that must not be retried"
    ),
    Transition(
        Event.EXHAUST,
        Status.RUNNING,
        Status.DEAD_LETTER,
        "attempts, snoozes or crashes are used up",
    ),
    Transition(Event.RETRY, Status.RUNNING, Status.QUEUED, "the handler failed; the job runs again later"),
    Transition(
        Event.SNOOZE,
        Status.RUNNING,
        Status.QUEUED,
        "the handler snoozed the job; no attempt is used up",
    ),
    Transition(Event.RELEASE, Status.RUNNING, Status.QUEUED, "the worker is stopping; no attempt is used up"),
    Transition(
        Event.RESCUE,
        Status.RUNNING,
        Status.QUEUED,
        "the worker or the handler's process died, or the lease expired; counts as a crash "
        "unless the worker is alive",
    ),
    Transition(Event.CANCEL, Status.QUEUED, Status.CANCELED, "the job was canceled before it started"),
    Transition(
        Event.EXPIRE,
        Status.QUEUED,
        Status.DEAD_LETTER,
        "only workers with newer code accept its payload, and none connected in time",
    ),
    Transition(
        Event.CANCEL,
        Status.RUNNING,
        Status.CANCELED,
        "the job was canceled while running, or the handler returned Cancel",
    ),
    Transition(Event.REOPEN, Status.FAILED, Status.QUEUED, "an operator retried the job: a new generation"),
    Transition(Event.REOPEN, Status.CANCELED, Status.QUEUED, "an operator retried the job: a new generation"),
    Transition(
        Event.REOPEN, Status.DEAD_LETTER, Status.QUEUED, "an operator retried the job: a new generation"
    ),
)

"""How an attempt ended, as data, and the one place that decides what follows from it."""

from __future__ import annotations

import random
import traceback
from dataclasses import dataclass
from typing import Any, Protocol

from posthouse.core.duration import Duration, seconds
from posthouse.core.payload import escape
from posthouse.core.place import place_of
from posthouse.core.retry import Retry
from posthouse.core.states import Event

_TRACEBACK_LIMIT = 16_000
_MESSAGE_LIMIT = 4_000


class Snooze(Exception):
    """Return or raise it to run again later without spending an attempt.

    ``limit`` caps how often, ``deadline`` how long after the first start; past either, the job goes to
    the dead letter.
    """

    def __init__(
        self, delay: Duration, *, limit: int | None = None, deadline: Duration | None = None
    ) -> None:
        self.delay = seconds(delay)
        self.limit = limit
        self.deadline = None if deadline is None else seconds(deadline)
        super().__init__(f"run again in {self.delay:g} s")


class Cancel(Exception):
    """Return or raise it to end the job as canceled."""

    def __init__(self, reason: str = "canceled by its handler") -> None:
        super().__init__(reason)


class Fail(Exception):
    """Return or raise it to end the job as failed: this error must not be retried."""


class TimedOut(Exception):
    """The handler ran longer than its timeout."""


class Crashed(Exception):
    """The process that ran the handler died. The details go into the attempt's error."""

    def __init__(self, message: str, **details: Any) -> None:
        super().__init__(message)
        self.details = {name: value for name, value in details.items() if value is not None}


class Reported(Exception):
    """An error that was raised, and described, in another process."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(f"{error['type']}: {error['message']}")
        self.error = error


class Attempt(Protocol):
    """What the decision needs to know of the attempt."""

    @property
    def attempt(self) -> int: ...
    @property
    def max_attempts(self) -> int: ...
    @property
    def snoozes(self) -> int: ...
    @property
    def crashes(self) -> int: ...
    @property
    def age(self) -> float:
        """Seconds since the job was first started."""
        ...


@dataclass(frozen=True, slots=True)
class Policy:
    retry: Retry
    fail_on: tuple[type[BaseException], ...] = ()
    crash_limit: int = 3


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is to be written: the event, the attempt's outcome, seconds until it runs again, the error."""

    event: Event
    outcome: str
    delay: float | None = None
    error: dict[str, Any] | None = None


def decide(attempt: Attempt, ending: BaseException, policy: Policy, rng: random.Random) -> Verdict:
    """What follows from an attempt that did not simply succeed."""
    match ending:
        case Snooze():
            return _snooze(attempt, ending)
        case Cancel():
            return Verdict(Event.CANCEL, "canceled", error=describe(ending, "Canceled"))
        case Crashed():
            return _crashed(attempt, ending, policy.crash_limit)
        case _ if isinstance(ending, (Fail, *policy.fail_on)):
            told = ending.__cause__ if isinstance(ending, Fail) else None
            return Verdict(Event.FAIL, "failed", error=describe(told or ending))
    outcome = "timeout" if isinstance(ending, TimedOut) else "failed"
    if attempt.attempt >= attempt.max_attempts:
        return Verdict(Event.EXHAUST, outcome, error=describe(ending))
    delay = policy.retry.delay(attempt.attempt, rng)
    return Verdict(Event.RETRY, outcome, delay, describe(ending))


def _snooze(attempt: Attempt, ending: Snooze) -> Verdict:
    if ending.limit is not None and attempt.snoozes >= ending.limit:
        message = f"snoozed {attempt.snoozes} times, the limit is {ending.limit}"
    elif ending.deadline is not None and attempt.age + ending.delay > ending.deadline:
        message = f"still not done {attempt.age:.0f} s after the start, the deadline is {ending.deadline:g} s"
    else:
        return Verdict(Event.SNOOZE, "snoozed", ending.delay)
    error = {"type": "SnoozeLimit", "message": message}
    return Verdict(Event.EXHAUST, "failed", error=error)


def _crashed(attempt: Attempt, ending: Crashed, limit: int) -> Verdict:
    """As when a worker dies (posthouse.rescue): at once again, until it was too often."""
    poison = attempt.crashes + 1 >= limit
    error = {"type": "Poison" if poison else "Crashed", "message": str(ending), **ending.details}
    if poison or attempt.attempt >= attempt.max_attempts:
        return Verdict(Event.EXHAUST, "crashed", error=error)
    return Verdict(Event.RESCUE, "crashed", 0.0, error)


def describe(ending: BaseException, name: str | None = None) -> dict[str, Any]:
    """The error as it is stored: type, message, traceback, and its place in the code."""
    if isinstance(ending, Reported):
        return ending.error
    kind = type(ending)
    error = {
        "type": name or (kind.__name__ if kind.__module__ == "builtins" else _qualified(kind)),
        "message": escape(_message(ending)[:_MESSAGE_LIMIT]),
    }
    if ending.__traceback__ is not None:
        error["traceback"] = escape("".join(traceback.format_exception(ending))[-_TRACEBACK_LIMIT:])
        if place := place_of(ending.__traceback__):
            error["place"] = escape(place)
    return error


def _message(ending: BaseException) -> str:
    try:
        return str(ending)
    except Exception:  # noqa: BLE001 - an error that cannot describe itself is still to be recorded
        return "the error has no readable message"


def _qualified(kind: type[BaseException]) -> str:
    if kind.__module__.startswith("posthouse."):
        return kind.__name__
    return f"{kind.__module__}.{kind.__qualname__}"

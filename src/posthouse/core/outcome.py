"""The outcome of an attempt, as data, and the decision that follows from it."""

from __future__ import annotations

import random
import traceback
from dataclasses import dataclass
from typing import Any, Protocol

from posthouse.core.duration import Duration, seconds
from posthouse.core.failure import location_of
from posthouse.core.payload import escape
from posthouse.core.retry import Retry
from posthouse.core.states import Event

_TRACEBACK_LIMIT = 16_000
_MESSAGE_LIMIT = 4_000


class Snooze(Exception):
    """Return or raise this in a handler to run the job again later without using up an attempt.

    - ``delay``: time until the job runs again.
    - ``limit``: maximum number of snoozes.
    - ``deadline``: maximum time since the first start of the job.

    A job that exceeds ``limit`` or ``deadline`` becomes a dead letter.
    """

    def __init__(
        self, delay: Duration, *, limit: int | None = None, deadline: Duration | None = None
    ) -> None:
        self.delay = seconds(delay)
        self.limit = limit
        self.deadline = None if deadline is None else seconds(deadline)
        super().__init__(f"run again in {self.delay:g} s")


class Cancel(Exception):
    """Return or raise this in a handler to finish the job as canceled.

    ``reason`` is stored as the job's error.
    """

    def __init__(self, reason: str = "canceled by its handler") -> None:
        super().__init__(reason)


class Fail(Exception):
    """Return or raise this in a handler to fail the job without a retry.

    ``Fail("the file is not a video")``: the text is stored as the job's error.
    """


class TimedOut(Exception):
    """The handler exceeded its timeout."""


class Crashed(Exception):
    """The process that ran the handler died. The details are stored in the attempt's error."""

    def __init__(self, message: str, **details: Any) -> None:
        super().__init__(message)
        self.details = {name: value for name, value in details.items() if value is not None}


class Reported(Exception):
    """An error that was raised and described in another process."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(f"{error['type']}: {error['message']}")
        self.error = error


class AttemptFacts(Protocol):
    """The facts about an attempt that the decision depends on."""

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
        """Seconds since the first start of the job."""
        ...


@dataclass(frozen=True, slots=True)
class Policy:
    retry: Retry
    fail_on: tuple[type[BaseException], ...] = ()
    crash_limit: int = 3


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision to store: the event, the outcome, the delay until the next attempt, and the error."""

    event: Event
    outcome: str
    delay: float | None = None
    error: dict[str, Any] | None = None


def decide(attempt: AttemptFacts, ending: BaseException, policy: Policy, rng: random.Random) -> Decision:
    """Decide what happens after an attempt that did not succeed."""
    match ending:
        case Snooze():
            return _snooze(attempt, ending)
        case Cancel():
            return Decision(Event.CANCEL, "canceled", error=describe(ending, "Canceled"))
        case Crashed():
            return _crashed(attempt, ending, policy.crash_limit)
        case _ if isinstance(ending, (Fail, *policy.fail_on)):
            error = ending.__cause__ if isinstance(ending, Fail) else None
            return Decision(Event.FAIL, "failed", error=describe(error or ending))
    outcome = "timeout" if isinstance(ending, TimedOut) else "failed"
    if attempt.attempt >= attempt.max_attempts:
        return Decision(Event.EXHAUST, outcome, error=describe(ending))
    delay = policy.retry.delay(attempt.attempt, rng)
    return Decision(Event.RETRY, outcome, delay, describe(ending))


def _snooze(attempt: AttemptFacts, ending: Snooze) -> Decision:
    if ending.limit is not None and attempt.snoozes >= ending.limit:
        message = f"snoozed {attempt.snoozes} times, the limit is {ending.limit}"
    elif ending.deadline is not None and attempt.age + ending.delay > ending.deadline:
        message = f"still not done {attempt.age:.0f} s after the start, the deadline is {ending.deadline:g} s"
    else:
        return Decision(Event.SNOOZE, "snoozed", ending.delay)
    error = {"type": "SnoozeLimit", "message": message}
    return Decision(Event.EXHAUST, "failed", error=error)


def _crashed(attempt: AttemptFacts, ending: Crashed, limit: int) -> Decision:
    """Decide as for a dead worker (posthouse.rescue): retry at once, until the crash limit is reached."""
    poison = attempt.crashes + 1 >= limit
    error = {"type": "Poison" if poison else "Crashed", "message": str(ending), **ending.details}
    if poison or attempt.attempt >= attempt.max_attempts:
        return Decision(Event.EXHAUST, "crashed", error=error)
    return Decision(Event.RESCUE, "crashed", 0.0, error)


def describe(ending: BaseException, name: str | None = None) -> dict[str, Any]:
    """Return the error as it is stored: type, message, traceback and code location."""
    if isinstance(ending, Reported):
        return ending.error
    kind = type(ending)
    error = {
        "type": name or (kind.__name__ if kind.__module__ == "builtins" else _qualified(kind)),
        "message": escape(_message(ending)[:_MESSAGE_LIMIT]),
    }
    if ending.__traceback__ is not None:
        error["traceback"] = escape("".join(traceback.format_exception(ending))[-_TRACEBACK_LIMIT:])
        if location := location_of(ending.__traceback__):
            error["location"] = escape(location)
    return error


def _message(ending: BaseException) -> str:
    try:
        return str(ending)
    except Exception:  # noqa: BLE001 - an error whose __str__ fails is recorded as well
        return "the error has no readable message"


def _qualified(kind: type[BaseException]) -> str:
    if kind.__module__.startswith("posthouse."):
        return kind.__name__
    return f"{kind.__module__}.{kind.__qualname__}"

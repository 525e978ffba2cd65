"""The loop that runs a step of the keeper: its pauses, and its wakeups."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeAlias

import psycopg
from psycopg import AsyncConnection

from posthouse.storage.notifications import NotificationListener
from posthouse.storage.queries import query
from posthouse.waiting import wait_for_event

FULL_RATE_KEEPERS = 4
"""Up to this many keepers poll at full rate. With more, each polls less often, so that their total rate does
not grow.
"""


class PollPacer:
    """The factor by which this keeper lengthens its pauses, because other keepers poll too."""

    def __init__(self) -> None:
        self.interval_factor = 1.0

    def update(self, workers: int) -> None:
        self.interval_factor = max(1.0, workers / FULL_RATE_KEEPERS)


_log = logging.getLogger("posthouse.keeper")

ERROR_BACKOFF_SECONDS = 0.5
SELDOM_SECONDS = 15.0
"""The pause of a step that is woken when it has work. The step then finds work that the agenda does not see.
"""

Observe: TypeAlias = Callable[[str, float, bool], None]
_observe: Observe | None = None


def set_service_observer(observe: Observe) -> None:
    """Call ``observe`` after each step with its name, its duration and whether it failed."""
    global _observe  # noqa: PLW0603 - one observer per process
    _observe = observe


class KeeperStep(Protocol):
    """A step of the keeper. ``run_once`` does the pending work and returns counts of it."""

    name: str

    async def run_once(self) -> dict[str, int]: ...
    def pause(self) -> float:
        """Return the seconds until the next run."""
        ...


async def run_service(
    step: KeeperStep, pacer: PollPacer, wakeup: asyncio.Event, *, after: float = 0.0
) -> None:
    """Run the step repeatedly: after its pause, or earlier if ``wakeup`` is set."""
    await wait_for_event(wakeup, after * _jitter())
    while True:
        wakeup.clear()
        began, failed = time.perf_counter(), True
        try:
            counts = await step.run_once()
            failed = False
            pause = step.pause()
            if any(counts.values()):
                _log.debug("%s: %s", step.name, counts)
        except psycopg.OperationalError as error:
            _log.debug("%s: %s", step.name, error)
            pause = ERROR_BACKOFF_SECONDS
        except Exception:  # noqa: BLE001 - any error: the step must be repeated
            _log.exception(
                "keeper step failed, retrying in %g s step=%s", 5 * ERROR_BACKOFF_SECONDS, step.name
            )
            pause = 5 * ERROR_BACKOFF_SECONDS
        if _observe is not None:
            _observe(step.name, time.perf_counter() - began, failed)
        await wait_for_event(wakeup, pause * pacer.interval_factor * _jitter())


def _jitter() -> float:
    """Return a random factor, so that keepers do not poll in lockstep."""
    return random.uniform(0.8, 1.2)  # noqa: S311


class WakeupListener:
    """The events that wake the steps, by the name of the step.

    ``steps_by_name`` maps the names that are passed to ``posthouse.wake`` to the steps to wake. Behind a
    pooler, no notifications arrive.
    """

    def __init__(self, url: str, steps_by_name: Mapping[str, str]) -> None:
        self._listener = NotificationListener(
            url, "keeper wakeups", ["posthouse_ready"], self._on_notification, on_listening=self._on_listening
        )
        self._steps_by_name = steps_by_name
        self._events: dict[str, asyncio.Event] = {}

    def event_for(self, step: str) -> asyncio.Event:
        return self._events.setdefault(step, asyncio.Event())

    def wake(self, *steps: str) -> None:
        for step in steps:
            self.event_for(step).set()

    async def run(self) -> None:
        """Listen until canceled."""
        await self._listener.run()

    async def _on_listening(self, connection: AsyncConnection[Any]) -> None:
        await connection.execute(query("request_wakeup"), (list(self._steps_by_name),))
        self.wake(*self._steps_by_name.values())  # for events that were stored before listening began

    def _on_notification(self, _: str, name: str) -> None:
        if name in self._steps_by_name:
            self.wake(self._steps_by_name[name])

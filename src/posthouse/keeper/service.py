"""The loop that runs a step of the keeper: its pace, and its wakeups."""

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
        self.patience = 1.0

    def count(self, workers: int) -> None:
        self.patience = max(1.0, workers / FULL_RATE_KEEPERS)


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


class Step(Protocol):
    """A step of the keeper. ``run_once`` does the pending work and returns counts of it."""

    name: str

    async def run_once(self) -> dict[str, int]: ...
    def pause(self) -> float:
        """Return the seconds until the next run."""
        ...


async def run_service(step: Step, crowd: PollPacer, bell: asyncio.Event, *, after: float = 0.0) -> None:
    """Run the step repeatedly: after its pause, or earlier if ``bell`` is set."""
    await wait_for_event(bell, after * _about_one())
    while True:
        bell.clear()
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
        await wait_for_event(bell, pause * crowd.patience * _about_one())


def _about_one() -> float:
    """Return a random factor, so that keepers do not poll in lockstep."""
    return random.uniform(0.8, 1.2)  # noqa: S311


class WakeupListener:
    """The events that wake the steps, by the name of the step.

    ``heard`` maps the names that are passed to ``posthouse.wake`` to the steps to wake. Behind a pooler, no
    notifications arrive.
    """

    def __init__(self, url: str, heard: Mapping[str, str]) -> None:
        self._listener = NotificationListener(
            url, "keeper bells", ["posthouse_ready"], self._hear, on_listening=self._begin
        )
        self._heard = heard
        self._bells: dict[str, asyncio.Event] = {}

    def of(self, step: str) -> asyncio.Event:
        return self._bells.setdefault(step, asyncio.Event())

    def ring(self, *steps: str) -> None:
        for step in steps:
            self.of(step).set()

    async def run(self) -> None:
        """Listen until canceled."""
        await self._listener.run()

    async def _begin(self, connection: AsyncConnection[Any]) -> None:
        await connection.execute(query("request_wakeup"), (list(self._heard),))
        self.ring(*self._heard.values())  # for events that were stored before listening began

    def _hear(self, _: str, name: str) -> None:
        if name in self._heard:
            self.ring(self._heard[name])

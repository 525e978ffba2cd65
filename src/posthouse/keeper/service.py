"""The loop that runs a step of the keeper; tests run the step once."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable
from typing import Protocol, TypeAlias

import psycopg

from posthouse.keeper.crowd import Crowd
from posthouse.waiting import until_set

_log = logging.getLogger("posthouse.keeper")

TROUBLE_PAUSE = 0.5
SELDOM_SECONDS = 15.0
"""The pause of a step whose bell rings when there is something to do: for what the agenda does not see."""

Observe: TypeAlias = Callable[[str, float, bool], None]
_observe: Observe | None = None


def observe_steps(observe: Observe) -> None:
    """Call ``observe`` after each step with its name, its duration and whether it failed."""
    global _observe  # noqa: PLW0603 - a process is measured or it is not
    _observe = observe


class Step(Protocol):
    """A step of the keeper. ``run_once`` does the pending work and returns counts."""

    name: str

    async def run_once(self) -> dict[str, int]: ...
    def pause(self) -> float:
        """Seconds until the next step."""
        ...


async def run_forever(step: Step, crowd: Crowd, bell: asyncio.Event, *, after: float = 0.0) -> None:
    """Run the step repeatedly, after its pause or when its bell is set."""
    await until_set(bell, after * _about_one())
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
            pause = TROUBLE_PAUSE
        except Exception:  # noqa: BLE001 - any error: the step must be repeated
            _log.exception("keeper step failed, retrying in %g s step=%s", 5 * TROUBLE_PAUSE, step.name)
            pause = 5 * TROUBLE_PAUSE
        if _observe is not None:
            _observe(step.name, time.perf_counter() - began, failed)
        await until_set(bell, pause * crowd.patience * _about_one())


def _about_one() -> float:
    """Return a random factor, so that keepers do not poll in lockstep."""
    return random.uniform(0.8, 1.2)  # noqa: S311

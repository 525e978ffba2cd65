"""A loop with a step that a test can take once."""

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

Observe: TypeAlias = Callable[[str, float, bool], None]
_observe: Observe | None = None


def observe_steps(observe: Observe) -> None:
    """Is told from now on how long each step took, and whether it failed."""
    global _observe  # noqa: PLW0603 - a process is measured or it is not
    _observe = observe


class Step(Protocol):
    """One noun, one step: ``run_once`` does what there is to do and returns how much it did."""

    name: str

    async def run_once(self) -> dict[str, int]: ...
    def pause(self) -> float:
        """Seconds until the next step."""
        ...


async def run_forever(step: Step, crowd: Crowd, bell: asyncio.Event, *, after: float = 0.0) -> None:
    """Takes the step, waits until its pause is over or its bell rings, and takes it again."""
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
        except Exception:  # noqa: BLE001 - whatever it was, nobody would take the step any more
            _log.exception("%s failed; it goes on", step.name)
            pause = 5 * TROUBLE_PAUSE
        if _observe is not None:
            _observe(step.name, time.perf_counter() - began, failed)
        await until_set(bell, pause * crowd.patience * _about_one())


def _about_one() -> float:
    """So that keepers do not walk in step."""
    return random.uniform(0.8, 1.2)  # noqa: S311

"""Durable steps: a finished step is not run again by a later attempt."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from posthouse.core.progress import decode_kept, encode_kept
from posthouse.errors import InvalidReport

if TYPE_CHECKING:
    from posthouse.worker.commit import StepCommit
    from posthouse.worker.job import Desk, Job


class Steps:
    """The steps of one job. A name identifies one step across all attempts."""

    def __init__(self, job: Job, desk: Desk) -> None:
        self._job = job
        self._desk = desk
        self._running: set[str] = set()

    async def run(self, name: str, function: Callable[[], Any]) -> Any:
        with self._alone(name):
            done, value = await self._desk.find_step(self._job, name)
            if done:
                return value
            started = time.monotonic()
            value = function()
            if inspect.isawaitable(value):
                value = await value
            text = self.encoded(name, value)
            await self._desk.keep_step(self._job, name, text, time.monotonic() - started)
            return decode_kept(text)

    def run_in_thread(self, name: str, function: Callable[[], Any]) -> Any:
        with self._alone(name):
            done, value = self._job.ask(self._desk.find_step(self._job, name))
            if done:
                return value
            started = time.monotonic()
            text = self.encoded(name, _called_in_thread(name, function))
            self._job.ask(self._desk.keep_step(self._job, name, text, time.monotonic() - started))
            return decode_kept(text)

    async def commit(self, step: StepCommit, function: Callable[[Any], Any]) -> Any:
        async with step as connection:
            if connection is None:
                return step.result
            value = function(connection)
            step.result = await value if inspect.isawaitable(value) else value
        return step.result

    def commit_in_thread(self, step: StepCommit, function: Callable[[Any], Any]) -> Any:
        with step as connection:
            if connection is None:
                return step.result
            step.result = _called_in_thread(step.name, lambda: function(connection))
        return step.result

    def encoded(self, name: str, value: Any) -> str:
        return encode_kept(f"step {name!r}", value, self._desk.result_limit)

    @contextmanager
    def _alone(self, name: str) -> Iterator[None]:
        if name in self._running:
            raise InvalidReport(f"step {name!r} is already running; give each step a unique name")
        self._running.add(name)
        try:
            yield
        finally:
            self._running.discard(name)


def _called_in_thread(name: str, function: Callable[[], Any]) -> Any:
    value = function()
    if inspect.isawaitable(value):
        if asyncio.iscoroutine(value):
            value.close()
        raise InvalidReport(
            f"step {name!r} is async, but this handler runs in a thread; make the step a plain def"
        )
    return value

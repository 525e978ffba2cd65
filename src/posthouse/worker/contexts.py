"""Run the steps of a coroutine through a function, within the task that awaits the coroutine."""

from __future__ import annotations

import asyncio
import contextvars
import types
from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any, TypeVar

T = TypeVar("T")


def is_in_loop() -> bool:
    """Return whether this thread runs an event loop, which means that the handler is async."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


@types.coroutine
def stepped(coroutine: Coroutine[Any, Any, T], run: Callable[..., Any]) -> Generator[Any, Any, T]:
    """Await a coroutine. ``run`` calls each of its steps, up to the next point at which it waits."""
    step: Callable[[Any], Any] = coroutine.send
    value: Any = None
    while True:
        try:
            awaited = run(step, value)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        try:
            value = yield awaited
            step = coroutine.send
        except GeneratorExit:
            run(coroutine.close)
            raise
        except BaseException as error:  # noqa: BLE001 - handed to the coroutine
            step, value = coroutine.throw, error


def in_own_context(coroutine: Coroutine[Any, Any, T]) -> Awaitable[T]:
    """Await a coroutine in a copy of the current context: variables that it sets are not seen outside."""
    return stepped(coroutine, contextvars.copy_context().run)

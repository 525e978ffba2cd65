"""Coroutines that run in a context of their own, within the task that awaits them."""

from __future__ import annotations

import contextvars
import types
from collections.abc import Callable, Coroutine, Generator
from typing import Any, TypeVar

T = TypeVar("T")


@types.coroutine
def in_own_context(coroutine: Coroutine[Any, Any, T]) -> Generator[Any, Any, T]:
    """Await a coroutine in a copy of the current context: variables that it sets are not seen outside."""
    run = contextvars.copy_context().run
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

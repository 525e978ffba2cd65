"""What a kind of job is: its handler and the rules it runs by."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from posthouse.core.outcome import Policy
from posthouse.worker.arguments import Arguments


@dataclass(frozen=True, slots=True)
class Definition:
    kind: str
    handler: Callable[..., Any]
    queue: str
    priority: int
    max_attempts: int
    timeout: float | None
    policy: Policy
    batch: int | None
    arguments: Arguments
    is_async: bool

    def announcement(self) -> dict[str, Any]:
        """What the database is told, for callers that only know the kind's name."""
        return {
            "key": self.kind,
            "description": inspect.getdoc(self.handler) or "",
            "queue": self.queue,
            "priority": self.priority,
            "max_attempts": self.max_attempts,
            "timeout_seconds": self.timeout,
            "schema": self.arguments.schema(),
        }

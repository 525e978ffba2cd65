"""What a kind of job is: its handler and the rules it runs by."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from posthouse.core.limit import Limit
from posthouse.core.outcome import Policy
from posthouse.core.template import is_fixed
from posthouse.core.trigger import checked_trigger, schedule_of
from posthouse.worker.arguments import Arguments

AUTO, PROCESS, COMMAND = "auto", "process", "command"
RUNNERS = (AUTO, PROCESS)
"""Where a handler runs: an async one in the worker's event loop and others in a thread, or in a process."""


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
    runner: str = AUTO
    memory_mb: int | None = None
    keep_steps: bool = True
    keep_progress: bool = True
    limits: tuple[Limit, ...] = ()
    limit_by: str | None = None
    requires: tuple[str, ...] = ()
    prefers: tuple[str, ...] = ()
    redact: tuple[str, ...] = ()
    active: bool = True
    remote: bool = True
    """Whether it may run on workers without the database."""
    triggers: list[dict[str, Any]] = field(default_factory=list)

    def add_trigger(self, type_: str, tenant: str, fields: Mapping[str, Any]) -> None:
        """One that the code names. It is known by its number, so that its rule can be changed."""
        known = checked_trigger({**fields, "definition_key": self.kind}, type_)
        if type_ == "schedule":
            schedule_of(known)
        if is_fixed(known["payload_template"]):
            self.arguments.check(known["payload_template"])
        number = 1 + sum(other["type"] == type_ for other in self.triggers)
        name = f"{self.kind} {type_} {number}"
        self.triggers.append({"label": name, **known, "type": type_, "tenant_id": tenant, "name": name})

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
            "retry": self.policy.retry.to_json(),
            "limits": {"by": self.limit_by} if self.limit_by else None,
            "requires": list(self.requires),
            "prefers": list(self.prefers),
            "redact": list(self.redact),
            "active": self.active,
            "keep_steps": self.keep_steps,
            "keep_progress": self.keep_progress,
        }

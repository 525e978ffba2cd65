"""A job kind as defined in code: its handler and its rules."""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from posthouse.core.limit import Limit
from posthouse.core.outcome import Policy
from posthouse.core.template import is_fixed
from posthouse.core.trigger import checked_trigger, schedule_of
from posthouse.worker.arguments import Arguments

AUTO, PROCESS, COMMAND = "auto", "process", "command"
RUNNERS = (AUTO, PROCESS)
"""``auto`` runs async handlers in the worker's event loop and others in a thread; ``process``
uses a process.
"""
LARGEST_BATCH = 500
"""The most jobs of one claim."""


def code_version(definitions: Iterable[Definition]) -> str:
    """Return a digest of what the handlers accept: equal digests, equal parameters."""
    schemas = {item.kind: item.arguments.schema() for item in definitions}
    return hashlib.sha256(json.dumps(schemas, sort_keys=True).encode()).hexdigest()[:16]


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
    batches: int | None = None
    """How many batches a worker runs at once; None: as many as it has slots."""
    runner: str = AUTO
    memory_mb: int | None = None
    keep_steps: bool = True
    keep_progress: bool = True
    limits: tuple[Limit, ...] = ()
    limit_by: str | None = None
    requires: tuple[str, ...] = ()
    prefers: tuple[str, ...] = ()
    followup_queues: tuple[str, ...] = ()
    redact: tuple[str, ...] = ()
    active: bool = True
    remote: bool = True
    """Whether it may run on workers without a database connection."""
    triggers: list[dict[str, Any]] = field(default_factory=list)

    def add_trigger(self, type_: str, tenant: str, fields: Mapping[str, Any]) -> None:
        """Add a trigger defined in code. It is identified by its number, so that its rule can be changed."""
        known = checked_trigger({**fields, "definition_key": self.kind}, type_)
        if type_ == "schedule":
            schedule_of(known)
        if is_fixed(known["payload_template"]):
            self.arguments.check(known["payload_template"])
        number = 1 + sum(other["type"] == type_ for other in self.triggers)
        name = f"{self.kind} {type_} {number}"
        self.triggers.append({"label": name, **known, "type": type_, "tenant_id": tenant, "name": name})

    def code(self) -> dict[str, Any]:
        """Return the definition and its limits, for a client that meets a database without it."""
        limits = [limit.announcement(self.kind) for limit in self.limits]
        return {"definition": self.announcement(), "limits": limits}

    def announcement(self) -> dict[str, Any]:
        """Return the definition as registered in the database, for callers that only know the kind's name."""
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
            "followup_queues": list(self.followup_queues),
            "redact": list(self.redact),
            "active": self.active,
            "keep_steps": self.keep_steps,
            "keep_progress": self.keep_progress,
        }

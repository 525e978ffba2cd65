"""Reports of a job that are not written yet."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any


class Notes:
    """Created at the first report of a job. Later reports are merged into those that are not written."""

    __slots__ = ("_fields", "_own_percent", "_parts", "due", "lost", "steps", "steps_running", "waiters")

    def __init__(self) -> None:
        self._fields: dict[str, Any] = {}
        self._parts: dict[str, dict[str, Any]] = {}
        self._own_percent = False
        self.due = 0.0
        """When the report may be written, on the monotonic clock."""
        self.waiters: list[asyncio.Future[None]] = []
        self.lost = False
        self.steps: set[str] | None = None
        """Names of the finished steps; None: not loaded yet."""
        self.steps_running: set[str] = set()

    def __bool__(self) -> bool:
        """Whether there is anything to write."""
        return bool(self._fields or self._parts)

    def add(self, fields: Mapping[str, Any], part: Mapping[str, Any] | None = None) -> None:
        self._fields.update({name: value for name, value in fields.items() if value is not None})
        self._own_percent = self._own_percent or fields.get("percent") is not None
        if part is not None:
            name = part["name"]
            self._parts[name] = _folded(self._parts.get(name, {}), part)
        if not self:
            self._fields["step"] = None  # no change, but an empty report extends the lease

    def take(self) -> dict[str, Any]:
        """Return the pending report, as posthouse.report expects it."""
        report: dict[str, Any] = dict(self._fields)
        if self._parts:
            report["parts"] = list(self._parts.values())
            report["derive"] = not self._own_percent
        self.drop()
        return report

    def put_back(self, report: Mapping[str, Any]) -> None:
        """Restore a report that could not be written. Newer values take precedence."""
        older = {name: value for name, value in report.items() if name not in {"parts", "derive"}}
        self._fields = {**older, **self._fields}
        for part in report.get("parts", ()):
            self._parts[part["name"]] = _folded(part, self._parts.get(part["name"], {}))

    def drop(self) -> None:
        self._fields, self._parts = {}, {}


def _folded(older: Mapping[str, Any], newer: Mapping[str, Any]) -> dict[str, Any]:
    said = {name: value for name, value in newer.items() if value is not None}
    if not newer.get("restart"):
        return {**older, **said}
    return {**{name: older[name] for name in ("total", "weight") if name in older}, **said}

"""Masking of secrets in everything that is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, TypeVar
from uuid import UUID

from posthouse.core.payload import parse_json
from posthouse.core.redaction import PLAIN, Redactor, Secrets, redactor_for
from posthouse.storage.queries import Db, fetch_rows
from posthouse.waiting import off_loop

T = TypeVar("T")

UNMASKED_FIELDS = frozenset(
    {
        "id",
        "tenant_id",
        "kind",
        "queue",
        "status",
        "job_table",
        "source",
        "outcome",
        "error_type",
        "name",
        "reason",
        "fingerprint",
        "type",
    }
)
"""Fields that are never masked, because they identify things and are used to look them up."""


class JobMask:
    """The mask for the data of one job.

    Secrets of the payload are also masked where other data repeats them.
    """

    def __init__(self, redactor: Redactor = PLAIN, payload: Any = None) -> None:
        self._redactor = redactor
        self._secrets: Secrets = redactor.secrets(payload)

    def payload(self, value: Any) -> Any:
        return self._redactor.value(value)

    def text(self, text: str) -> str:
        return self._redactor.text(text, self._secrets)

    def json(self, value: Any) -> Any:
        return PLAIN.value(value, self._secrets)

    def of(self, record: T) -> T:
        """Return a copy of a dataclass with its texts and JSON masked, except for identifying fields."""
        changes = {
            item.name: self._shown(item.name, getattr(record, item.name))
            for item in fields(record)  # type: ignore[arg-type]
            if item.name not in UNMASKED_FIELDS
        }
        return replace(record, **changes)  # type: ignore[type-var]

    def _shown(self, name: str, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if name == "payload":
            return self.payload(value)
        if isinstance(value, dict):
            return self.json(value)
        if isinstance(value, list) and any(isinstance(item, str | dict | list) for item in value):
            return self.json(value)
        return value


DEFAULT_MASK = JobMask()
"""The mask for lists. Names and patterns are enough, because errors were masked when they were stored."""


async def mask_for(connection: Db, job_id: UUID) -> JobMask:
    found = await fetch_rows(connection, "job_redaction_rules", id=job_id)
    if not found:
        return DEFAULT_MASK
    row = found[0]
    redactor = redactor_for(row["schema"], tuple(row["redact"]))
    return await off_loop(lambda: JobMask(redactor, parse_json(row["payload"])), data=row["payload"])


async def masked(mask: JobMask, records: Sequence[T]) -> list[T]:
    """Mask records that may have large payloads, results or texts."""
    values = [getattr(record, item.name) for record in records for item in fields(record)]  # type: ignore[arg-type]
    return await off_loop(lambda: [mask.of(record) for record in records], data=values)


def redact_command(command: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return a command for display, with secrets in ``env`` masked.

    ``secrets`` contains only names of secrets, but a value in ``env`` may be a secret.
    """
    if command is None:
        return None
    return {**command, "env": PLAIN.value(command["env"])} if command.get("env") else dict(command)

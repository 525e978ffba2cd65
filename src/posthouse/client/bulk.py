"""Bulk enqueue by COPY, straight into the line. For plain jobs: no keys, no dependencies, due now.

The rows are written as text by hand: psycopg's row writer costs about twice as much for each. What many
rows share (time, queue, lane, limits) is put together once.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter
from typing import Any, TypeAlias
from uuid import UUID

from pydantic_core import to_json

from posthouse.core.duration import seconds
from posthouse.core.lanes import NORMAL_TURN, lane_number
from posthouse.core.priority import priority_number
from posthouse.core.request import Request
from posthouse.core.retry import DEFAULT_MAX_ATTEMPTS

CHUNK = 500
ASIDE_BYTES = 2000
_NULL = r"\N"
_ESCAPES = str.maketrans({"\\": r"\\", "\t": r"\t", "\n": r"\n", "\r": r"\r"})

Lane: TypeAlias = tuple[str, str, str, int, tuple[str, ...], tuple[str, ...]]
"""Queue, kind, tenant, priority, what it requires and prefers."""


def ways_to_copy(*, direct: bool) -> tuple[tuple[str, ...], str, tuple[str, ...]]:
    """The statements before, for and after the rows. Postgres takes no COPY into a table whose row-level
    security holds for the role, as it does for all but superusers: then it goes through one of the session.
    """
    if direct:
        return (), "copy_ready", ()
    return ("stage_ready",), "copy_staged", ("staged_ready", "unstage_ready")


class Copier:
    """Turns requests into the text that COPY takes, and remembers which lanes and queues they need."""

    def __init__(self, now: str, definitions: Mapping[str, Mapping[str, Any]] | None) -> None:
        self._now = now
        self._definitions = definitions or {}
        self._for_engine = {kind for kind, known in self._definitions.items() if known.get("by")}
        self._lanes: set[Lane] = set()
        self._shared: dict[tuple[Any, ...], tuple[str, str]] = {}

    @property
    def queues(self) -> list[str]:
        return sorted({lane[0] for lane in self._lanes})

    @property
    def lanes(self) -> str:
        """As sql/open_lanes.sql takes them."""
        names = ("queue", "kind", "tenant_id", "priority", "requires", "prefers")
        lanes = [dict(zip(names, lane, strict=True)) for lane in sorted(self._lanes)]
        return to_json([{"turn": NORMAL_TURN, **lane} for lane in lanes]).decode()

    def takes(self, request: Request) -> bool:
        """Not jobs whose limit key stands in their payload: the engine looks there."""
        return request.kind not in self._for_engine

    def line(self, request: Request, job_id: UUID, payload: str) -> str:
        """One row. JSON text holds no raw control characters, so only its backslashes need care."""
        key = _SHARED(request)
        shared = self._shared.get(key)
        if shared is None:
            shared = self._shared[key] = self._share(request)
        if "\\" in payload:
            payload = payload.replace("\\", "\\\\")
        tail = _NULLS if _OWN(request) == _BARE else _tail(request)
        return f"{job_id.int:032x}{shared[0]}{payload}{tail}{shared[1]}"

    def _share(self, request: Request) -> tuple[str, str]:
        """What stands before the payload, and the lane at the end."""
        known = self._definitions.get(request.kind, {})
        queue = request.queue or known.get("queue", "default")
        priority = (
            known.get("priority", 100) if request.priority is None else priority_number(request.priority)
        )
        attempts = request.attempts or known.get("max_attempts", DEFAULT_MAX_ATTEMPTS)
        timeout = seconds(request.timeout) if request.timeout is not None else known.get("timeout_seconds")
        requires, prefers = tuple(known.get("requires") or ()), tuple(known.get("prefers") or ())
        lane = (queue, request.kind, request.tenant, priority)
        self._lanes.add((*lane, requires, prefers))
        columns = (
            "",
            self._now,
            self._now,
            str(priority),
            str(attempts),
            _NULL if timeout is None else str(timeout),
            _text(request.tenant),
            _text(request.kind),
            _text(queue),
            request.source,
            "",
        )
        number = lane_number(*lane, requires=requires, prefers=prefers)
        return "\t".join(columns), f"\t{_array(requires)}\t{_array(prefers)}\t{number}\n"


_NULLS = "\t" + "\t".join([_NULL] * 6)
# One call in C for all of them: with the line, a third of the time went into reading attributes one by one.
_SHARED = attrgetter("kind", "tenant", "queue", "priority", "max_attempts", "retry", "timeout", "source")
_OWN = attrgetter("correlation_id", "subject", "source_ref", "created_by", "retry", "parent_id")
_BARE = (None,) * 6


def _tail(request: Request) -> str:
    retry = None if request.retry is None else to_json(request.retry.to_json()).decode()
    parent = None if request.parent_id is None else str(request.parent_id)
    values = (request.correlation_id, request.subject, request.source_ref, request.created_by, retry, parent)
    return "".join(f"\t{_NULL if value is None else _text(value)}" for value in values)


def _text(value: str) -> str:
    return value.translate(_ESCAPES)


def _array(values: tuple[str, ...]) -> str:
    return "{" + ",".join(map(_text, values)) + "}" if values else _NULL  # capabilities are plain words

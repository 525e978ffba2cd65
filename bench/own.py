"""All figures of Posthouse on one server."""

from __future__ import annotations

from collections.abc import Awaitable
from importlib.metadata import version
from typing import Any

from posthouse import testing
from posthouse.bench.measures import DEFAULT_MEASURES, FULL, MEASURES, small_sizes
from posthouse.worker.shutdown import run_event_loop

from .guarantees import GUARANTEES, drains_with_guarantees
from .jit import jit_ratio
from .limits import limits_ratio
from .progress import announce


def measure_own(server: str, jobs: int | None, *, with_jit: bool) -> dict[str, Any]:
    """Measure everything; ``jobs`` makes each measure as small as that, to check the benchmark itself."""
    sizes = FULL if jobs is None else small_sizes(jobs)
    amount = () if jobs is None else (jobs, 1)  # jobs and turns
    found: dict[str, Any] = {"version": version("posthouse")}
    with testing.database(server) as url:
        for name in DEFAULT_MEASURES:
            announce(f"posthouse: {name}")
            _add(found, MEASURES[name](url, sizes))
    with testing.database(server) as url:
        announce("posthouse: drain with limits, by turns with one without")
        _add(found, limits_ratio(url, *amount))
    with testing.database(server) as url:
        announce(f"posthouse: drain with {GUARANTEES}")
        _add(found, drains_with_guarantees(url, *amount))
    if with_jit:
        announce("posthouse: drain on the server as it is, by turns with JIT off")
        _add(found, jit_ratio(server, *amount))
    return found


def _add(found: dict[str, Any], figures: Awaitable[dict[str, Any]]) -> None:
    async def add() -> None:
        found.update(await figures)

    run_event_loop(add())

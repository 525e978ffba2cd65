"""The drain on a server with its default settings, by turns with the same server without JIT."""

from __future__ import annotations

import statistics
from operator import truediv
from typing import Any

import psycopg

from posthouse import testing
from posthouse.bench.measures import drain

JOBS = 100_000
"""Enough for several rounds of the keeper, whose queries JIT compilation has slowed down before."""
TURNS = 3
SETTINGS = {"default": "alter system reset jit", "off": "alter system set jit = off"}


async def jit_ratio(server: str, jobs: int = JOBS, turns: int = TURNS) -> dict[str, Any]:
    """Drain with the default setting / drain without JIT, the median of the turns."""
    rates: dict[str, list[int]] = {name: [] for name in SETTINGS}
    with testing.database(server) as url:
        for turn in range(turns):
            # The first one of a pair changes from turn to turn.
            for name in sorted(SETTINGS, reverse=turn % 2 == 1):
                _change(server, SETTINGS[name])
                rates[name].append((await drain(url, 1, jobs))["drain_1"])
    _change(server, SETTINGS["default"])
    ratios = map(truediv, rates["default"], rates["off"])
    return {"jit_ratio": round(statistics.median(ratios), 3), "jit_rates": rates}


def _change(server: str, statement: str) -> None:
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(statement.encode())
        connection.execute("select pg_reload_conf()")

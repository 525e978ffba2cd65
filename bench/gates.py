"""The limits that the figures of a run must keep, and the goals beyond them."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from operator import truediv
from typing import Any, NamedTuple

RIVAL = "graphile-worker"


class Check(NamedTuple):
    name: str
    figure: float | None
    at_least: float | None = None
    at_most: float | None = None
    is_goal: bool = False

    @property
    def verdict(self) -> str:
        if self.figure is None:
            return "not measured"
        low = self.at_least is not None and self.figure < self.at_least
        high = self.at_most is not None and self.figure > self.at_most
        return ("missed" if self.is_goal else "FAIL") if low or high else "pass"

    @property
    def bound(self) -> str:
        return f">= {self.at_least:,}" if self.at_least is not None else f"<= {self.at_most:,}"


def checks(queues: dict[str, Any]) -> list[Check]:
    """Return the checks of one server, from the figures of Posthouse and of the other queues on it."""
    own = queues["posthouse"]
    peers = {name: figures for name, figures in queues.items() if name != "posthouse"}
    rival = peers.get(RIVAL, {})
    jit = [Check("as it is / JIT off", own["jit_ratio"], 0.9)] if "jit_ratio" in own else []
    return [
        *jit,
        Check("drain_2 / drain_1", _paired(own, "drain_2", own, "drain_1"), 1.05),
        Check(f"drain_1 / {RIVAL}", _paired(own, "drain_1", rival, "drain_1"), 1.2),
        Check(f"drain_2 / {RIVAL}", _paired(own, "drain_2", rival, "drain_2"), 1.0),
        Check(
            "enqueue_bulk / best peer", _ratio(own["enqueue_bulk"], _best(peers, "enqueue_bulk", max)), 2.0
        ),
        Check("enqueue_one / best peer", _ratio(own["enqueue_one"], _best(peers, "enqueue_one", max)), 0.95),
        Check(
            "enqueue to start p99 / best peer",
            _ratio(own["enqueue_to_start_ms"]["p99"], _best(peers, "enqueue_to_start_ms.p99", min)),
            at_most=1.05,
        ),
        Check("worker process, MB", own["rss_mb"], at_most=75),
        Check("pinned_ratio", own["pinned_ratio"], 0.9),
        Check("backlog_ratio", own["backlog_ratio"], 0.95),
        Check("limits_ratio", own["limits_ratio"], 0.8),
        Check("rescue max, s", own["rescue_s"]["max"], at_most=3),
        Check(f"drain_2 / {RIVAL}", _paired(own, "drain_2", rival, "drain_2"), 1.3, is_goal=True),
        Check("drain_2, jobs/s", own["drain_2"], 50_000, is_goal=True),
        Check(
            f"machine CPU per job / {RIVAL}",
            _ratio(own["machine_us_per_job"], rival.get("machine_us_per_job")),
            at_most=1.0,
            is_goal=True,
        ),
        Check("WAL per job, bytes", own["wal_bytes_per_job"], at_most=1_050, is_goal=True),
    ]


def verdicts(run: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {
            "server": server,
            "name": check.name,
            "figure": check.figure,
            "kind": "goal" if check.is_goal else "gate",
            "bound": check.bound,
            "verdict": check.verdict,
        }
        for server, queues in run.items()
        for check in checks(queues)
    ]


def verdict_table(found: list[dict[str, Any]]) -> str:
    columns = ("server", "name", "figure", "kind", "bound", "verdict")
    rows = [columns, *(tuple(_cell(row[column]) for column in columns) for row in found)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(columns))]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


def _cell(value: object) -> str:
    return "-" if value is None else f"{value:,}" if isinstance(value, int | float) else str(value)


def _ratio(own: float | None, other: float | None) -> float | None:
    return round(own / other, 3) if own and other else None


def _paired(ours: dict[str, Any], figure: str, theirs: dict[str, Any], other: str) -> float | None:
    """Return the median of the ratios of each round, in which both were measured soon after each other."""
    own, beside = ours.get(f"{figure}_rounds"), theirs.get(f"{other}_rounds")
    if not own or not beside or not all(beside):
        return None
    return round(float(statistics.median(map(truediv, own, beside))), 3)


def _best(peers: dict[str, Any], figure: str, choose: Callable[[list[float]], float]) -> float | None:
    values = list(_values(peers, figure))
    return choose(values) if values else None


def _values(peers: dict[str, Any], figure: str) -> Iterator[float]:
    for figures in peers.values():
        value: Any = figures
        for part in figure.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        if value is not None:
            yield float(value)

"""Write the figures of a benchmark run into the pages: `python tools/figures.py bench/results/<run>.json`."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent

README_ROWS = {
    "drain, one worker, jobs/s": "drain_1",
    "drain, two workers, jobs/s": "drain_2",
    "enqueue one by one, jobs/s": "enqueue_one",
    "enqueue in bulk, jobs/s": "enqueue_bulk",
    "enqueue to start, median, ms": "enqueue_to_start_ms.p50",
    "enqueue to start, 99 %, ms": "enqueue_to_start_ms.p99",
    "memory of the worker, MB": "rss_mb",
}
LOWER_IS_BETTER = ("enqueue_to_start_ms", "rss_mb", "machine_us_per_job")
PEER_ROWS = {
    f"`{name}`": name
    for name in (
        "drain_1",
        "drain_2",
        "drain_1_guarantees",
        "drain_2_guarantees",
        "enqueue_one",
        "enqueue_bulk",
        "rss_mb",
        "machine_us_per_job",
    )
} | {f"`enqueue_to_start_ms` {share}": f"enqueue_to_start_ms.{share}" for share in ("p50", "p95", "p99")}
OWN = (
    ("`limit`", ("limit",)),
    ("`drain_1`", ("drain_1",)),
    ("`drain_2`", ("drain_2",)),
    ("`drain_ratio`", ("drain_ratio",)),
    ("`enqueue_one`", ("enqueue_one",)),
    ("`enqueue_bulk`", ("enqueue_bulk",)),
    ("`pickup_ms` p50 / p95 / p99", ("pickup_ms.p50", "pickup_ms.p95", "pickup_ms.p99")),
    (
        "`enqueue_to_start_ms` p50 / p95 / p99",
        tuple(f"enqueue_to_start_ms.{share}" for share in ("p50", "p95", "p99")),
    ),
    ("`pinned_ratio`", ("pinned_ratio",)),
    ("`backlog_ratio`", ("backlog_ratio",)),
    ("`rescue_s` p50 / max", ("rescue_s.p50", "rescue_s.max")),
    ("`backend_us_per_job`", ("backend_us_per_job",)),
    ("`wal_bytes_per_job`", ("wal_bytes_per_job",)),
    ("`machine_us_per_job`", ("machine_us_per_job",)),
    ("`rss_mb`", ("rss_mb",)),
    ("`drain_1_guarantees`", ("drain_1_guarantees",)),
    ("`drain_2_guarantees`", ("drain_2_guarantees",)),
    ("`limits_ratio`", ("limits_ratio",)),
    ("`jit_ratio`", ("jit_ratio",)),
)
SERVERS = {"embedded": "embedded Postgres 18, tuned", "stock": "Debian's Postgres 15, default settings"}


def main() -> None:
    run = json.loads(Path(sys.argv[1]).read_text())
    servers = {name: run[name] for name in SERVERS if name in run}
    worst = min(servers, key=lambda name: _lead(servers[name]))
    shown = servers[worst]
    about = f"On {SERVERS[worst]}, where Posthouse does worse of the two servers that were measured:"
    _replace(
        ROOT / "README.md",
        "figures",
        [about, "", *_beside(shown, README_ROWS), "", _losses(shown, README_ROWS)],
    )
    _replace(ROOT / "docs/performance.md", "figures", _own(servers, run.get("idle_cpu_percent", {})))
    compared = [
        line
        for name, queues in servers.items()
        for line in ("", f"On {SERVERS[name]}:", "", *_beside(queues, PEER_ROWS))
    ]
    _replace(ROOT / "docs/performance.md", "peers", compared[1:])


def _lead(queues: dict[str, Any]) -> float:
    """Return by how much Posthouse leads in a drain with two workers, the row that it may lose."""
    best = max(_value(queues[name], "drain_2") or 0 for name in queues if name != "posthouse")
    return float(queues["posthouse"]["drain_2"] / best) if best else float("inf")


def _beside(run: dict[str, Any], rows: dict[str, str]) -> list[str]:
    names = ["Posthouse", *(name for name in run if name != "posthouse")]
    lines = [f"| | {' | '.join(names)} |", "| --- " * (len(names) + 1) + "|"]
    for title, figure in rows.items():
        # No queue is best at guarantees that others do not have.
        best = [] if figure.endswith("_guarantees") else _best(run, figure)
        values = [_figure(run[name.lower()], figure) for name in names]
        marked = [
            f"**{value}**" if name.lower() in best else value
            for name, value in zip(names, values, strict=True)
        ]
        lines.append(f"| {title} | {' | '.join(marked)} |")
    return lines


def _losses(run: dict[str, Any], rows: dict[str, str]) -> str:
    """Return a sentence that names every row in which Posthouse is not the best."""
    lost = [
        f"{title.rpartition(', ')[0]} ({', '.join(best)})"
        for title, figure in rows.items()
        if "posthouse" not in (best := _best(run, figure))
    ]
    return f"Where another queue is better: {'; '.join(lost)}." if lost else "Posthouse is best in every row."


def _best(run: dict[str, Any], figure: str) -> list[str]:
    """Return the names with the best value: the highest rate, or the lowest latency or memory."""
    values = {name: value for name in run if (value := _value(run[name], figure)) is not None}
    choose = min if figure.startswith(LOWER_IS_BETTER) else max
    return [name for name in values if values[name] == choose(values.values())]


def _own(servers: dict[str, Any], idle: dict[str, Any]) -> list[str]:
    own = {name: {**servers[name]["posthouse"], "idle_cpu_percent": idle.get(name)} for name in servers}
    rows = [
        " | ".join([title, *(" / ".join(_figure(own[server], name) for name in names) for server in own)])
        for title, names in (*OWN, ("`idle_cpu_percent`", ("idle_cpu_percent.total",)))
    ]
    headings = " | ".join(["figure", *(SERVERS[server] for server in own)])
    return [f"| {headings} |", "| --- " * (len(own) + 1) + "|", *(f"| {row} |" for row in rows)]


def _figure(figures: dict[str, Any], path: str) -> str:
    value = _value(figures, path)
    return "-" if value is None else f"{value:,}"


def _value(figures: dict[str, Any], path: str) -> Any:
    value: Any = figures
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _replace(page: Path, mark: str, lines: list[str]) -> None:
    block = "\n".join([f"<!-- {mark} -->", *lines, f"<!-- /{mark} -->"])
    text = re.sub(rf"<!-- {mark} -->.*?<!-- /{mark} -->", lambda _: block, page.read_text(), flags=re.DOTALL)
    page.write_text(text)


if __name__ == "__main__":
    main()

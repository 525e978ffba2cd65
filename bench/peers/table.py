"""The figures for people."""

from .measure import Result

HEADINGS = (
    "peer",
    "version",
    "one/s",
    "bulk/s",
    "drain 1",
    "drain 2",
    "enqueue to start ms",
    "RSS MB",
    "CPU us/job",
    "drain 1, 2 with guarantees",
)


def table(results: dict[str, Result]) -> str:
    rows = [HEADINGS, *(_row(name, result) for name, result in results.items())]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADINGS))]
    lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    notes = [f"{name}: {result['guarantees']}" for name, result in results.items() if "guarantees" in result]
    errors = [f"{name}: {result['error']}" for name, result in results.items() if "error" in result]
    return "\n".join([*lines, "", "guarantees:", *notes, *errors])


def _row(name: str, result: Result) -> tuple[str, ...]:
    if "error" in result:
        return (name, *["-"] * (len(HEADINGS) - 1))
    delays = result["enqueue_to_start_ms"]
    return (
        name,
        result["version"],
        *(f"{result[figure]:,}" for figure in ("enqueue_one", "enqueue_bulk", "drain_1", "drain_2")),
        f"{delays['p50']} / {delays['p95']} / {delays['p99']}",
        str(result["rss_mb"] or "-"),
        str(result["machine_us_per_job"] or "-"),
        " / ".join(_number(result.get(f"drain_{workers}_guarantees")) for workers in (1, 2)),
    )


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"

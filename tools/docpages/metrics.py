"""docs/reference/metrics.md, generated from the catalogue of metrics."""

from __future__ import annotations

from docpages.markdown import opening, table, text
from posthouse.metrics.catalogue import METRICS

SCOPES = {
    "database": (
        "Installation",
        (
            "Read from the database and the same on every server process. Counters and histograms are stored "
            "once a minute: they survive restarts and are one to two minutes old."
        ),
    ),
    "server": ("Server process", "Also at `/metrics`, with `process_…` and `python_gc_…`."),
    "worker": ("Worker", "With `posthouse worker --metrics-port PORT`."),
    "keeper": ("Keeper", "With `posthouse keeper --metrics-port PORT`; a worker serves them too."),
}


def page() -> str:
    lines = opening("Metrics", "posthouse.metrics.catalogue")
    lines += ["[Monitoring](../monitoring.md) describes how to collect and use these metrics.", ""]
    for scope, (title, what) in SCOPES.items():
        rows = [
            (f"`{item.name}`", item.kind, ", ".join(item.labels) or "-", item.help)
            for item in METRICS
            if item.scope == scope
        ]
        lines += [f"## {title}", "", what, "", *table(("metric", "type", "labels", "meaning"), rows)]
    return text(lines)

"""docs/reference/metrics.md, from the catalogue of metrics."""

from __future__ import annotations

from docpages.markdown import opening, table, text
from posthouse.metrics.catalogue import METRICS

PLACES = {
    "database": (
        "Of the whole",
        (
            "Read from the database, the same from every server process. Counters and histograms are kept "
            "there, minute by minute: they go on after restarts, and are one to two minutes behind."
        ),
    ),
    "server": ("Of a server process", "At `/metrics` too, beside `process_…` and `python_gc_…`."),
    "worker": ("Of a worker", "With `posthouse worker --metrics-port PORT`."),
    "keeper": ("Of a keeper", "With `posthouse keeper --metrics-port PORT`; a worker has them too."),
}


def page() -> str:
    lines = opening("Metrics", "posthouse.metrics.catalogue")
    lines += ["How to collect and use them: [monitoring](../monitoring.md).", ""]
    for place, (title, what) in PLACES.items():
        rows = [
            (f"`{item.name}`", item.kind, ", ".join(item.labels) or "-", item.help)
            for item in METRICS
            if item.place == place
        ]
        lines += [f"## {title}", "", what, "", *table(("metric", "type", "labels", "what it is"), rows)]
    return text(lines)

"""What promtool's check of metrics would say, by its rules."""

from __future__ import annotations

import re

UNITS = {
    "milliseconds": "seconds", "minutes": "seconds", "hours": "seconds", "days": "seconds", "ms": "seconds",
    "kilobytes": "bytes", "megabytes": "bytes", "kb": "bytes", "mb": "bytes", "percent": "ratio",
    "bits": "bytes", "us": "seconds", "ns": "seconds",
}  # fmt: skip
TYPES = ("gauge", "counter", "histogram", "summary", "untyped")
NAME = re.compile(r"[a-z][a-z0-9_]*")
RESERVED = {"histogram": ("le",), "summary": ("quantile",)}


def problems(families):
    """A line for each rule that a family breaks."""
    found = []
    seen = set()
    for family in families:
        name = family.name + ("_total" if family.type == "counter" else "")
        words = name.split("_")
        labels = {label for sample in family.samples for label in sample.labels}
        rules = {
            "no help text": not family.documentation,
            "no type": family.type in {"unknown", "untyped"},
            "told twice": name in seen,
            "not snake case": not NAME.fullmatch(name),
            "only counters end in _total": family.type != "counter" and name.endswith("_total"),
            "counters end in _total": family.type == "counter" and not name.endswith("_total"),
            "reserved ending": family.type not in {"histogram", "summary"}
            and name.endswith(("_bucket", "_count", "_sum")),
            "reserved label": any(
                label in labels and family.type != kind for kind, names in RESERVED.items() for label in names
            ),
            "label not snake case": any(not NAME.fullmatch(label) for label in labels),
            "no base unit": any(word in UNITS for word in words),
            "its type in its name": any(word in TYPES for word in words),
            "abbreviated unit": any(word in {"s", "sec", "secs", "b"} for word in words),
        }
        found += [f"{name}: {rule}" for rule, broken in rules.items() if broken]
        seen.add(name)
    return found

"""Compares shown output with real output: ids, times and names of machines may differ."""

from __future__ import annotations

import re

_MASKS = (
    (re.compile(r"\x1b\[[0-9;?]*[A-Za-z]"), ""),
    (re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"), "<id>"),
    (re.compile(r"\b\d{4}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|\+\d\d:?\d\d)?)?"), "<time>"),
    (re.compile(r"\b\d\d:\d\d:\d\d\b"), "<time>"),
    (re.compile(r"\b[\w.-]+:\d{2,7}\b"), "<host:pid>"),
    (re.compile(r"\b\d+(\.\d+)? ?(ms|s|m|h|d)\b"), "<duration>"),
    (re.compile(r"<duration> ago|\bnow\b"), "<when>"),
    (re.compile(r"[─━═-]{2,}"), "--"),
    (re.compile(r"[ \t]+"), " "),
)


def masked(text: str) -> str:
    for pattern, replacement in _MASKS:
        text = pattern.sub(replacement, text)
    return "\n".join(line.strip() for line in text.splitlines() if line.strip())


def output_matches(shown: str, real: str) -> bool:
    """Whether the shown output could be the real one. ``…`` stands for anything, lines too."""
    pattern = ".*?".join(re.escape(part) for part in re.split(r"\n?…\n?", masked(shown)))
    return re.fullmatch(pattern, masked(real), re.DOTALL) is not None

"""A line of text in an image."""

from __future__ import annotations

from typing import NamedTuple


class Box(NamedTuple):
    x: int
    y: int
    width: int
    height: int


class Line(NamedTuple):
    text: str
    confidence: float
    box: Box

"""Follows texts from frame to frame, to read only what may have changed.

A text is known by its picture. Where the same picture is found again, at its old position or moved, nothing
is read again, even if everything around it has changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import cv2
import numpy as np
import numpy.typing as npt

from vision.detector import overlap_share

Grey: TypeAlias = npt.NDArray[np.uint8]
Rectangle: TypeAlias = tuple[float, ...]

PATCH_HEIGHT = 24
"""Height to which pictures of texts are scaled; about two letters are as wide."""
MIN_CORRELATION = 0.75
"""Least correlation of each window with the known one."""
MAX_EDGE_GROWTH = 1.3
"""Factor by which edges must grow to read a text again: it faded in, or the camera came to rest."""
MIN_SIDE = 2
"""Least width and height of a text in pixels."""
MIN_CONTRAST = 6.0
"""Grey levels by which a window between two words deviates at most: it has nothing to compare."""
MIN_COVERAGE = 0.6
"""Share of a found box that must lie in a known text."""
MAX_MOVE = 1.0
"""Distance by which a text may move between two looks, in heights of the text."""


@dataclass
class KnownText:
    """A text as it looked when it was read."""

    box: Rectangle
    patch: Grey
    edges: float


class KnownTexts:
    """The texts of the last frame that was read."""

    def __init__(self) -> None:
        self._texts: list[KnownText] = []

    def __bool__(self) -> bool:
        return bool(self._texts)

    def replace(self, grey: Grey, boxes: Sequence[Rectangle]) -> None:
        """Remember the texts of a frame that will be read."""
        self._texts = [_known_text(grey, box) for box in boxes if _is_large_enough(box)]

    def match(self, grey: Grey, boxes: Sequence[Rectangle]) -> bool:
        """Return whether a frame has the known texts and no others, given the boxes found in it."""
        visible = [box for box in boxes if _is_large_enough(box)]
        for text in self._texts:
            if not (_is_still_there(text, grey) or _has_moved(text, grey, visible)):
                return False
        return all(
            any(overlap_share(box, text.box) >= MIN_COVERAGE for text in self._texts) for box in visible
        )


def _known_text(grey: Grey, box: Rectangle) -> KnownText:
    patch = _patch(grey, box)
    return KnownText(box, patch, _edges(patch))


def _is_still_there(text: KnownText, grey: Grey) -> bool:
    return _is_same(text, _patch(grey, text.box))


def _has_moved(text: KnownText, grey: Grey, boxes: Sequence[Rectangle]) -> bool:
    """Look for a known text near its old position, among the boxes that were found, and follow it."""
    height = text.box[3] - text.box[1]
    for box in boxes:
        if abs(box[3] - box[1] - height) > 0.5 * height or _distance(box, text.box) > MAX_MOVE * height:
            continue
        found = _best_box(text, grey, box, height)
        if found is not None and _is_same(text, _patch(grey, found)):
            text.box = found
            return True
    return False


def _best_box(text: KnownText, grey: Grey, box: Rectangle, height: float) -> Rectangle | None:
    """Return where the picture of the text fits best around a box."""
    around = _clipped(grey, tuple(np.add(box, (-height, -height / 2, height, height / 2))))
    scale = PATCH_HEIGHT / height
    area = cv2.resize(_cut_out(grey, around), None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA)
    if area.shape[0] < text.patch.shape[0] or area.shape[1] < text.patch.shape[1]:
        return None
    correlations = cv2.matchTemplate(area, text.patch, cv2.TM_CCOEFF_NORMED)
    _, best, _, (left, top) = cv2.minMaxLoc(correlations)
    if best < MIN_CORRELATION:
        return None
    x, y = around[0] + left / scale, around[1] + top / scale
    return x, y, x + text.box[2] - text.box[0], y + height


def _is_same(text: KnownText, patch: Grey) -> bool:
    """Return whether all windows of two pictures correlate: a changed digit is one of many."""
    if patch.shape != text.patch.shape or _edges(patch) > MAX_EDGE_GROWTH * text.edges:
        return False
    columns = patch.shape[1]
    starts = range(0, max(1, columns - PATCH_HEIGHT // 2), PATCH_HEIGHT // 2)
    return all(
        _correlation(text.patch[:, start : start + PATCH_HEIGHT], patch[:, start : start + PATCH_HEIGHT])
        >= MIN_CORRELATION
        for start in starts
    )


def _correlation(one: Grey, other: Grey) -> float:
    a, b = one.astype(np.float32) - one.mean(), other.astype(np.float32) - other.mean()
    if max(a.std(), b.std()) < MIN_CONTRAST:
        return 1.0
    size = float(np.sqrt((a * a).sum() * (b * b).sum()))
    return float((a * b).sum()) / size if size else 0.0


def _edges(patch: Grey) -> float:
    return float(np.abs(np.diff(patch.astype(np.int16), axis=1)).mean()) + 1.0


def _patch(grey: Grey, box: Rectangle) -> Grey:
    height = max(1.0, box[3] - box[1])
    width = max(PATCH_HEIGHT, round((box[2] - box[0]) * PATCH_HEIGHT / height))
    cut = _cut_out(grey, _clipped(grey, box))
    patch: Grey = cv2.resize(cut, (width, PATCH_HEIGHT), interpolation=cv2.INTER_AREA)
    return patch


def _clipped(grey: Grey, box: Rectangle) -> Rectangle:
    """Return the part of a rectangle inside of the frame, at least one pixel."""
    rows, columns = grey.shape
    left, top = min(max(0, round(box[0])), columns - 1), min(max(0, round(box[1])), rows - 1)
    return left, top, max(left + 1, min(columns, round(box[2]))), max(top + 1, min(rows, round(box[3])))


def _cut_out(grey: Grey, box: Rectangle) -> Any:
    left, top, right, bottom = (int(side) for side in box)
    return grey[top:bottom, left:right]


def _distance(one: Rectangle, other: Rectangle) -> float:
    return max(abs(one[0] - other[0]), abs(one[1] - other[1]))


def _is_large_enough(box: Rectangle) -> bool:
    return box[2] - box[0] >= MIN_SIDE and box[3] - box[1] >= MIN_SIDE

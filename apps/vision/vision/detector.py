"""Finds where text is in an image, with the detector of the bundled model."""

from __future__ import annotations

import ctypes
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import cv2
import numpy as np
import numpy.typing as npt

from vision.settings import model

Image: TypeAlias = npt.NDArray[np.uint8]
Boxes: TypeAlias = npt.NDArray[np.float32]
"""Four corners per text: shape (n, 4, 2)."""

READ_PIXELS = 8
"""Height of the smallest text in the image that the detector gets. Measured with ``python -m vision.bench``:
with 8, all texts of 16 pixels are found from 720p to 4K; with 5, up to 8 % are missed."""
MAX_PIXELS = 600_000
"""Largest image for the detector, which bounds its memory: 1280 x 720 needs 600 MB, 640 x 360 300 MB."""
STRIP_OVERLAP = 48
"""Rows that neighbouring strips share. Text that is taller is found in the reduced image."""
DUPLICATE_SHARE = 0.5
"""Share of a box that must lie in another one to be the same text."""
MIN_TRUSTED_HEIGHT = 20
"""Least height of text that the reduced image is trusted with."""
_GRID = 32
_M_MMAP_THRESHOLD, _LARGE_BYTES = -3, 4 * 2**20
_NO_BOXES: Boxes = np.zeros((0, 4, 2), np.float32)


def detect_boxes_scaled(image: Image, scale: float) -> Boxes:
    """Return the boxes of texts, in pixels of the image. The detector sees it reduced by ``scale``."""
    height, width = image.shape[:2]
    sides = round_to_grid(width * scale), round_to_grid(height * scale)
    small = image if sides == (width, height) else cv2.resize(image, sides, interpolation=cv2.INTER_AREA)
    return detect_boxes(small) * np.array([width / sides[0], height / sides[1]], np.float32)


def round_to_grid(side: float) -> int:
    """Return the nearest length that the detector accepts."""
    return max(_GRID, round(side / _GRID) * _GRID)


def detect_boxes(image: Any) -> Boxes:
    """Return the boxes of texts. A large image is divided into strips of its full width."""
    height, width = image.shape[:2]
    if height * width <= MAX_PIXELS:
        return _detect(image)
    whole = detect_boxes_scaled(image, (MAX_PIXELS / (height * width)) ** 0.5)
    found = list(whole[box_heights(whole) >= MIN_TRUSTED_HEIGHT])
    rows = max(_GRID * 4, MAX_PIXELS // width // _GRID * _GRID)
    for top in range(0, height - STRIP_OVERLAP, rows - STRIP_OVERLAP):
        bottom = min(height, top + rows)
        strip = _detect(image[top:bottom]) + np.array([0, top], np.float32)
        found += [
            box for box in strip if _is_whole(box, top, bottom, height) and not _is_duplicate(box, found)
        ]
    return np.stack(found) if found else _NO_BOXES


def box_heights(boxes: Boxes) -> npt.NDArray[np.float32]:
    """Return the heights of boxes: the shorter side, as text may be slanted."""
    sides = np.linalg.norm(boxes - np.roll(boxes, 1, axis=1), axis=2)
    return sides.min(axis=1) if len(boxes) else np.zeros(0, np.float32)


def bounds(box: Any) -> tuple[float, float, float, float]:
    """Return left, top, right and bottom of a box."""
    (left, top), (right, bottom) = box.min(axis=0), box.max(axis=0)
    return float(left), float(top), float(right), float(bottom)


def overlap_share(one: tuple[float, ...], other: tuple[float, ...]) -> float:
    """Return the share of the first rectangle that lies in the second one."""
    width = min(one[2], other[2]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[1], other[1])
    area = (one[2] - one[0]) * (one[3] - one[1])
    return width * height / area if width > 0 and height > 0 and area > 0 else 0.0


def _is_whole(box: Any, top: int, bottom: int, height: int) -> bool:
    """Return whether the strip did not cut the box."""
    _, above, _, below = bounds(box)
    return (above > top + 1 or top == 0) and (below < bottom - 1 or bottom == height)


def _is_duplicate(box: Any, found: list[Any]) -> bool:
    return any(overlap_share(bounds(box), bounds(other)) > DUPLICATE_SHARE for other in found)


def _detect(image: Any) -> Boxes:
    height, width = image.shape[:2]
    missing = -height % _GRID, -width % _GRID
    if any(missing):
        image = np.pad(image, ((0, missing[0]), (0, missing[1]), (0, 0)), mode="edge")
    boxes = engine()(image, use_det=True, use_cls=False, use_rec=False).boxes
    return _NO_BOXES if boxes is None else np.asarray(boxes, np.float32)


class ModelUnavailable(Exception):
    """The model that VISION_MODEL names cannot be loaded."""


def engine() -> Any:
    """Return the OCR engine, one per process."""
    return _engine(model())


@cache
def _engine(folder: str) -> Any:
    """Return the engine with the model in a folder; empty: with that of the package.

    It must not scale or classify: lines of video text are upright.
    """
    from rapidocr import RapidOCR  # noqa: PLC0415 - slow import, needed by few jobs

    _return_large_buffers()
    own = {f"{part}.model_path": str(Path(folder) / f"{part.lower()}.onnx") for part in ("Det", "Rec")}
    params: dict[str, Any] = {
        "Global.use_cls": False,
        "Global.text_score": 0.0,  # min_confidence decides
        "Global.log_level": "error",
        "Global.max_side_len": 100_000,
        "Global.use_vertical_padding": False,
        "Det.limit_type": "min",
        "Det.limit_side_len": _GRID,
        "EngineConfig.onnxruntime.intra_op_num_threads": 1,  # one process per core
    }
    if not folder:
        return RapidOCR(params=params)
    try:
        found = RapidOCR(params=params | own)
        blank = np.zeros((_GRID, _GRID, 3), np.uint8)  # it loads the files when they are used first
        found(blank, use_det=True, use_cls=False, use_rec=False)
        found.recognize_txt([blank])
    except Exception as error:  # noqa: BLE001 - of several libraries
        raise ModelUnavailable(
            f"cannot load the model {folder!r} that VISION_MODEL names: {error}; expected a folder with "
            "det.onnx and rec.onnx, PaddleOCR models in the format of RapidOCR"
        ) from None
    return found


def _return_large_buffers() -> None:
    """Make glibc return large buffers to the system at once.

    By default it keeps buffers of up to 32 MB in a heap that fragments: with frames of 720p, a job process
    grew to 2.5 GB within 200 frames, instead of 0.3 GB.
    """
    with suppress(OSError, AttributeError):  # other C libraries
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)

"""The OCR engine that is part of the package: Latin letters, Chinese and Japanese."""

from __future__ import annotations

import cv2
import numpy as np

from vision.detector import READ_PIXELS, Image, bounds, detect_boxes_scaled, engine
from vision.lines import Box, Line
from vision.settings import model_languages, ocr_text_height

LANGUAGES = frozenset({
    "eng", "deu", "fra", "spa", "ita", "por", "nld", "dan", "swe", "nor", "fin", "pol", "ces", "hun", "tur",
    "ron", "chi_sim", "chi_tra", "jpn",
})  # fmt: skip


def languages() -> frozenset[str]:
    """Return the languages that the model reads."""
    return model_languages() or LANGUAGES


def read_lines(picture: bytes) -> list[Line]:
    """Return the lines of text in an image, from top to bottom.

    Texts are found in a reduced image and recognized in the pixels of the original.
    """
    image = cv2.imdecode(np.frombuffer(picture, np.uint8), cv2.IMREAD_COLOR)
    if image is None:
        return []
    return read_image(image.astype(np.uint8, copy=False), min(1.0, READ_PIXELS / ocr_text_height()))


def read_image(image: Image, scale: float) -> list[Line]:
    boxes = detect_boxes_scaled(image, scale)
    if not len(boxes):
        return []
    found = engine().recognize_txt(engine().crop_text_regions(image, boxes))
    lines = [
        Line(text.strip(), round(float(score), 4), _box(bounds(corners)))
        for text, score, corners in zip(found.txts, found.scores, boxes, strict=True)
    ]
    return sorted(lines, key=lambda line: (line.box.y, line.box.x))


def _box(sides: tuple[float, ...]) -> Box:
    left, top, right, bottom = (int(side) for side in sides)
    return Box(left, top, right - left, bottom - top)

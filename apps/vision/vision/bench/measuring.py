"""The measurements. Each yields rows of a table."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from vision.bench.scenes import SIZES, moving, page, write_video
from vision.detector import READ_PIXELS
from vision.entities import normalize
from vision.frame_sampler import KeptFrame, sample_frames
from vision.ocr import read
from vision.settings import ocr_text_height

HEIGHTS = (12, 16, 24, 48)
LINES = 12
PAGES = 2
ENGLISH = ["eng"]
CONFIDENCE = 0.6
THRESHOLD = 0.95

Row = dict[str, Any]


def reading() -> Iterator[Row]:
    """Recall, precision and CPU seconds per picture, by resolution and height of the text."""
    _read(page(SIZES["720p"], 24, 1, 0)[0])  # loads the models
    for name, size in SIZES.items():
        for height in HEIGHTS:
            yield {"resolution": name, "text height": f"{height} px", **_measure_pages(size, height)}


def _measure_pages(size: tuple[int, int], height: int) -> Row:
    right = found = written = 0
    spent = 0.0
    for seed in range(PAGES):
        picture, texts = page(size, height, LINES, seed)
        began = time.process_time()
        got = _read(picture)
        spent += time.process_time() - began
        expected = {normalize(text) for text in texts}
        right, found, written = right + len(got & expected), found + len(got), written + len(expected)
    return {
        "recall": f"{right / written:.2f}",
        "precision": f"{right / max(found, 1):.2f}",
        "CPU s per frame": f"{spent / PAGES:.2f}",
    }


def selection(folder: Path, seconds: int = 30) -> Iterator[Row]:
    """Share of sampled frames that are read where everything moves, and the recall of captions."""
    for name in ("720p", "1080p"):
        for texts in (False, True):
            pictures, captions = moving(SIZES[name], seconds, texts=texts)
            video = folder / f"{name}-{texts}.mp4"
            write_video(video, SIZES[name], pictures)
            for fps in (10, 1):
                yield {
                    "footage": _footage(name, texts=texts),
                    "fps": fps,
                    **_measure_video(video, fps, seconds, captions),
                }


def _footage(name: str, *, texts: bool) -> str:
    return f"{name}, moving, {'with captions' if texts else 'no text'}"


def _measure_video(video: Path, fps: int, seconds: int, captions: list[str]) -> Row:
    began, sampled = time.process_time(), 0
    pictures = []
    for found in sample_frames(video, fps, THRESHOLD):
        sampled += 1
        if isinstance(found, KeptFrame):
            pictures.append(found.jpeg)
    looked = time.process_time()
    got = {text for picture in pictures for text in _read(picture)}
    ended = time.process_time()
    expected = {normalize(text) for text in captions}
    return {
        "frames read": f"{len(pictures)} of {sampled} ({len(pictures) / sampled:.0%})",
        "recall": f"{len(got & expected) / len(expected):.2f}" if expected else "",
        "precision": f"{len(got & expected) / max(len(got), 1):.2f}" if expected else "",
        "CPU s per s: sample": f"{(looked - began) / seconds:.2f}",
        "ocr": f"{(ended - looked) / seconds:.2f}",
    }


def _read(picture: bytes) -> set[str]:
    return {normalize(line.text) for line in read(picture, ENGLISH, CONFIDENCE)}


def scale() -> str:
    return f"texts of {ocr_text_height()} pixels are {READ_PIXELS} pixels high for the detector"

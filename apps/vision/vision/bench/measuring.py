"""The measurements. Each yields rows of a table."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from vision.bench.scenes import SIZES, moving_footage, text_page, write_video
from vision.detector import READ_PIXELS
from vision.entities import normalize
from vision.frame_sampler import KeptFrame, sample_frames
from vision.ocr import read_text
from vision.settings import ocr_text_height

HEIGHTS = (12, 16, 24, 48)
LINES = 12
PAGES = 2
ENGLISH = ["eng"]
CONFIDENCE = 0.6
THRESHOLD = 0.95

Row = dict[str, Any]


def measure_reading() -> Iterator[Row]:
    """Recall, precision and CPU seconds per picture, by resolution and height of the text."""
    _read_texts(text_page(SIZES["720p"], 24, 1, 0)[0])  # loads the models
    for name, size in SIZES.items():
        for height in HEIGHTS:
            yield {"resolution": name, "text height": f"{height} px", **_measure_pages(size, height)}


def _measure_pages(size: tuple[int, int], height: int) -> Row:
    right = found = written = 0
    spent = 0.0
    for seed in range(PAGES):
        picture, texts = text_page(size, height, LINES, seed)
        started = time.process_time()
        found_texts = _read_texts(picture)
        spent += time.process_time() - started
        expected = {normalize(text) for text in texts}
        right, found, written = (
            right + len(found_texts & expected),
            found + len(found_texts),
            written + len(expected),
        )
    return {
        "recall": f"{right / written:.2f}",
        "precision": f"{right / max(found, 1):.2f}",
        "CPU s per frame": f"{spent / PAGES:.2f}",
    }


def measure_selection(folder: Path, seconds: int = 30) -> Iterator[Row]:
    """Share of sampled frames that are read where everything moves, and the recall of captions."""
    for name in ("720p", "1080p"):
        for texts in (False, True):
            pictures, captions = moving_footage(SIZES[name], seconds, texts=texts)
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
    started, sampled = time.process_time(), 0
    pictures = []
    for found in sample_frames(video, fps, THRESHOLD):
        sampled += 1
        if isinstance(found, KeptFrame):
            pictures.append(found.jpeg)
    sampled_at = time.process_time()
    found_texts = {text for picture in pictures for text in _read_texts(picture)}
    ended = time.process_time()
    expected = {normalize(text) for text in captions}
    return {
        "frames read": f"{len(pictures)} of {sampled} ({len(pictures) / sampled:.0%})",
        "recall": f"{len(found_texts & expected) / len(expected):.2f}" if expected else "",
        "precision": f"{len(found_texts & expected) / max(len(found_texts), 1):.2f}" if expected else "",
        "CPU s per s: sample": f"{(sampled_at - started) / seconds:.2f}",
        "ocr": f"{(ended - sampled_at) / seconds:.2f}",
    }


def _read_texts(picture: bytes) -> set[str]:
    return {normalize(line.text) for line in read_text(picture, ENGLISH, CONFIDENCE)}


def describe_scale() -> str:
    return f"texts of {ocr_text_height()} pixels are {READ_PIXELS} pixels high for the detector"

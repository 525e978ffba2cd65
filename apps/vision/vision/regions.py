"""The texts of frames as rows of vision.segments, and thumbnails of frames that have some."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

from vision import paths
from vision.entities import normalize, text_hash
from vision.ocr import language_of, read_text
from vision.spans import Span
from vision.storage import NotStored, storage

THUMB_SIDE = 320


def read_regions(span: Span, languages: Sequence[str], min_confidence: float) -> list[dict[str, Any]]:
    return [
        {
            "t_start": span.t_start,
            "t_end": span.t_end,
            "text": line.text,
            "normalized_text": normalize(line.text),
            "text_hash": text_hash(normalize(line.text)),
            "confidence": line.confidence,
            "bounding_box": line.box._asdict(),
            "language": language_of(line.text, languages),
        }
        for line in read_text(storage().read(span.path, "Frame"), languages, min_confidence)
    ]


def publish_thumbs(video_id: UUID, timestamps: Iterable[int]) -> None:
    """Store small pictures of these frames. Frames that are already removed have theirs."""
    wanted = {timestamp: paths.thumb(video_id, timestamp) for timestamp in timestamps}
    for timestamp, thumb in wanted.items():
        try:
            storage().put(thumb, _thumbnail(storage().read(paths.frame(video_id, timestamp))))
        except NotStored:
            continue
    storage().keep_only(paths.thumbs(video_id), [*wanted.values(), paths.poster(video_id)])


def _thumbnail(picture: bytes) -> bytes:
    from PIL import Image  # noqa: PLC0415 - needed by few jobs

    with Image.open(io.BytesIO(picture)) as image:
        image.draft("RGB", (THUMB_SIDE, THUMB_SIDE))
        image.thumbnail((THUMB_SIDE, THUMB_SIDE))
        buffer = io.BytesIO()
        image.save(buffer, "JPEG", quality=80)
    return buffer.getvalue()

"""Text search in videos: transcode, sample, ocr, segment_index; then search, and clips on demand."""

from vision.handlers import app

__all__ = ["app"]

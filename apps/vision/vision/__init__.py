"""Text search in videos: transcode, sample, ocr, segment_index; then search, and clips on demand."""

import os

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # onnxruntime reports its use to Microsoft when imported

from vision.handlers import app

__all__ = ["app"]

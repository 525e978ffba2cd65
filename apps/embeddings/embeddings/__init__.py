"""Rules as vectors: a database trigger enqueues, a batch handler embeds, pgvector finds similar rules."""

import os

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # onnxruntime reports its use to Microsoft when imported

from embeddings.handlers import app

__all__ = ["app"]

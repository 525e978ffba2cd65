"""Rules as vectors: a database trigger enqueues, a batch handler embeds, pgvector finds similar rules."""

from embeddings.handlers import app

__all__ = ["app"]

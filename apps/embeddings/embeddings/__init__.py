"""Rules as vectors: a database trigger enqueues, a batch handler embeds, pgvector finds what is near."""

from embeddings.handlers import app

__all__ = ["app"]

"""Ollama: POST /api/embed accepts a list of texts."""

from __future__ import annotations

from collections.abc import Sequence

from embeddings.providers.base import Vector
from embeddings.providers.client import post_json, validate_vectors
from embeddings.settings import Settings


class Ollama:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    async def embed(self, model: str, texts: Sequence[str]) -> list[Vector]:
        found = await post_json(self._settings, "/api/embed", {"model": model, "input": list(texts)})
        return validate_vectors(found.get("embeddings"), len(texts))

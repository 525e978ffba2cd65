"""OpenAI-compatible APIs: POST /embeddings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from embeddings.providers.base import Vector
from embeddings.providers.client import post_json, validate_vectors
from embeddings.settings import DIMENSIONS, Settings

SHORTENED = "text-embedding-3"
"""Models with this prefix accept a `dimensions` parameter; others reject it."""


class OpenAI:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    async def embed(self, model: str, texts: Sequence[str]) -> list[Vector]:
        body: dict[str, Any] = {"model": model, "input": list(texts), "encoding_format": "float"}
        if model.startswith(SHORTENED):
            body["dimensions"] = DIMENSIONS
        found = await post_json(self._settings, "/embeddings", body)
        return validate_vectors(_in_order(found.get("data")), len(texts))


def _in_order(items: Any) -> Any:
    """Return the vectors in order: the protocol numbers them but guarantees no order."""
    try:
        return [item["embedding"] for item in sorted(items, key=lambda item: item["index"])]
    except (TypeError, KeyError):
        raise ValueError("invalid response of the provider: expected a list of vectors") from None
